/* The vector mathematics of each instruction set against libm in double, over one in 331 of all
 * floats (a prime, so that all low bits appear) or, with LAYEROPS_TEST_LONG=1, all of them. Errors
 * in units of the last place. Bounds: what exp and tanh showed over all floats, and the others
 * over one in 31, rounded up. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "t/tap.h"

enum { COUNT = 4096, STEP = 331, MAX_ISAS = 8 };

static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* What a function should give, and what its error is relative to: itself, or the terms that it is
 * the sum of where it has a zero between them. */
typedef struct value {
  double exact, scale;
} value;

static value plain(double y) {
  return (value){y, y};
}

/* The difference in units of the last place that the scale has as a float; 0 where both are the
 * same NaN, infinity or number, infinity where only one is. Beyond the largest float all is
 * infinity. */
static double ulps(float got, value v) {
  const float rounded = (float)v.exact;
  if (isnan(rounded) || isinf(rounded) || isnan(got) || isinf(got)) {
    bool close = isinf(rounded) != isinf(got) && fabs(v.exact) > 0x1.fffffcp127 &&
                 fabsf(got) > 0x1.fffffcp127f;
    return (isnan(rounded) && isnan(got)) || rounded == got || close ? 0 : INFINITY;
  }
  int exponent;
  frexp(v.scale, &exponent);
  return fabs((double)got - v.exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* ---- The functions ---- */

static void run_exp(const lo_isa *isa, int kind, const float *x, float *y, int64_t n) {
  float lanes[16] = {0};
  (void)kind;
  isa->exp_sum(x, 0, y, lanes, n);
}
static value exact_exp(double x) {
  return plain(exp(x));
}

static void run_log(const lo_isa *isa, int kind, const float *x, float *y, int64_t n) {
  (void)kind;
  for (int64_t i = 0; i < n; i++) y[i] = isa->log(x[i]);
}
static value exact_log(double x) {
  return plain(log(x));
}

static void run_forward(const lo_isa *isa, int kind, const float *x, float *y, int64_t n) {
  isa->activate((layerops_activation)kind, 0, x, y, n);
}
static void run_backward(const lo_isa *isa, int kind, const float *x, float *y, int64_t n) {
  static float ones[COUNT];
  if (ones[0] == 0)
    for (int i = COUNT; i-- > 0;) ones[i] = 1;
  isa->derive((layerops_activation)kind, 0, ones, x, y, n);
}

static value exact_tanh(double x) {
  return plain(tanh(x));
}
static value exact_sigmoid(double x) {
  return plain(1 / (1 + exp(-x)));
}
static value exact_silu(double x) {
  return plain(x == -INFINITY ? 0 : x / (1 + exp(-x)));
}
static value exact_gelu(double x) {
  return plain(x == -INFINITY ? 0 : 0.5 * x * erfc(-M_SQRT1_2 * x));
}
static double inner(double x) {
  return sqrt(2 / M_PI) * x * (1 + 0.044715 * x * x);
}
static value exact_gelu_tanh(double x) {
  return plain(x == -INFINITY ? 0 : x / (1 + exp(-2 * inner(x))));
}
static value sum(double a, double b) {
  return (value){a + b, fabs(a) + fabs(b)};
}
static value exact_gelu_slope(double x) {
  if (isinf(x)) return plain(x > 0);
  return sum(0.5 * erfc(-M_SQRT1_2 * x), x * exp(-0.5 * x * x) / sqrt(2 * M_PI));
}
static value exact_gelu_tanh_slope(double x) {
  if (fabs(x) > 1e30) return plain(x > 0);
  const double e = exp(-2 * fabs(inner(x))), g = (x < 0 ? e : 1) / (1 + e);
  const double slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return sum(g, 2 * x * slope * e / (1 + e) / (1 + e));
}
static value exact_silu_slope(double x) {
  if (isinf(x)) return plain(x > 0);
  const double e = exp(-fabs(x)), g = (x < 0 ? e : 1) / (1 + e);
  return sum(g, x * e / (1 + e) / (1 + e));
}

typedef struct function {
  const char *name;
  void (*run)(const lo_isa *isa, int kind, const float *x, float *y, int64_t n);
  int kind;
  value (*exact)(double x);
  float low, high; /* where it holds */
  double bound;    /* ulp */
} function;

/* Below -12.8 and -87 the results, or factors of them, are subnormal. The tail of gelu_tanh
 * inherits the error of its argument, up to 87, in f32. */
static const function functions[] = {
    {"exp", run_exp, 0, exact_exp, -INFINITY, INFINITY, 1.02},
    {"log", run_log, 0, exact_log, 0x1p-126f, INFINITY, 1.0},
    {"tanh", run_forward, LAYEROPS_TANH, exact_tanh, -INFINITY, INFINITY, 1.4},
    {"sigmoid", run_forward, LAYEROPS_SIGMOID, exact_sigmoid, -87, INFINITY, 2.6},
    {"silu", run_forward, LAYEROPS_SILU, exact_silu, -87, INFINITY, 3},
    {"gelu", run_forward, LAYEROPS_GELU, exact_gelu, -12.8f, INFINITY, 6.5},
    {"gelu_tanh", run_forward, LAYEROPS_GELU_TANH, exact_gelu_tanh, -9.9f, INFINITY, 240},
    {"gelu_tanh", run_forward, LAYEROPS_GELU_TANH, exact_gelu_tanh, -2, INFINITY, 10},
    {"silu'", run_backward, LAYEROPS_SILU, exact_silu_slope, -80, INFINITY, 4.5},
    {"gelu'", run_backward, LAYEROPS_GELU, exact_gelu_slope, -12.8f, INFINITY, 4.5},
    {"gelu_tanh'", run_backward, LAYEROPS_GELU_TANH, exact_gelu_tanh_slope, -9.9f, INFINITY, 240},
    {"gelu_tanh'", run_backward, LAYEROPS_GELU_TANH, exact_gelu_tanh_slope, -2, INFINITY, 7},
};

/* ---- The measurement ---- */

typedef struct worst {
  double error;
  float where;
} worst;

/* The floats of [begin, end) as bit patterns, NaN among them, on all instruction sets. */
static void measure(const function *f, const lo_isa *const *isas, int count, uint64_t begin,
                    uint64_t end, uint64_t step, worst *most) {
  float x[COUNT], y[COUNT];
  value exact[COUNT];
  int n = 0;
  for (uint64_t u = begin; u < end; u += step) {
    const float v = float_of((uint32_t)u);
    if (!(v < f->low) && !(v > f->high)) x[n++] = v;
  }
  for (int i = 0; i < n; i++) exact[i] = f->exact((double)x[i]);
  for (int k = 0; n && k < count; k++) {
    f->run(isas[k], f->kind, x, y, n);
    for (int i = 0; i < n; i++) {
      const double error = ulps(y[i], exact[i]);
      if (!(error <= most[k].error)) most[k] = (worst){error, x[i]};
    }
  }
}

/* Around 0, where numbers become normal, the largest, infinity, NaN; with both signs. */
static void measure_edges(const function *f, const lo_isa *const *isas, int count, worst *most) {
  static const uint32_t edges[] = {0, 0x00800000, 0x7f7fffff, 0x7fc00000};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
    for (uint64_t sign = 0; sign <= 1; sign++) {
      const uint64_t middle = edges[i] | sign << 31, begin = middle > 16 ? middle - 16 : 0;
      measure(f, isas, count, begin, middle + 16, 1, most);
    }
}

static void test(const function *f, const lo_isa *const *isas, int count) {
  const char *longer = getenv("LAYEROPS_TEST_LONG");
  const uint64_t step = longer && *longer == '1' ? 1 : STEP, chunk = COUNT * step;
  worst most[MAX_ISAS] = {{0}};
  measure_edges(f, isas, count, most);
#pragma omp parallel for schedule(dynamic)
  for (uint64_t begin = 0; begin <= UINT32_MAX; begin += chunk) {
    uint64_t end = begin + chunk;
    worst here[MAX_ISAS] = {{0}};
    if (end > UINT32_MAX) end = (uint64_t)UINT32_MAX + 1;
    measure(f, isas, count, begin, end, step, here);
#pragma omp critical
    for (int k = 0; k < count; k++)
      if (!(here[k].error <= most[k].error)) most[k] = here[k];
  }
  for (int k = 0; k < count; k++)
    ok(most[k].error <= f->bound, "%s: %s from %g on within %g ulp: %.3f at %a", isas[k]->name,
       f->name, (double)f->low, f->bound, most[k].error, (double)most[k].where);
}

/* The last elements of an array go through the code of the first ones. */
static void test_tails(const lo_isa *isa) {
  enum { N = 67 };
  int differ = 0;
  for (int kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    float x[N], whole[N], part[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 0.37f;
    isa->activate(kind, 0.1f, x, whole, N);
    for (int begin = 0; begin < N; begin++)
      for (int n = 1; begin + n <= N; n += 5) {
        isa->activate(kind, 0.1f, x + begin, part, n);
        differ += memcmp(part, whole + begin, (size_t)n * sizeof *part) != 0;
      }
  }
  ok(!differ, "%s: an element's bits do not depend on its place", isa->name);
}

int main(void) {
  const lo_isa *isas[MAX_ISAS];
  char list[128];
  int count = 0;
  lo_isa_list(list, sizeof list);
  char *save, *name = strtok_r(list, " ", &save);
  for (; name && count < MAX_ISAS; name = strtok_r(NULL, " ", &save)) {
    const lo_instructions *has;
    setenv("LAYEROPS_CPU_ISA", name, 1);
    if (!ok(lo_isa_choose(&has) == LAYEROPS_OK, "%s runs here", name)) continue;
    if (count && has->isa == isas[count - 1]) continue; /* it adds nothing to what is tested here */
    isas[count] = has->isa;
    test_tails(isas[count++]);
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    test(&functions[i], isas, count);
  return done();
}
