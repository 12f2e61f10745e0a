/* Contexts, buffers, events, recording and logging on every device; allocator, threads and listing
 * where the device is the host. */
#include <config.h>

#include <stdlib.h>

#include "t/devices.h"
#include "t/is.h"

enum { N = 1000 };
static float ramp[N], seen[N];

#define WORKS(call)                                                                                \
  do {                                                                                             \
    if (call) diag("%s:%d: %s: %s", __FILE__, __LINE__, #call, layerops_last_error());             \
  } while (0)

static int filled(float value) {
  for (int i = 0; i < N; i++)
    if (seen[i] != value) return 0;
  return 1;
}

static layerops_status fill(layerops_context *ctx, layerops_buffer *b, double value) {
  layerops_fill_args args = {.y = layerops_vector_f32(b, N), .value = layerops_value(value)};
  return layerops_fill(ctx, &args);
}

/* y = 2 x */
static layerops_status twice(layerops_context *ctx, layerops_buffer *x, layerops_buffer *two,
                             layerops_buffer *y) {
  layerops_gemm_args args = {.a = layerops_matrix_f32(x, N, 1),
                             .b = layerops_matrix_f32(two, 1, 1),
                             .c = layerops_matrix_f32(y, N, 1)};
  return layerops_gemm(ctx, &args);
}

static void test_buffers(const char *device, layerops_context *ctx) {
  layerops_buffer *b = NULL, *empty = NULL;
  ok(!layerops_buffer_from(ctx, ramp, sizeof ramp, &b) && layerops_buffer_bytes(b) == sizeof ramp,
     "%s: a buffer with content", device);
  ok(!layerops_buffer_read(ctx, b, seen, sizeof seen) && !memcmp(seen, ramp, sizeof ramp),
     "%s: is read back", device);
  const float part[] = {-1, -2, -3};
  WORKS(layerops_buffer_write_at(ctx, b, 40, part, sizeof part));
  WORKS(layerops_buffer_read_at(ctx, b, 36, seen, 20));
  ok(seen[0] == 9 && seen[1] == -1 && seen[3] == -3 && seen[4] == 13,
     "%s: a part is written and read", device);
  ok(layerops_buffer_native(b) != NULL, "%s: a buffer has a native handle", device);
  ok(!layerops_buffer_create(ctx, 0, &empty) && !layerops_buffer_read(ctx, empty, NULL, 0),
     "%s: a buffer may be empty", device);
  layerops_buffer *view = NULL;
  WORKS(layerops_buffer_wrap(ctx, layerops_buffer_native(b), sizeof ramp, &view));
  WORKS(fill(ctx, view, 5));
  ok(!layerops_buffer_read(ctx, b, seen, sizeof seen) && filled(5),
     "%s: a wrapped native handle is the same memory", device);
  layerops_copy_args overlapping = {.x = layerops_vector_f32(b, N - 1),
                                    .y = layerops_vector_f32(view, N - 1)};
  overlapping.y.offset = 1;
  ok(layerops_copy(ctx, &overlapping) == LAYEROPS_ERROR_ALIAS, "%s: and its overlap is seen",
     device);
  layerops_buffer_destroy(view);
  layerops_buffer_destroy(empty);
  layerops_buffer_destroy(b);
}

/* A buffer outlives the context that made it, and its device's other contexts use it. */
static void test_sharing(const char *device, layerops_context *ctx) {
  layerops_context *first = NULL, *second = NULL;
  layerops_buffer *b = NULL;
  WORKS(layerops_open(device, &first));
  WORKS(layerops_open(device, &second));
  WORKS(layerops_buffer_create(first, sizeof ramp, &b));
  WORKS(fill(first, b, 3));
  ok(!layerops_wait(second, first), "%s: a context waits for another", device);
  layerops_activation_forward_args args = {.x = layerops_vector_f32(b, N),
                                           .y = layerops_vector_f32(b, N),
                                           .activation = LAYEROPS_LEAKY_RELU,
                                           .slope = layerops_value(2)};
  WORKS(layerops_activation_forward(second, &args));
  layerops_close(first);
  ok(!layerops_buffer_read(second, b, seen, sizeof seen) && filled(3),
     "%s: a buffer outlives its context", device);
  layerops_close(second);
  ok(!layerops_buffer_read(ctx, b, seen, sizeof seen) && filled(3), "%s: and the next", device);
  layerops_buffer_destroy(b);
}

static void test_events(const char *device, layerops_context *ctx) {
  layerops_event *start = NULL, *stop = NULL;
  layerops_buffer *b = NULL;
  double ms = -1;
  WORKS(layerops_buffer_create(ctx, sizeof ramp, &b));
  ok(!layerops_event_create(ctx, &start) && !layerops_event_create(ctx, &stop), "%s: events",
     device);
  WORKS(layerops_event_record(start));
  WORKS(fill(ctx, b, 4));
  WORKS(layerops_event_record(stop));
  ok(!layerops_event_wait(stop), "%s: an event is waited for", device);
  ok(!layerops_event_elapsed(start, stop, &ms) && ms >= 0 && ms < 60e3,
     "%s: %g ms between two events", device, ms);
  WORKS(layerops_event_record(stop));
  ok(!layerops_event_wait(stop), "%s: an event is recorded again", device);
  layerops_event_destroy(start);
  layerops_event_destroy(stop);
  layerops_buffer_destroy(b);
}

static void test_replay(const char *device, layerops_context *ctx) {
  layerops_buffer *x = NULL, *y = NULL, *two = NULL;
  layerops_graph *graph = NULL, *none = NULL;
  const float value = 2;
  WORKS(layerops_buffer_create(ctx, sizeof ramp, &x));
  WORKS(layerops_buffer_create(ctx, sizeof ramp, &y));
  WORKS(layerops_buffer_from(ctx, &value, sizeof value, &two));
  WORKS(fill(ctx, x, 1));
  WORKS(fill(ctx, y, 1));
  WORKS(layerops_record_begin(ctx));
  WORKS(twice(ctx, x, two, y));
  WORKS(twice(ctx, y, two, x));
  WORKS(layerops_record_end(ctx, &graph));
  ok(!layerops_buffer_read(ctx, x, seen, sizeof seen) && filled(1), "%s: recording does not run",
     device);
  int good = 1;
  float expected = 1;
  for (int i = 0; i < 5; i++) {
    good = good && !layerops_graph_replay(graph);
    expected *= 4;
    good = good && !layerops_buffer_read(ctx, x, seen, sizeof seen) && filled(expected);
  }
  ok(good, "%s: five replays of two calls, in order", device);
  const float three = 3;
  WORKS(layerops_buffer_write(ctx, two, &three, sizeof three));
  WORKS(layerops_graph_replay(graph));
  ok(!layerops_buffer_read(ctx, x, seen, sizeof seen) && filled(9 * expected),
     "%s: a replay reads what the buffers hold then", device);
  layerops_graph_destroy(graph);
  WORKS(layerops_record_begin(ctx));
  ok(!layerops_record_end(ctx, &none) && !layerops_graph_replay(none),
     "%s: an empty recording replays", device);
  layerops_graph_destroy(none);
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(y);
  layerops_buffer_destroy(two);
}

static void test_host_views(const char *device, layerops_context *ctx) {
  float y[N];
  layerops_copy_args args = {.x = layerops_host_matrix(ramp, LAYEROPS_F32, 10, N / 10),
                             .y = layerops_host_matrix(y, LAYEROPS_F32, 10, N / 10)};
  memset(y, 0, sizeof y);
  ok(!layerops_copy(ctx, &args) && !memcmp(y, ramp, sizeof y),
     "%s: with host views the call is done when it returns", device);
}

/* ---- logging ---- */

static char last_line[700];
static int lines, level_seen;
static void keep_line(void *user, int level, const char *line) {
  ++*(int *)user;
  level_seen = level;
  if (level == 1) snprintf(last_line, sizeof last_line, "%s", line);
  lines += strchr(line, '\n') != NULL;
}

static void test_log(const char *device) {
  int count = 0;
  layerops_context *ctx = NULL;
  layerops_buffer *b = NULL;
  layerops_open_args open = {.device = device, .log = keep_line, .log_user = &count, .verbose = 1};
  WORKS(layerops_open_with(&open, &ctx));
  WORKS(layerops_buffer_create(ctx, 3 * 64 * sizeof(float), &b));
  layerops_softmax_args args = {.x = layerops_matrix_f32(b, 3, 64),
                                .y = layerops_matrix_f32(b, 3, 64)};
  const float zeros[3 * 64] = {0};
  WORKS(layerops_buffer_write(ctx, b, zeros, sizeof zeros));
  ok(count == 0, "%s: buffers are not logged", device);
  WORKS(layerops_softmax(ctx, &args));
  ok(count == 1 && level_seen == 1 && !lines, "%s: one line a call, without a newline", device);
  contains(last_line, "layerops: softmax device=", "%s: the line names the operation", device);
  contains(last_line, device, "%s: the device", device);
  char kernel[120];
  snprintf(kernel, sizeof kernel, " kernel=%s ", layerops_last_kernel(ctx));
  contains(last_line, kernel, "%s: the kernel, as layerops_last_kernel does", device);
  ok(strlen(layerops_last_kernel(ctx)) > 0, "%s: which has a name", device);
  contains(last_line, " m=3 n=64 ", "%s: the sizes", device);
  contains(last_line, " type=f32 out=f32", "%s: the types", device);
  ok(strstr(last_line, " ms=") && strstr(last_line, " gflops="), "%s: and the times", device);
  args.log = 7;
  ok(layerops_softmax(ctx, &args) && count == 1, "%s: a refused call is not logged", device);
  layerops_buffer_destroy(b);
  layerops_close(ctx);
}

static void test_info(const char *device, layerops_context *ctx) {
  layerops_device_info info;
  ok(!layerops_context_info(ctx, &info) && !strcmp(info.name, device) && info.available,
     "%s: the context's device is described", device);
  ok(info.units > 0 && !info.reason[0], "%s: it has %d units", device, (int)info.units);
  for (int op = 1; op < LAYEROPS_OP_COUNT; op++)
    if (layerops_supports(ctx, (layerops_op)op, LAYEROPS_F32))
      ok(0, "%s: %s in f32: %s", device, layerops_op_name((layerops_op)op), layerops_last_error());
}

static void run(const char *device) {
  layerops_context *ctx = NULL;
  if (!ok(!layerops_open(device, &ctx), "%s opens", device)) {
    diag("%s", layerops_last_error());
    return;
  }
  test_info(device, ctx);
  test_buffers(device, ctx);
  test_sharing(device, ctx);
  test_events(device, ctx);
  test_replay(device, ctx);
  test_host_views(device, ctx);
  test_log(device);
  ok(!layerops_sync(ctx), "%s: nothing is left over", device);
  layerops_close(ctx);
}

/* ---- the host ---- */

static int allocated, released, misaligned;
static void *counted_alloc(void *user, size_t bytes, size_t alignment) {
  void *p = NULL;
  if (user != &allocated || posix_memalign(&p, alignment, bytes ? bytes : 1)) return NULL;
  allocated++;
  misaligned += (uintptr_t)p % alignment != 0;
  return p;
}
static void counted_release(void *user, void *p) {
  released += user == &allocated && p;
  free(p);
}

static void test_allocator(void) {
  layerops_open_args open = {.device = "cpu",
                             .alloc = counted_alloc,
                             .release = counted_release,
                             .alloc_user = &allocated};
  layerops_context *ctx = NULL;
  layerops_buffer *b = NULL;
  WORKS(layerops_open_with(&open, &ctx));
  WORKS(layerops_buffer_create(ctx, 100, &b));
  ok(allocated > 0 && !misaligned, "the user's allocator is asked for buffers");
  layerops_close(ctx);
  ok(allocated > released, "a buffer that outlives the context keeps its memory");
  memset(layerops_buffer_native(b), 0, 100);
  layerops_buffer_destroy(b);
  ok(allocated == released, "all %d blocks are given back", allocated);
}

/* A parallel for that runs backwards: the order must not matter. */
static int regions;
static void backwards(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  ++*(int *)user;
  while (n > 0) body(arg, --n);
}

enum { M = 150, K = 170, L = 190 };
static void product(layerops_context *ctx, float *c) {
  static float a[M * K], b[K * L];
  for (int i = 0; i < M * K; i++) a[i] = (float)(i * 7 % 101) / 50 - 1;
  for (int i = 0; i < K * L; i++) b[i] = (float)(i * 13 % 97) / 48 - 1;
  layerops_gemm_args args = {.a = layerops_host_matrix(a, LAYEROPS_F32, M, K),
                             .b = layerops_host_matrix(b, LAYEROPS_F32, K, L),
                             .c = layerops_host_matrix(c, LAYEROPS_F32, M, L)};
  WORKS(layerops_gemm(ctx, &args));
}

/* The bits depend neither on the number of threads nor on who makes them. */
static void test_threads(void) {
  static float c[4][M * L];
  static const int threads[] = {1, 2, 7};
  for (int i = 0; i < 4; i++) {
    layerops_open_args open = {.device = "cpu", .threads = i < 3 ? threads[i] : 0};
    layerops_context *ctx = NULL;
    if (i == 3) {
      open.parallel = backwards;
      open.parallel_user = &regions;
    }
    WORKS(layerops_open_with(&open, &ctx));
    product(ctx, c[i]);
    layerops_close(ctx);
  }
  ok(!memcmp(c[0], c[1], sizeof c[0]) && !memcmp(c[0], c[2], sizeof c[0]),
     "1, 2 and 7 threads give the same bits");
  ok(regions > 0 && !memcmp(c[0], c[3], sizeof c[0]),
     "the user's parallel for is used (%d times) and gives the same bits", regions);
}

static void test_list(void) {
  layerops_device_info list[DEVICES_MAX], one;
  size_t count = 0, again = 0;
  WORKS(layerops_devices(list, DEVICES_MAX, &count));
  WORKS(layerops_devices(NULL, 0, &again));
  ok(count == again && count >= 2, "the list is counted without being written");
  memset(&one, 0x5a, sizeof one);
  WORKS(layerops_devices(&one, 1, &again));
  ok(again == count && !strcmp(one.name, list[0].name), "no more than the capacity is written");
  int known = 0, reasons = 1;
  for (size_t i = 0; i < count; i++) {
    known |= !strcmp(list[i].name, "cpu") ? 1 : !strcmp(list[i].name, "reference") ? 2 : 0;
    known |= !strncmp(list[i].name, "cuda", 4) ? 4 : !strncmp(list[i].name, "opencl", 6) ? 8 : 0;
    reasons = reasons && list[i].available == !list[i].reason[0];
  }
  is_int(known, 15, "cpu, reference, cuda and opencl are in the list");
  ok(reasons, "what is absent says why");
  struct { /* as an older program would have it */
    char name[32];
  } names[DEVICES_MAX];
  WORKS(layerops_devices_((layerops_device_info *)names, sizeof names[0], DEVICES_MAX, &again));
  ok(again == count && !strcmp(names[count - 1].name, list[count - 1].name),
     "a shorter struct gets what it has room for");
}

static void test_choice(void) {
  layerops_context *ctx = NULL;
  layerops_device_info info;
  setenv("LAYEROPS_DEVICE", "reference", 1);
  WORKS(layerops_open(NULL, &ctx));
  WORKS(layerops_context_info(ctx, &info));
  is_str(info.name, "reference", "LAYEROPS_DEVICE chooses what auto opens");
  layerops_close(ctx);
  WORKS(layerops_open("cpu", &ctx));
  WORKS(layerops_context_info(ctx, &info));
  is_str(info.name, "cpu", "and nothing else");
  layerops_close(ctx);
  unsetenv("LAYEROPS_DEVICE");
  WORKS(layerops_open("auto", &ctx));
  ok(!layerops_context_info(ctx, &info) && info.available, "auto opens %s", info.name);
  layerops_close(ctx);
}

static void test_version(void) {
  is_int(layerops_version(), LAYEROPS_VERSION_NUMBER, "the version is the header's");
  is_str(layerops_version_string(), LAYEROPS_VERSION, "as a string too");
}

int main(void) {
  for (int i = 0; i < N; i++) ramp[i] = (float)i;
  unsetenv("LAYEROPS_DEVICE");
  for_each_device(run);
  test_allocator();
  test_threads();
  test_list();
  test_choice();
  test_version();
  return done();
}
