/* The vector mathematics of each instruction set against libm in double, over a dense sample of all
 * floats: each bit pattern a prime number of steps after the last. Errors in units of the last
 * place. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "t/tap.h"

enum { COUNT = 4096, STEP = 1009 };

static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* The difference in units of the last place that `exact` has as a float; 0 where both are the same
 * NaN, infinity or number, infinity where only one is. Beyond the largest float all is infinity. */
static double ulps(float got, double exact) {
  float rounded = (float)exact;
  if (isnan(rounded) || isinf(rounded) || isnan(got) || isinf(got)) {
    bool close = isinf(rounded) != isinf(got) && fabs(exact) > 0x1.fffffcp127 &&
                 fabsf(got) > 0x1.fffffcp127f;
    return (isnan(rounded) && isnan(got)) || rounded == got || close ? 0 : INFINITY;
  }
  int exponent;
  frexp(exact, &exponent);
  return fabs((double)got - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

typedef struct function {
  const char *name;
  void (*run)(const lo_isa *isa, const float *x, float *y, int64_t n);
  double (*exact)(float x);
  double bound;    /* ulp */
  float low, high; /* where it holds */
} function;

static void run_exp(const lo_isa *isa, const float *x, float *y, int64_t n) {
  float lanes[16] = {0};
  isa->exp_sum(x, 0, y, lanes, n);
}
static double exact_exp(float x) {
  return exp((double)x);
}

static void run_tanh(const lo_isa *isa, const float *x, float *y, int64_t n) {
  isa->activate(LAYEROPS_TANH, 0, x, y, n);
}
static double exact_tanh(float x) {
  return tanh((double)x);
}

static void run_sigmoid(const lo_isa *isa, const float *x, float *y, int64_t n) {
  isa->activate(LAYEROPS_SIGMOID, 0, x, y, n);
}
static double exact_sigmoid(float x) {
  return 1 / (1 + exp(-(double)x));
}

/* 2 gelu(x sqrt 2) / (x sqrt 2) = erfc(-x), up to the roundings of the argument, which `exact`
 * repeats, and of two products. Below, the results are subnormal. */
static void run_erfc(const lo_isa *isa, const float *x, float *y, int64_t n) {
  isa->activate(LAYEROPS_GELU, 0, x, y, n);
}
static double exact_erfc(float x) {
  float argument = -0.7071067811865476f * x;
  return 0.5 * (double)x * erfc((double)argument);
}

static const function functions[] = {
    {"exp", run_exp, exact_exp, 1.0, -INFINITY, INFINITY},
    {"tanh", run_tanh, exact_tanh, 1.3, -INFINITY, INFINITY},
    {"sigmoid", run_sigmoid, exact_sigmoid, 2.5, -87, INFINITY},
    {"erfc (in gelu)", run_erfc, exact_erfc, 4.5, -12.8f, INFINITY},
};

/* The largest error, and where. NaN goes in as well. */
static double worst(const lo_isa *isa, const function *f, float *where) {
  static float x[COUNT], y[COUNT];
  double most = 0;
  for (uint64_t u = 0; u <= UINT32_MAX;) {
    int n = 0;
    for (; n < COUNT && u <= UINT32_MAX; u += STEP) {
      float value = float_of((uint32_t)u);
      if (!(value < f->low) && !(value > f->high)) x[n++] = value;
    }
    f->run(isa, x, y, n);
    for (int i = 0; i < n; i++) {
      double error = ulps(y[i], f->exact(x[i]));
      if (!(error <= most)) {
        most = error;
        *where = x[i];
      }
    }
  }
  return most;
}

static void test(const lo_isa *isa) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const function *f = &functions[i];
    float where = 0;
    double error = worst(isa, f, &where);
    ok(error <= f->bound, "%s: %s within %g ulp: %.3f at %a", isa->name, f->name, f->bound, error,
       (double)where);
  }
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
  char list[64];
  lo_isa_list(list, sizeof list);
  char *save, *name = strtok_r(list, " ", &save);
  for (; name; name = strtok_r(NULL, " ", &save)) {
    const lo_isa *isa;
    setenv("LAYEROPS_CPU_ISA", name, 1);
    if (!ok(lo_isa_choose(&isa) == LAYEROPS_OK, "%s runs here", name)) continue;
    test(isa);
    test_tails(isa);
  }
  return done();
}
