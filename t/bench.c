/* What `layerops bench` stands on: statistics, data, bounds, reports. */
#include <config.h>

#include <jansson.h>
#include <math.h>

#include "bench/bound.h"
#include "bench/operands.h"
#include "bench/peers/common.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "t/scratch.h"
#include "t/tap.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void in_source(char *path, size_t size, const char *name) {
  const char *folder = getenv("top_srcdir");
  snprintf(path, size, "%s/%s", folder ? folder : ".", name);
}

/* ---- timing ---- */

struct fake {
  int64_t calls, runs, fail_at; /* fail_at 0: never */
  double seconds;               /* a call */
};

static bool fake_run(void *state, int64_t calls) {
  struct fake *f = state;
  double end = bench_now() + f->seconds * (double)calls;
  f->calls += calls;
  f->runs++;
  while (bench_now() < end) continue;
  return !f->fail_at || f->runs < f->fail_at;
}

static bool fake_way(void *state, int way, int64_t calls) {
  return fake_run((struct fake *)state + way, calls);
}

static void test_pick(void) {
  struct fake ways[] = {{.fail_at = 1}, {.seconds = 2e-4}, {.seconds = 1e-5}};
  ok(bench_pick(ways, fake_way, 3) == 2, "the fastest way is picked");
  ok(bench_pick(ways, fake_way, 1) == -1, "none is where each fails");
  struct fake slow = {.seconds = 0.6};
  ok(bench_pick(&slow, fake_way, 1) == 0, "a way too slow for a second sample is one");
}

static void test_percentiles(void) {
  const double v[] = {1, 2, 3, 4, 10};
  ok(bench_percentile(v, 5, 0.5) == 3, "the median of five is the third");
  ok(bench_percentile(v, 4, 0.5) == 2.5, "the median of four lies between the middle two");
  ok(bench_percentile(v, 1, 0.99) == 1, "any percentile of one is that one");
  ok(fabs(bench_percentile(v, 5, 0.95) - 8.8) < 1e-12, "p95 of 1 2 3 4 10 is 8.8");
  ok(bench_percentile(v, 5, 1) == 10, "p100 is the largest");
}

static void test_measure(void) {
  struct bench_plan plan = {.rounds = 3,
                            .samples = 4,
                            .round_seconds = 0.001,
                            .longest_seconds = 1,
                            .sample_seconds = 0.0001};
  struct fake fast = {.seconds = 1e-5}, slow = {.seconds = 1e-4}, broken = {.fail_at = 3};
  struct bench_contender contenders[] = {{.run = fake_run, .state = &fast},
                                         {.run = fake_run, .state = &slow},
                                         {.run = fake_run, .state = &broken}};
  struct bench_stats s[3];
  if (!ok(bench_measure(contenders, 3, &plan, s), "three contenders are measured")) return;
  ok(s[0].median >= 1e-5 && s[1].median >= 1e-4, "medians are no less than what is spent: %g, %g",
     s[0].median, s[1].median);
  ok(s[0].calls >= 8, "a sample of a fast call holds several: %lld", (long long)s[0].calls);
  ok(s[0].samples + s[0].set_aside >= 12, "at least 4 samples in each of 3 rounds");
  ok(s[0].samples >= 3, "what counts are at least 3 samples: %d of %d", s[0].samples,
     s[0].samples + s[0].set_aside);
  ok(s[0].min <= s[0].median && s[0].median == s[0].p50 && s[0].p50 <= s[0].p95 &&
         s[0].p95 <= s[0].p99 && s[0].p99 <= s[0].max,
     "min <= median = p50 <= p95 <= p99 <= max");
  ok(s[0].rounds == 3 && bench_ratio(&s[0], &s[1]) > 1 && bench_ratio(&s[1], &s[0]) < 1,
     "the ratio tells the faster: %g", bench_ratio(&s[0], &s[1]));
  ok(!s[0].failed && !s[1].failed && s[2].failed, "the one that fails, and it alone, is marked");
  ok(broken.runs <= 3, "it is not called again");
  bench_stats_free(s, 3);
}

static void test_slow_contender(void) {
  struct bench_plan plan = {.rounds = 4, .samples = 3, .longest_seconds = 0.002};
  struct fake slow = {.seconds = 0.003};
  struct bench_stats s;
  if (!ok(bench_measure(&(struct bench_contender){.run = fake_run, .state = &slow}, 1, &plan, &s),
          "a call that outlasts a turn is measured"))
    return;
  ok(s.rounds == 1 && slow.calls == 2 && s.samples + s.set_aside == 1,
     "once, in one round: %lld calls", (long long)slow.calls);
  bench_stats_free(&s, 1);
}

/* By its own clock, a second a call whatever the host's says. */
static double fake_timed(void *state) {
  struct fake *f = state;
  f->runs++;
  return f->fail_at && f->runs >= f->fail_at ? -1 : 20.0 * (double)f->runs;
}

static void test_timed(void) {
  const struct bench_plan plan = {.rounds = 7, .samples = 1, .longest_seconds = 2};
  struct fake steady = {0}, broken = {.fail_at = 4};
  const struct bench_contender contenders[] = {
      {.timed = fake_timed, .state = &steady, .calls = 20},
      {.timed = fake_timed, .state = &broken, .calls = 20}};
  struct bench_stats s[2];
  if (!ok(bench_measure(contenders, 2, &plan, s), "what a device times is measured")) return;
  ok(steady.runs == 7 && s[0].samples == 7 && !s[0].set_aside && s[0].rounds == 7,
     "a repetition a round: %lld", (long long)steady.runs);
  ok(s[0].calls == 20 && s[0].min == 1 && s[0].median == 4 && s[0].max == 7,
     "a call takes its share of the device's seconds: %g", s[0].median);
  ok(s[1].failed && !s[0].failed && broken.runs == 4, "the one that fails is not called again");
  bench_stats_free(s, 2);
}

static void test_ratio(void) {
  double base[] = {1, 2, 4}, other[] = {2, 2, 20};
  struct bench_stats a = {.round_median = base, .rounds = 3};
  struct bench_stats b = {.round_median = other, .rounds = 3};
  ok(bench_ratio(&a, &b) == 2, "the ratio is the median of 2, 1, 5");
  ok(bench_clock_overhead() > 0 && bench_clock_overhead() < 1e-3, "the clock costs %g s",
     bench_clock_overhead());
}

/* ---- data ---- */

static const struct {
  const char *type;
  float value;
  uint16_t bits;
  double back;
} stored_cases[] = {
    {"f16", 1.0f, 0x3c00, 1},
    {"f16", -2.5f, 0xc100, -2.5},
    {"f16", 0x1p-24f, 0x0001, 0x1p-24},   /* the smallest */
    {"f16", 0x1p-25f, 0x0000, 0},         /* half of it: to even */
    {"f16", 0x1.8p-24f, 0x0002, 0x1p-23}, /* one and a half: to even */
    {"f16", 0x1p-14f, 0x0400, 0x1p-14},   /* the smallest normal */
    {"f16", -0.0f, 0x8000, -0.0},
    {"f16", 0x1.ffcp-15f, 0x0400, 0x1p-14}, /* between the largest below it and it: to even */
    {"f16", 0x1.ffep-1f, 0x3c00, 1},        /* rounds up to a power of two */
    {"f16", 65504.0f, 0x7bff, 65504},       /* the largest */
    {"f16", 65519.0f, 0x7bff, 65504},
    {"f16", 65520.0f, 0x7c00, INFINITY},
    {"f16", -INFINITY, 0xfc00, -INFINITY},
    {"bf16", 1.0f, 0x3f80, 1},
    {"bf16", 0x1.01p0f, 0x3f80, 1}, /* between two: to even */
    {"bf16", 0x1.03p0f, 0x3f82, 0x1.04p0},
    {"bf16", -0x1.010002p0f, 0xbf81, -0x1.02p0},
    {"bf16", 0x1.ffp127f, 0x7f80, INFINITY}, /* beyond the largest */
    {"f8e4m3", 1.0f, 0xde38, 1},             /* one byte is written */
    {"f8e4m3", -0.0f, 0xde80, -0.0},
    {"f8e4m3", 1.0625f, 0xde38, 1}, /* between two: to even */
    {"f8e4m3", -1.1875f, 0xdeba, -1.25},
    {"f8e4m3", 0x1p-9f, 0xde01, 0x1p-9}, /* the smallest */
    {"f8e4m3", 0x1p-10f, 0xde00, 0},
    {"f8e4m3", 0x1.ep-7f, 0xde08, 0x1p-6}, /* up to the smallest normal */
    {"f8e4m3", 1000, 0xde7e, 448},         /* saturates */
    {"f8e5m2", 1.125f, 0xde3c, 1},
    {"f8e5m2", -0x1.8p-16f, 0xde82, -0x1p-15},
    {"f8e5m2", INFINITY, 0xde7b, 57344},
};

static void test_stored(void) {
  for (size_t i = 0; i < COUNT(stored_cases); i++) {
    uint16_t bits = 0xdead;
    const struct bench_type *type = bench_type_find(stored_cases[i].type);
    bench_store(type, &bits, 0, stored_cases[i].value);
    ok(bits == stored_cases[i].bits && bench_load(type, &bits, 0) == stored_cases[i].back,
       "%a in %s is %04x", stored_cases[i].value, stored_cases[i].type, bits);
  }
  for (const struct bench_type *type = bench_types + 1; type->size == 2; type++) {
    uint16_t bits;
    int wrong = 0;
    for (int b = 0; b < 65536; b++) {
      uint16_t pattern = (uint16_t)b;
      double value = bench_load(type, &pattern, 0);
      bench_store(type, &bits, 0, (float)value);
      wrong += isnan(value) ? !isnan(bench_load(type, &bits, 0)) : bits != pattern;
    }
    ok(!wrong, "every %s survives the way to f32 and back (%d do not)", type->name, wrong);
  }
  for (int e5m2 = 0; e5m2 < 2; e5m2++) {
    const struct bench_type *type = bench_type_find(e5m2 ? "f8e5m2" : "f8e4m3");
    int wrong = 0;
    for (int b = 0; b < 256; b++) {
      uint8_t code = (uint8_t)b, again = 0;
      double value = bench_load(type, &code, 0);
      bench_store(type, &again, 0, (float)value);
      wrong += isnan(value)   ? !isnan(bench_load(type, &again, 0))
               : isinf(value) ? !e5m2 || (b & 0x7f) != 0x7c
                              : again != code;
    }
    ok(!wrong, "every number of %s survives the way to f32 and back (%d do not)", type->name,
       wrong);
  }
  const struct bench_type *bytes = bench_type_find("int8");
  uint8_t u[4];
  int8_t s[4];
  static const float values[] = {-200, -1.5f, 2.5f, 300};
  for (int i = 0; i < 4; i++) {
    bench_store(bytes, u, i, values[i]);
    bench_store(bench_type_w(bytes), s, i, values[i]);
  }
  ok(u[0] == 0 && u[1] == 0 && u[2] == 2 && u[3] == 255, "u8 rounds to even and saturates");
  ok(s[0] == -128 && s[1] == -2 && s[2] == 2 && s[3] == 127, "i8 too");
  ok(bench_load(bytes, u, 3) == 255 && bench_load(bench_type_w(bytes), s, 0) == -128,
     "and both are read");
  ok(!bench_type_find("f64"), "f64 is not a type of bench");
}

static void test_normal(void) {
  enum { N = 100001 };
  float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
  double sum = 0, squares = 0, product = 0;
  if (!a || !b) return;
  bench_normal(bench_types, a, N, 1, 7, 0);
  bench_normal(bench_types, b, N, 1, 7, 1);
  for (int i = 0; i < N; i++) {
    sum += a[i];
    squares += (double)a[i] * a[i];
    product += (double)a[i] * b[i];
  }
  /* five standard deviations of each estimate */
  ok(fabs(sum / N) < 5 / sqrt(N), "the mean of normal numbers is 0: %g", sum / N);
  ok(fabs(squares / N - 1) < 5 * sqrt(2.0 / N), "their variance 1: %g", squares / N);
  ok(fabs(product / N) < 5 / sqrt(N), "two streams do not correlate: %g", product / N);
  bench_normal(bench_types, b, N, 1, 7, 0);
  ok(!memcmp(a, b, N * sizeof *a), "the same seed and stream give the same numbers");
  free(a);
  free(b);
}

/* Computes the row's answer in f64 and stores it, spoilt by `error` at one entry. */
static void answer(struct bench_operands *o, int64_t at, double error) {
  const struct bench_row *r = o->row;
  for (int64_t i = 0; i < r->m * r->n; i++) {
    const struct bench_type *y = bench_type_y(o->type), *w_type = bench_type_w(o->type);
    double z = 0, scale = o->scale_w ? o->scale_w[i % r->n] : 1;
    if (o->scale_x > 0) scale *= o->scale_x;
    int64_t b = r->block ? r->block : r->k, br = r->block ? i % r->n / b : 0;
    int32_t first = r->block ? o->pattern.row_start[br] : 0;
    int32_t last = r->block ? o->pattern.row_start[br + 1] : 1;
    for (int32_t e = first; e < last; e++)
      for (int64_t l = 0; l < b; l++) {
        int64_t col = r->block ? o->pattern.col[e] * b + l : l;
        int64_t w = r->block ? (e * b + i % r->n % b) * b + l : i % r->n * r->k + l;
        z += bench_load(o->type, o->x, i / r->n * r->k + col) * bench_load(w_type, o->w, w);
      }
    z = z * scale + (o->bias ? bench_load(bench_type_bias(o->type), o->bias, i % r->n) : 0);
    if (r->activation == 1 && z < 0) z = 0;
    if (i == at) z += error;
    bench_store(y, o->y, i, (float)(o->scale_y > 0 ? z / o->scale_y : z));
  }
}

/* An entry of what a product of a block-sparse row makes, over the whole of W. */
static double entry(const struct bench_operands *o, int64_t i, int64_t j) {
  const struct bench_row *r = o->row;
  const struct bench_pattern *p = &o->pattern;
  const int64_t b = r->block;
  double sum = 0;
  for (int64_t br = 0; br < p->rows; br++)
    for (int32_t e = p->row_start[br]; e < p->row_start[br + 1]; e++)
      for (int64_t l = 0; l < b * b; l++) {
        const int64_t row = br * b + l / b, col = p->col[e] * b + l % b;
        const double scale = o->scale_w ? o->scale_w[e] : 1;
        const double w = scale * bench_load(bench_type_w(o->type), o->w, e * b * b + l);
        if (o->product == BENCH_FORWARD && row == j)
          sum += bench_load(o->type, o->x, i * r->k + col) * w;
        if (o->product == BENCH_DGRAD && col == j)
          sum += bench_load(o->type, o->y, i * r->n + row) * w;
        if (o->product == BENCH_WGRAD && e * b * b + l == i * b + j)
          for (int64_t s = 0; s < r->m; s++)
            sum += bench_load(o->type, o->y, s * r->n + row) *
                   bench_load(o->type, o->x, s * r->k + col);
      }
  return sum;
}

static void answer_blocks(struct bench_operands *o, double error) {
  const struct bench_output out = bench_operands_output(o);
  double *answers = malloc((size_t)(out.rows * out.cols) * sizeof *answers);
  for (int64_t i = 0; i < out.rows * out.cols; i++)
    answers[i] = entry(o, i / out.cols, i % out.cols);
  for (int64_t i = 0; i < out.rows * out.cols; i++)
    bench_store(out.type, out.data, i, (float)answers[i]);
  bench_store(out.type, out.data, out.rows * out.cols - 1,
              (float)(answers[out.rows * out.cols - 1] + error));
  free(answers);
}

/* Expanded, the product is that of the whole of W. */
static void test_widen(const char *type, enum bench_product product, struct bench_row row) {
  struct bench_operands o, wide;
  struct bench_row wide_row;
  if (!bench_operands_make(&row, bench_type_find(type), product, 3, &o) ||
      !bench_operands_widen(&o, &wide_row, &wide))
    return;
  const int64_t b = row.block;
  int wrong = 0;
  double kept = 0;
  for (int64_t i = 0; i < row.n * row.k; i++) kept += bench_load(o.type, wide.w, i) != 0;
  for (int64_t r = 0; r < o.pattern.rows; r++)
    for (int32_t e = o.pattern.row_start[r]; e < o.pattern.row_start[r + 1]; e++)
      for (int64_t l = 0; l < b * b; l++)
        wrong += memcmp((char *)o.w + (size_t)(e * b * b + l) * o.type->size,
                        (char *)wide.w +
                            (size_t)((r * b + l / b) * row.k + o.pattern.col[e] * b + l % b) *
                                o.type->size,
                        o.type->size) != 0;
  ok(!wrong && !wide_row.block && (product == BENCH_WGRAD || kept <= (double)o.w_count),
     "%s, %s: the kept blocks, and zeros", bench_products[product], type);
  const struct bench_output out = bench_operands_output(&wide);
  ok(bench_operands_check(&wide).wrong, "an output that nobody wrote is wrong");
  for (int64_t i = 0; product == BENCH_FORWARD && i < out.rows * out.cols; i++)
    bench_store(out.type, out.data, i, (float)entry(&o, i / out.cols, i % out.cols));
  ok(product != BENCH_FORWARD || !bench_operands_check(&wide).wrong,
     "the sparse product is right for it");
  free(wide.w);
  bench_operands_free(&o);
}

static void test_blocks(const char *type, enum bench_product product, struct bench_row row) {
  struct bench_operands o, forward;
  if (!bench_operands_make(&row, bench_type_find(type), product, 3, &o) ||
      !bench_operands_make(&row, bench_type_find(type), BENCH_FORWARD, 3, &forward))
    return;
  const char *name = bench_products[product];
  const struct bench_output out = bench_operands_output(&o);
  ok(bench_operands_check(&o).wrong, "%s, %s: an output that nobody wrote is wrong", name, type);
  ok(bench_pattern_kept(&o.pattern) == bench_pattern_kept(&forward.pattern) &&
         (product == BENCH_WGRAD || !memcmp(o.w, forward.w, (size_t)o.w_count)) &&
         (product == BENCH_DGRAD || !memcmp(o.x, forward.x, (size_t)(row.m * row.k))),
     "its data are those of forward");
  answer_blocks(&o, 0);
  ok(!bench_operands_check(&o).wrong, "the exact answer is right: %g",
     bench_operands_check(&o).max_rel_err);
  answer_blocks(&o, 0.5);
  struct bench_check bad = bench_operands_check(&o);
  ok(bad.wrong && bad.row == out.rows - 1 && bad.col == out.cols - 1,
     "an error of 0.5 in the last entry is found: %g for %g", bad.got, bad.expected);
  ok(!strcmp(o.name, product == BENCH_FORWARD ? "s"
                     : product == BENCH_DGRAD ? "s/dgrad"
                                              : "s/wgrad"),
     "its name is %s", o.name);
  bench_operands_free(&o);
  bench_operands_free(&forward);
}

static void test_check(const struct bench_type *type, struct bench_row row) {
  struct bench_operands o;
  if (!ok(bench_operands_make(&row, type, BENCH_FORWARD, 3, &o), "data for %s, %s", row.id,
          type->name))
    return;
  ok(bench_operands_check(&o).wrong &&
         (o.scale_y > 0 || isinf(bench_operands_check(&o).max_rel_err)),
     "an output that nobody wrote is wrong");
  answer(&o, -1, 0);
  struct bench_check good = bench_operands_check(&o);
  ok(!good.wrong && good.max_rel_err <= type->rounding + 0.5 * o.scale_y,
     "the exact answer is right: %g", good.max_rel_err);
  answer(&o, row.m * row.n - 1, 0.1);
  struct bench_check bad = bench_operands_check(&o);
  ok(bad.wrong && bad.row == row.m - 1 && bad.col == row.n - 1,
     "an error of 0.1 in the last entry is found: %g for %g", bad.got, bad.expected);
  bench_operands_free(&o);
}

/* An error that TF32 explains and f32 does not. */
static void test_tf32(struct bench_row row) {
  static const char *const names[] = {"f32", "tf32"};
  for (int i = 0; i < 2; i++) {
    struct bench_operands o;
    if (!bench_operands_make(&row, bench_type_find(names[i]), BENCH_FORWARD, 3, &o)) continue;
    answer(&o, 0, 0x1p-11);
    ok(bench_operands_check(&o).wrong == !i, "2^-11 beside the answer is %s in %s",
       i ? "right" : "wrong", names[i]);
    bench_operands_free(&o);
  }
}

/* What a peer may do, and the library may not. */
static void test_latitude(struct bench_row row) {
  const struct bench_latitude own = {.activation = row.activation};
  const struct bench_latitude parts = {.activation = row.activation, .parts = true};
  struct bench_operands o;
  if (!bench_operands_make(&row, bench_type_find("f16"), BENCH_FORWARD, 3, &o)) return;
  answer(&o, -1, 0);
  int64_t zero = 0; /* an entry that ReLU cut off: its own rounding explains nothing */
  while (zero + 1 < row.m * row.n && bench_load(o.type, o.y, zero) != 0) zero++;
  answer(&o, zero, 0x1p-10);
  ok(bench_operands_check_as(&o, own).wrong && !bench_operands_check_as(&o, parts).wrong,
     "2^-10 beside the answer is right in f16 where parts of the sum may be rounded");
  answer(&o, zero, 0x1p-5);
  ok(bench_operands_check_as(&o, parts).wrong, "2^-5 is not");
  answer(&o, -1, 0);
  ok(bench_operands_check_as(&o, (struct bench_latitude){.activation = 6}).wrong,
     "another activation is wrong");
  bench_operands_free(&o);
}

/* Half of W gives half of what was before the bias. */
static void test_damp(struct bench_row row, const struct bench_type *type) {
  struct bench_operands o, half;
  if (!bench_operands_make(&row, type, BENCH_FORWARD, 3, &o) ||
      !bench_operands_make(&row, type, BENCH_FORWARD, 3, &half))
    return;
  bench_operands_damp(&half);
  int wrong = 0;
  for (int64_t i = 0; i < row.n * row.k; i++) {
    int64_t j = i / row.k;
    double whole = bench_load(bench_type_w(type), o.w, i) * (o.scale_w ? o.scale_w[j] : 1);
    wrong += bench_load(bench_type_w(type), half.w, i) * (o.scale_w ? half.scale_w[j] : 1) !=
             0.5 * whole;
  }
  ok(!wrong, "%s: all of W is halved", type->name);
  bench_operands_free(&o);
  bench_operands_free(&half);
}

static char name_d[] = "d", name_s[] = "s", name_l[] = "l", name_h[] = "h", name_t[] = "t";

static void test_checks(void) {
  struct bench_row dense = {.id = name_d, .m = 7, .n = 5, .k = 33, .activation = 1};
  struct bench_row sparse = {
      .id = name_s, .m = 5, .n = 12, .k = 16, .block = 4, .density = 0.4, .pattern = BENCH_UNIFORM};
  struct bench_row large = {.id = name_l, .m = 70, .n = 50, .k = 9};
  test_check(bench_type_find("f32"), dense);
  test_check(bench_type_find("f16"), dense);
  test_check(bench_type_find("bf16"), dense);
  test_check(bench_type_find("int8"), dense);
  test_check(bench_type_find("tf32"), dense);
  test_check(bench_type_find("f8e4m3"), dense);
  test_check(bench_type_find("f8e5m2:fast"), dense);
  test_check(bench_type_find("f16:i8"), dense);
  test_check(bench_type_find("bf16:f8e4m3"), dense);
  const struct bench_type *bytes = bench_type_on(bench_type_find("int8"), "cuda");
  ok(bytes->element[0] == 'i' && bench_type_on(bench_type_find("int8"), "cpu")->element[0] == 'u' &&
         bench_type_on(bench_types, "cuda") == bench_types,
     "X of int8 is i8 on CUDA devices, else u8");
  test_check(bytes, dense);
  test_tf32(dense);
  test_latitude(dense);
  test_damp(dense, bench_types);
  test_damp(dense, bytes);
  test_check(bench_types, sparse);
  for (int p = 0; p < BENCH_PRODUCTS; p++)
    for (int t = 0; t < 3; t++) test_blocks(bench_types[t].name, (enum bench_product)p, sparse);
  for (int p = 0; p < BENCH_PRODUCTS; p++) test_widen("f32", (enum bench_product)p, sparse);
  test_widen("bf16", BENCH_FORWARD, sparse);
  test_blocks("f16:i8", BENCH_FORWARD, sparse);
  test_blocks("f32:i8", BENCH_FORWARD, sparse);
  test_check(bench_types, large); /* more entries than are looked at: the corners are among them */
  struct bench_row huge = {.id = name_h, .m = 1 << 29, .n = 1 << 29, .k = 1};
  struct bench_operands o;
  ok(!bench_operands_make(&huge, bench_types, BENCH_FORWARD, 1, &o) && !o.x && !o.y,
     "data that no memory holds are refused");
}

/* ---- bounds ---- */

/* Every number of a device file says its unit, its source and its date. */
static bool explained(const json_t *json) {
  const char *key;
  json_t *value;
  size_t i;
  json_array_foreach(json, i, value) if (json_is_number(value) || !explained(value)) return false;
  if (json_is_number(json_object_get(json, "value"))) {
    static const char *const texts[] = {"unit", "source", "date"};
    for (i = 0; i < COUNT(texts); i++) {
      const char *text = json_string_value(json_object_get(json, texts[i]));
      if (!text || !*text) return false;
    }
    const char *date = json_string_value(json_object_get(json, "date"));
    return strlen(date) >= 7 && date[4] == '-';
  }
  json_object_foreach((json_t *)(uintptr_t)json, key,
                      value) if (json_is_number(value) || !explained(value)) return false;
  return true;
}

static void test_device_file(const char *name) {
  char path[4096], why[512] = "";
  struct bench_device device;
  json_error_t error;
  in_source(path, sizeof path, name);
  json_t *json = json_load_file(path, 0, &error);
  ok(json && explained(json), "%s: every number has unit, source and date", name);
  json_decref(json);
  if (!ok(bench_device_read(path, &device, why, sizeof why), "it is read %s", why)) return;
  for (int i = 0; i < device.peak_count; i++) {
    const struct bench_peak *p = &device.peaks[i];
    double product = p->units * p->lanes * 2 * p->clock;
    ok(fabs(product / p->flops - 1) < 1e-9, "%s %s: %g = units x lanes x 2 x clock", device.name,
       p->dtype, p->flops);
  }
  int falls = 0;
  for (int i = 1; i < device.memory_count; i++)
    falls += strcmp(device.memory[i].level, device.memory[i - 1].level) &&
             device.memory[i].bandwidth > device.memory[i - 1].bandwidth;
  ok(!falls && device.memory[device.memory_count - 1].capacity == 0,
     "its memory goes from fast to slow, and the last level holds all");
}

/* Two cores of 100 FLOP/s each; 10 bytes at 50 B/s, the rest at 5 (one thread) or 8 B/s (two). */
static const char toy[] =
    "{\"schema\": \"layerops-device/1\", \"name\": \"toy\", \"kind\": [\"cpu\"],"
    " \"match\": [\"Toy Processor\"], \"peaks\": {\"f32\": {"
    "  \"units\": {\"value\": 2, \"unit\": \"cores\", \"source\": \"s\", \"date\": \"2026-11\"},"
    "  \"lanes\": {\"value\": 5, \"unit\": \"lanes\", \"source\": \"s\", \"date\": \"2026-11\"},"
    "  \"clock\": {\"value\": 10, \"unit\": \"Hz\", \"source\": \"s\", \"date\": \"2026-11\"},"
    "  \"flops\": {\"value\": 200, \"unit\": \"FLOP/s\", \"source\": \"s\", \"date\": "
    "\"2026-11\"}}},"
    " \"memory\": [{\"level\": \"L1\","
    "  \"capacity\": {\"value\": 10, \"unit\": \"B\", \"source\": \"s\", \"date\": \"2026-11\"},"
    "  \"bandwidth\": {\"value\": 50, \"unit\": \"B/s\", \"source\": \"s\", \"date\": "
    "\"2026-11\"}},"
    " {\"level\": \"memory\","
    "  \"threads\": {\"value\": 1, \"unit\": \"threads\", \"source\": \"s\", \"date\": "
    "\"2026-11\"},"
    "  \"bandwidth\": {\"value\": 5, \"unit\": \"B/s\", \"source\": \"s\", \"date\": \"2026-11\"}},"
    " {\"level\": \"memory\","
    "  \"threads\": {\"value\": 2, \"unit\": \"threads\", \"source\": \"s\", \"date\": "
    "\"2026-11\"},"
    "  \"bandwidth\": {\"value\": 8, \"unit\": \"B/s\", \"source\": \"s\", \"date\": "
    "\"2026-11\"}}]}";

/* Writes toy.json with the first FROM replaced by TO. */
static void write_spoilt(const char *from, const char *to) {
  char text[sizeof toy + 64];
  const char *at = *from ? strstr(toy, from) : NULL;
  if (at) snprintf(text, sizeof text, "%.*s%s%s", (int)(at - toy), toy, to, at + strlen(from));
  scratch_text("toy.json", at ? text : toy);
}

static const struct {
  const char *from, *to, *why;
} device_cases[] = {
    {"layerops-device/1", "other/1", "schema: is not layerops-device/1"},
    {"\"name\": \"toy\"", "\"title\": 1", "name: missing"},
    {"\"unit\": \"Hz\", ", "", "peaks.f32.clock: unit, source or date is missing"},
    {"\"value\": 200", "\"value\": \"200\"", "peaks.f32.flops: value is not a number"},
    {"\"value\": 200", "\"value\": 0", "peaks.f32: flops is 0"},
    {"\"value\": 10,", "\"value\": -10,", "peaks.f32.clock: value is not a number of 0 or more"},
    {"\"f32\"", "\"float32xx\"", "peaks.float32xx: name of a data type too long"},
    {"\"level\": \"L1\"", "\"level\": 1", "memory[0]: no level"},
    {"\"bandwidth\": {", "\"speed\": {", "memory[0].bandwidth: no object"},
    {"\"memory\": [", "\"storage\": [", "memory: no entry"},
    {"\"peaks\"", "\"peaks", ":1:"},
};

static void test_device_cases(void) {
  const char *path = scratch_path("toy.json");
  char why[512];
  struct bench_device device;
  for (size_t i = 0; i < COUNT(device_cases); i++) {
    write_spoilt(device_cases[i].from, device_cases[i].to);
    *why = 0;
    ok(!bench_device_read(path, &device, why, sizeof why) && !strncmp(why, path, strlen(path)) &&
           strstr(why, device_cases[i].why),
       "device case %zu: %s", i, why);
  }
}

static void test_bound(void) {
  const char *path = scratch_path("toy.json");
  char why[512] = "";
  struct bench_device d;
  write_spoilt("", "");
  if (!ok(bench_device_read(path, &d, why, sizeof why), "the toy device is read %s", why)) return;
  ok(bench_bound(&d, "f32", 2, 400, 1) == 2, "compute-bound: 400 / 200");
  ok(bench_bound(&d, "f32", 1, 400, 1) == 4, "one thread has half of it");
  ok(bench_bound(&d, "f32", 9, 400, 1) == 2, "more threads than cores have no more");
  ok(bench_bound(&d, "f32", 1, 0, 10) == 0.2, "what fits into L1 moves at its speed");
  ok(bench_bound(&d, "f32", 1, 0, 60) == 10, "what does not, (60 - 10) / 5");
  ok(bench_bound(&d, "f32", 2, 0, 90) == 10, "two threads: (90 - 10) / 8");
  ok(bench_bound(&d, "f16", 2, 400, 1) == 0, "no peak, no bound");
  ok(bench_bound_cold(&d, "f32", 1, 0, 10) == 2, "cold, all comes from memory: 10 / 5");
  ok(bench_bound_cold(&d, "f32", 2, 400, 1) == 2, "and what binds may be computing");
  ok(bench_device_find(scratch, "cpu", "A Toy Processor (1)", &d, why, sizeof why) &&
         !strcmp(d.name, "toy"),
     "a part of the name finds it");
  ok(!bench_device_find(scratch, "cuda", "Toy Processor", &d, why, sizeof why) && !*why,
     "another kind does not");
  ok(!bench_device_find(scratch, "cpu", "Real Processor", &d, why, sizeof why) && !*why,
     "nor another name");
  ok(!bench_device_find("/no/such/folder", "cpu", "x", &d, why, sizeof why) && *why,
     "a folder that is not there: %s", why);
}

static void test_work(void) {
  struct bench_row dense = {.m = 2, .n = 3, .k = 4};
  struct bench_row sparse = {.id = name_t, .m = 2, .n = 8, .k = 16, .block = 4};
  struct bench_pattern p;
  double flops, bytes;
  bench_work(&dense, NULL, bench_types, &flops, &bytes);
  ok(flops == 48 && bytes == 4 * (8 + 12 + 6 + 3), "2 x 3 x 4: 48 flops, 116 bytes with the bias");
  if (!bench_pattern_make("t", BENCH_BANDED, 2, 4, 0.5, &p)) return;
  bench_work(&sparse, &p, bench_types, &flops, &bytes);
  ok(flops == 2 * 2 * 16 * 4 && bytes == 4 * (32 + 64 + 16) + 4 * (4 + 3),
     "4 kept blocks of 4 x 4: 256 flops; their values and the index are moved");
  bench_work(&sparse, &p, bench_type_find("f16:i8"), &flops, &bytes);
  ok(bytes == 2 * (32 + 16) + 64 + 4 * (4 + 3) + 4 * 4, "of i8 the scales too: %g", bytes);
  bench_pattern_free(&p);
}

/* ---- reports ---- */

static double medians[] = {0.002, 0.002};
static struct bench_stats stats = {.samples = 9,
                                   .set_aside = 1,
                                   .calls = 4,
                                   .median = 0.002,
                                   .p50 = 0.002,
                                   .p95 = 0.003,
                                   .p99 = 0.004,
                                   .max = 0.005,
                                   .min = 0.001,
                                   .round_median = medians,
                                   .rounds = 2};
static const struct bench_plan plan = BENCH_PLAN_DEFAULT;

static struct bench_result result(const char *contender) {
  return (struct bench_result){.id = "row",
                               .op = "linear_forward",
                               .device = "cpu",
                               .dtype = "f32",
                               .contender = contender,
                               .kernel = "kern",
                               .activation = "relu",
                               .threads = 2,
                               .m = 10,
                               .n = 10,
                               .k = 10,
                               .flops = 2e6,
                               .bytes = 1200,
                               .elements = 100,
                               .bound = 0.001,
                               .max_rel_err = 1e-7,
                               .repay = NAN,
                               .ratio = 1.5,
                               .residency = "cold",
                               .way = "chain",
                               .stats = &stats};
}

/* The report's text, to be freed. */
static char *reported(enum bench_format format, enum bench_kind kind) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  struct bench_report report;
  layerops_device_info device = {.name = "cpu", .description = "Toy", .units = 2};
  struct bench_result ours = result("layerops"), peer = result("blas");
  peer.max_rel_err = NAN;
  peer.bound = 0;
  peer.packed = true;
  peer.repay = 7;
  struct bench_summary best = {
      .device = "cpu", .dtype = "f32", .residency = "cold", .way = "chain", .threads = 2};
  bench_summary_add(&best, 2, "one", "blas");
  bench_summary_add(&best, 0.5, "two", "dnn");
  bench_summary_add(&best, 8, "three", "blas");
  bool good =
      file && bench_report_begin(&report, format, kind, file) && bench_report_row(&report, &ours) &&
      bench_report_row(&report, &peer) &&
      bench_report_skip(&report, "row2", "cpu", "layerops", "why not") &&
      bench_report_peer(&report, "blas", NULL) && bench_report_peer(&report, "gone", "no file") &&
      bench_report_summary(&report, &best) && bench_report_end(&report, &device, 1, &plan, &plan);
  ok(good, "a report is written");
  bench_report_free(&report);
  if (file) fclose(file);
  return text;
}

static void test_tsv(void) {
  char *text = reported(BENCH_TSV, BENCH_BESIDE_PEERS);
  ok(text &&
         !strcmp(
             text,
             "id\tdevice\tdtype\tthreads\tkernel\tmedian_s\tgflops\tmax_rel_err\t"
             "sol_pct\tweights\trepay\tratio\tresidency\tway\n"
             "row\tcpu\tf32\t2\tkern\t0.002\t1\t1e-07\t50\tplain\tnan\t1.5\tcold\tchain\n"
             "row\tcpu\tf32\t2\tpeer:kern\t0.002\t1\tnan\tnan\tpacked\t7\t1.5\tcold\tchain\n"
             "# cpu f32, threads 2, cold chain: the best peer's time over ours, geometric mean of "
             "3 rows 2.000; worst 0.500 at two (dnn)\n"),
     "its columns are as documented, and so is the summary");
  free(text);
  text = reported(BENCH_TSV, BENCH_LAYERS);
  static const char header[] = "id\tdevice\tdtype\tthreads\tkernel\tmedian_s\tgflops\tmax_rel_err\t"
                               "sol_pct\tweights\trepay\tresidency\tway\n";
  ok(text && !strncmp(text, header, strlen(header)), "without --peers there is no ratio");
  free(text);
  text = reported(BENCH_TSV, BENCH_RATES);
  static const char rates[] =
      "id\tdevice\tdtype\tthreads\tkernel\tmedian_s\tgflops\tmax_rel_err\t"
      "sol_pct\tgbs\tns_element\tratio\tresidency\tway\n"
      "row\tcpu\tf32\t2\tkern\t0.002\t1\t1e-07\t50\t0.0006\t2e+04\t1.5\tcold\tchain\n";
  ok(text && !strncmp(text, rates, strlen(rates)), "with rates these stand for the weights");
  free(text);
}

static const json_t *at(const json_t *json, const char *list, size_t index, const char *key) {
  return json_object_get(json_array_get(json_object_get(json, list), index), key);
}

static void test_json(void) {
  json_error_t error;
  char *text = reported(BENCH_JSON, BENCH_BESIDE_PEERS);
  json_t *run = json_loads(text ? text : "", JSON_REJECT_DUPLICATES, &error);
  ok(run != NULL, "the run file is JSON %s", run ? "" : error.text);
  const char *schema = json_string_value(json_object_get(run, "schema"));
  ok(schema && !strcmp(schema, "layerops-run/1"), "of schema layerops-run/1");
  static const char *const keys[] = {"tool",    "version", "commit",   "build",
                                     "date",    "host",    "settings", "devices",
                                     "results", "skipped", "peers",    "summary"};
  for (size_t i = 0; i < COUNT(keys); i++)
    ok(json_object_get(run, keys[i]) != NULL, "it tells %s", keys[i]);
  ok(json_array_size(json_object_get(run, "results")) == 2, "it has both rows");
  ok(json_real_value(at(run, "results", 0, "median_s")) == 0.002 &&
         json_real_value(at(run, "results", 0, "p99_s")) == 0.004 &&
         json_integer_value(at(run, "results", 0, "samples")) == 9 &&
         json_real_value(at(run, "results", 0, "sol_pct")) == 50 &&
         json_integer_value(json_object_get(at(run, "results", 0, "shape"), "k")) == 10,
     "with the figures");
  ok(!strcmp(json_string_value(at(run, "results", 0, "residency")), "cold") &&
         !strcmp(json_string_value(at(run, "results", 0, "way")), "chain"),
     "and how warm they are, and how they follow each other");
  ok(json_real_value(at(run, "results", 1, "repay_calls")) == 7 &&
         json_is_null(at(run, "results", 0, "repay_calls")) &&
         !strcmp(json_string_value(at(run, "results", 1, "weights")), "packed"),
     "and whether packing weights is worth it");
  ok(fabs(json_real_value(at(run, "summary", 0, "geomean_ratio")) - 2) < 1e-12 &&
         json_real_value(at(run, "summary", 0, "worst_ratio")) == 0.5 &&
         !strcmp(json_string_value(at(run, "summary", 0, "residency")), "cold"),
     "and the summary");
  ok(json_is_null(at(run, "results", 1, "sol_pct")) &&
         json_is_null(at(run, "results", 1, "max_rel_err")),
     "what is not known is null");
  ok(json_is_false(at(run, "peers", 1, "available")) &&
         json_is_true(at(run, "peers", 0, "available")),
     "it tells which peer is missing");
  json_decref(run);
  free(text);
}

int main(void) {
  static const char *const devices[] = {"data/devices/t4.json", "data/devices/h200.json",
                                        "data/devices/xeon-avx512-amx.json"};
  scratch_begin();
  test_percentiles();
  test_pick();
  test_measure();
  test_slow_contender();
  test_timed();
  test_ratio();
  test_stored();
  test_normal();
  test_checks();
  for (size_t i = 0; i < COUNT(devices); i++) test_device_file(devices[i]);
  test_device_cases();
  test_bound();
  test_work();
  test_tsv();
  test_json();
  return done();
}
