/* What the tests of errors share: two contexts, arrays that must stay as they are, and refused().
 */
#ifndef LO_TEST_ERRORS_H
#define LO_TEST_ERRORS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/is.h"

static layerops_context *ctx, *other; /* on cpu and on reference: two devices */

enum { N = 4096 };
static float in[N], out[N], more[N], third[N], fourth[N];
static layerops_buffer *small, *foreign; /* of 64 bytes on cpu; on reference */

static inline layerops_matrix view(const float *host, int64_t rows, int64_t cols) {
  return layerops_host_matrix(host, LAYEROPS_F32, rows, cols);
}

static inline int untouched(void) {
  for (int i = 0; i < N; i++)
    if (out[i] != 7 || more[i] != 7 || third[i] != 7 || fourth[i] != 7) return 0;
  return 1;
}

static inline void reset(void) {
  for (int i = 0; i < N; i++) out[i] = more[i] = third[i] = fourth[i] = 7;
}

/* The status, and each of the parts in the message, which begins with the function's name. */
static inline void refused(const char *what, const char *function, layerops_status status,
                           layerops_status wanted, const char *const *parts) {
  const char *message = layerops_last_error();
  int good = status == wanted && !strncmp(message, function, strlen(function)) && untouched();
  for (int i = 0; parts[i]; i++) good = good && strstr(message, parts[i]);
  if (ok(good, "%s", what)) return;
  diag("%s (wanted %s): \"%s\"%s", layerops_status_name(status), layerops_status_name(wanted),
       message, untouched() ? "" : "; something was written");
  for (int i = 0; parts[i]; i++) diag("  to be in it: \"%s\"", parts[i]);
  reset();
}

#define LIST(...)               ((const char *const[]){__VA_ARGS__, NULL})
#define GETS(call, status, ...) refused(#call, "", call, LAYEROPS_ERROR_##status, LIST(__VA_ARGS__))

static inline int errors_begin(void) {
  if (layerops_open("cpu", &ctx) || layerops_open("reference", &other))
    return ok(0, "cpu and reference open: %s", layerops_last_error());
  reset();
  return ok(!layerops_buffer_create(ctx, 64, &small) &&
                !layerops_buffer_create(other, 1024, &foreign),
            "two buffers");
}

static inline int errors_end(void) {
  layerops_buffer_destroy(small);
  layerops_buffer_destroy(foreign);
  layerops_close(ctx);
  layerops_close(other);
  return done();
}

#endif
