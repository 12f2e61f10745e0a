/* What a case has left behind, against the reference: where, expected, got, how far. */
#include <config.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "t/conformance/session.h"

static size_t bytes_of(const cf_operand *o) {
  return (size_t)o->elements * layerops_type_size(o->shape.type);
}

/* Inputs, padding and guards must be as they were. */
static void compare_rest(cf_session *s, cf_operand *o, unsigned char *now, const char *side) {
  size_t size = layerops_type_size(o->shape.type), bytes = bytes_of(o);
  unsigned char *expected = cf_memory(s, bytes);
  memcpy(expected, o->image, bytes);
  for (int64_t n = 0; o->is_output && n < o->count; n++)
    memcpy(cf_element_of(o, o->shape.type, expected, n), cf_element_of(o, o->shape.type, now, n),
           size);
  if (!memcmp(expected, now, bytes)) return;
  size_t at = 0;
  while (expected[at] == now[at]) at++;
  cf_fail(s,
          "%s%s: byte %zu of its memory was written, element %zu of %" PRId64
          " (view: offset %" PRId64 ", stride %" PRId64 ", %" PRId64 " x %" PRId64
          "), outside any output",
          o->name, side, at, at / size, o->elements, o->shape.offset, o->shape.stride,
          o->shape.rows, o->shape.cols);
}

static bool near(cf_session *s, layerops_type type, double expected, double got, double bound) {
  if (isnan(expected)) return isnan(got);
  if (got == expected || got == cf_rounded(type, expected)) return true;
  if (isinf(expected) || isinf(got) || isnan(got)) return false;
  /* No bound where infinity went into a sum: what is finite nevertheless (sigmoid of it) is exact.
   */
  if (!isfinite(bound)) return false;
  double error = fabs(got - expected);
  if (bound > 0 && error / bound > s->worst) s->worst = error / bound;
  return error <= bound;
}

static void compare_output(cf_session *s, cf_operand *o) {
  double *got = cf_read(s, o, CF_DEVICE), *expected = cf_read(s, o, CF_REFERENCE);
  int64_t wrong = 0, first = -1;
  for (int64_t n = 0; n < o->count; n++)
    if (!near(s, o->shape.type, expected[n], got[n], o->bound ? o->bound[n] : 0) && !wrong++)
      first = n;
  if (!wrong) return;
  int64_t cols = o->shape.cols, rows = o->shape.rows;
  double bound = o->bound ? o->bound[first] : 0;
  cf_fail(s,
          "%s[%" PRId64 "][%" PRId64 ",%" PRId64
          "]: expected %.9g, got %.9g, off by %.3g, allowed %.3g; "
          "%" PRId64 " of %" PRId64 " elements are wrong",
          o->name, first / cols / rows, first / cols % rows, first % cols, expected[first],
          got[first], fabs(got[first] - expected[first]), bound, wrong, o->count);
}

static void compare_again(cf_session *s, cf_operand *o, unsigned char *now) {
  unsigned char *again = cf_memory_now(o, CF_AGAIN);
  for (size_t at = 0; at < bytes_of(o); at++)
    if (now[at] != again[at]) {
      cf_fail(s, "%s: the second run has other bits at byte %zu", o->name, at);
      return;
    }
}

void cf_end(cf_session *s) {
  for (cf_operand *o = s->operands; o; o = o->next) {
    if (!o->made) continue;
    unsigned char *now = cf_memory_now(o, CF_DEVICE);
    compare_rest(s, o, now, "");
    if (s->variant == CF_TWICE) compare_again(s, o, now);
    if (o->is_output) compare_output(s, o);
  }
  cf_free_case(s);
}
