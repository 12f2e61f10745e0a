/* Races between the warps of Hopper's main loops: kernels whose warps come late wherever they meet
 * others (delays.cu) must make the bits that they make when nobody does, 10,000 times. Launches lie
 * behind each other, and each reads what the one before wrote: C = f(C of the one before). */
#include <config.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/boxes.h"
#include "backends/cuda/driver.h"
#include "common/kernel/codes.h"
#include "t/cuda/delays.h"
#include "t/tap.h"

enum { N = 496, CHAINS = 2, LINKS = 4, LAUNCHES = 10000, SECONDS = 20 };

/* Chains begin with other numbers, so that what the one before left is wrong. */
typedef struct memory {
  char *begin[CHAINS], *weights, *links[LINKS], *wanted[CHAINS][LINKS];
  float *sums[LINKS], *wanted_sums[CHAINS][LINKS]; /* over k of op(A)'s rows */
  float *bias, *scale_a, *scale_b;
  int *zero_a;
  lo_u64 *differing;
} memory;

typedef struct operands { /* on the host */
  char begin[CHAINS][4 * N * N], weights[4 * N * N];
  float bias[N], scale_a[N], scale_b[N], alpha;
  int zero_a[N];
} operands;

static memory device;
static operands host;
static void *stream;

static const struct {
  lo_box_type box;
  int size;
  double unit;   /* of the last place, as part of a number */
  double sum;    /* error of a sum, as part of that of the sizes */
  double finest; /* rounding of numbers near 0 */
} types[] = {
    [LO_TYPE_F32] = {LO_BOX_TF32, 4, 0x1p-24, 0x1p-20, 0},
    [LO_TYPE_F16] = {LO_BOX_F16, 2, 0x1p-11, 0x1p-18, 0x1p-25},
    [LO_TYPE_I8] = {LO_BOX_8, 1, 0x1p-20, 0, 0.5},
    [LO_TYPE_F8E4M3] = {LO_BOX_8, 1, 0x1p-4, 0x1p-13, 0x1p-10},
};

/* ---- Numbers */
static unsigned dice = 1;
static unsigned roll(void) {
  dice = dice * 1664525u + 1013904223u;
  return dice >> 8;
}
static double uniform(double low, double high) {
  return low + (high - low) * roll() / 0x1p24;
}

static double power(int e) {
  return ldexp(1, e);
}
static double number(const char *p, int at, int type) {
  if (type == LO_TYPE_F32) return ((const float *)p)[at];
  if (type == LO_TYPE_I8) return ((const signed char *)p)[at];
  bool half = type == LO_TYPE_F16;
  unsigned bits = half ? ((const unsigned short *)p)[at] : ((const unsigned char *)p)[at];
  int digits = half ? 10 : 3, width = half ? 15 : 7, bias = half ? 15 : 7;
  int exponent = (int)(bits >> digits) & ((1 << (width - digits)) - 1);
  double fraction = bits & ((1u << digits) - 1);
  double size = exponent ? (power(digits) + fraction) * power(exponent - bias - digits)
                         : fraction * power(1 - bias - digits);
  return bits >> width ? -size : size;
}
/* From 1/4 to 2, or -127 to 127. */
static void put_any(char *p, int at, int type) {
  unsigned sign = roll() & 1;
  if (type == LO_TYPE_F32)
    ((float *)p)[at] = (float)uniform(-1, 1);
  else if (type == LO_TYPE_I8)
    p[at] = (char)((int)(roll() % 255) - 127);
  else if (type == LO_TYPE_F16)
    ((unsigned short *)p)[at] = (unsigned short)(sign << 15 | (0x3400 + roll() % 0xc00));
  else
    p[at] = (char)(sign << 7 | (0x28 + roll() % 0x18));
}

static void make_operands(int type) {
  double squares = 0;
  int whole = type == LO_TYPE_I8;
  for (int i = 0; i < N * N; i++) {
    for (int c = 0; c < CHAINS; c++) put_any(host.begin[c], i, type);
    put_any(host.weights, i, type);
    squares += number(host.weights, i, type) * number(host.weights, i, type);
  }
  for (int i = 0; i < N; i++) {
    host.bias[i] = (float)uniform(whole ? -20 : -0.2, whole ? 20 : 0.2);
    host.scale_a[i] = (float)uniform(0.75, 1.25);
    host.scale_b[i] = (float)uniform(0.75, 1.25);
    host.zero_a[i] = (int)(roll() % 41) - 20;
  }
  host.alpha = (float)(1 / sqrt(squares / N)); /* numbers stay as large as they are */
}

/* ---- On the device */
static int failed(int error, const char *what) {
  return error && !ok(0, "%s: %s", what, cudaGetErrorString((cudaError_t)error));
}
#define TRY(call)                                                                                  \
  if (failed(call, #call)) return 0

static int get_memory(void) {
  struct {
    void **to;
    size_t bytes;
  } wanted[] = {{(void **)&device.weights, sizeof host.weights},
                {(void **)&device.bias, sizeof host.bias},
                {(void **)&device.scale_a, sizeof host.scale_a},
                {(void **)&device.scale_b, sizeof host.scale_b},
                {(void **)&device.zero_a, sizeof host.zero_a},
                {(void **)&device.differing, 2 * sizeof(lo_u64)}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    TRY(cudaMalloc(wanted[i].to, wanted[i].bytes));
  for (int l = 0; l < LINKS; l++) {
    TRY(cudaMalloc((void **)&device.links[l], sizeof host.weights));
    TRY(cudaMalloc((void **)&device.sums[l], sizeof host.bias));
    for (int c = 0; c < CHAINS; c++) {
      TRY(cudaMalloc((void **)&device.wanted[c][l], sizeof host.weights));
      TRY(cudaMalloc((void **)&device.wanted_sums[c][l], sizeof host.bias));
    }
  }
  for (int c = 0; c < CHAINS; c++) TRY(cudaMalloc((void **)&device.begin[c], sizeof host.begin[c]));
  TRY(cudaStreamCreateWithFlags((cudaStream_t *)&stream, cudaStreamNonBlocking));
  return 1;
}

static int put(void *to, const void *from, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
}
static int put_operands(void) {
  for (int c = 0; c < CHAINS; c++) TRY(put(device.begin[c], host.begin[c], sizeof host.begin[c]));
  TRY(put(device.weights, host.weights, sizeof host.weights));
  TRY(put(device.bias, host.bias, sizeof host.bias));
  TRY(put(device.scale_a, host.scale_a, sizeof host.scale_a));
  TRY(put(device.scale_b, host.scale_b, sizeof host.scale_b));
  TRY(put(device.zero_a, host.zero_a, sizeof host.zero_a));
  return 1;
}

/* ---- A chain of products */
typedef struct chains {
  const late_kernel *kernel;
  lo_cu_grid grid;
  lo_cu_boxed_gemm links[CHAINS][LINKS];
} chains;

static lo_cu_operand operand_of(const char *p, int type, int k_inner) {
  return (lo_cu_operand){p, N, N, 0, type, k_inner, 1, 1};
}
static const char *input_of(int chain, int link) {
  return link ? device.links[link - 1] : device.begin[chain];
}

static lo_cu_gemm product(const late_kernel *k, int parts, const char *from, int link) {
  int high = k->bm * k->cluster, steps = (N + k->bk - 1) / k->bk;
  int f32 = LO_TYPE_F32, scaled = k->type >= LO_TYPE_I8;
  lo_cu_gemm g = {.a = operand_of(from, k->type, !k->trans_a),
                  .b = operand_of(device.weights, k->type, k->trans_b),
                  .m = N,
                  .n = N,
                  .k = N,
                  .batch = 1,
                  .tiles_m = (N + high - 1) / high,
                  .tiles_n = (N + k->bn - 1) / k->bn,
                  .slice = (steps + parts - 1) / parts * k->bk,
                  .split = parts,
                  .e = {.c = {device.links[link], N, 0, k->type, 1},
                        .alpha = {.value = host.alpha},
                        .bias = {device.bias, f32, 0}}};
  g.tile1 = g.tiles_m * g.tiles_n;
  if (k->trans_a) g.e.row_sum = (lo_cu_vector){device.sums[link], f32, 0};
  if (scaled) {
    g.e.scale_a = (lo_cu_vector){device.scale_a, f32, 0};
    g.e.scale_b = (lo_cu_vector){device.scale_b, f32, 0};
  }
  if (k->type == LO_TYPE_I8) g.e.zero_a = (lo_cu_vector){device.zero_a, LO_TYPE_I32, 0};
  if (k->type == LO_TYPE_F8E4M3) g.e.ends = LO_END_SCALES | LO_END_F8;
  return g;
}

/* Few blocks, so that each goes through several tiles; for parts of k, and where a block has one
 * tile, as many as there are. */
static int plan(chains *c, const late_kernel *k, int parts) {
  enum { EACH = 3 };
  for (int chain = 0; chain < CHAINS; chain++)
    for (int link = 0; link < LINKS; link++) {
      lo_cu_boxed_gemm *b = &c->links[chain][link];
      b->g = product(k, parts, input_of(chain, link), link);
      if (!k->boxed) continue;
      TRY(lo_cuda_box(&b->g.a, types[k->type].box, N, 1, k->bm, &b->a));
      TRY(lo_cuda_box(&b->g.b, types[k->type].box, N, 1, k->bn / k->cluster, &b->b));
      b->boxes_c = lo_cuda_takes_boxes(&b->g);
      if (b->boxes_c) TRY(lo_cuda_box_c(&b->g, &b->c));
    }
  const lo_cu_gemm *g = &c->links[0][0].g;
  lo_i64 tiles = g->tiles_m * g->tiles_n;
  c->kernel = k;
  c->grid = (lo_cu_grid){.x = (k->boxed && parts == 1 ? tiles / EACH : tiles) * k->cluster,
                         .y = parts,
                         .z = 1,
                         .threads = k->threads,
                         .shared = k->shared,
                         .cluster_x = (unsigned)k->cluster,
                         .cluster_y = (unsigned)parts};
  return 1;
}

static int launch(const chains *c, int chain, int link) {
  const lo_cu_boxed_gemm *b = &c->links[chain][link];
  return c->kernel->boxed ? lo_cu_launch(c->kernel->function, c->grid, b, stream)
                          : lo_cu_launch(c->kernel->function, c->grid, &b->g, stream);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* Warps that wait for ever would have the test do so too. */
static int wait(const char *what) {
  double end = now() + SECONDS;
  cudaError_t error;
  while ((error = cudaStreamQuery((cudaStream_t)stream)) == cudaErrorNotReady)
    if (now() > end) {
      ok(0, "%s: not done after %d s", what, SECONDS);
      done();
      fflush(stdout);
      _exit(0);
    }
  return !failed(error, what);
}

/* One by one, nobody late. */
static int run_wanted(const chains *c) {
  size_t bytes = (size_t)types[c->kernel->type].size * N * N;
  TRY(late_seed(0));
  for (int chain = 0; chain < CHAINS; chain++)
    for (int link = 0; link < LINKS; link++) {
      TRY(launch(c, chain, link));
      if (!wait(c->kernel->name)) return 0;
      TRY(cudaMemcpy(device.wanted[chain][link], device.links[link], bytes,
                     cudaMemcpyDeviceToDevice));
      if (c->kernel->trans_a)
        TRY(cudaMemcpy(device.wanted_sums[chain][link], device.sums[link], sizeof host.bias,
                       cudaMemcpyDeviceToDevice));
    }
  return 1;
}

static int compare(const chains *c, int chain, int round) {
  late_comparison p = {.round = round, .differing = device.differing};
  lo_i64 words = types[c->kernel->type].size * N * N / 4;
  for (int link = 0; link < LINKS; link++) {
    p.pairs[p.count++] =
        (late_pair){(unsigned *)device.links[link], (unsigned *)device.wanted[chain][link], words};
    if (c->kernel->trans_a)
      p.pairs[p.count++] = (late_pair){(unsigned *)device.sums[link],
                                       (unsigned *)device.wanted_sums[chain][link], N};
  }
  return late_compare(&p, stream);
}

static int run_late(const chains *c, lo_u64 differing[2]) {
  enum { ROUNDS = LAUNCHES / LINKS, TOGETHER = 10 };
  lo_u64 none[2] = {0, ~0ull};
  TRY(put(device.differing, none, sizeof none));
  for (int round = 0; round < ROUNDS; round++) {
    if (round % TOGETHER == 0) { /* the next launch finds the device idle */
      if (!wait(c->kernel->name)) return 0;
      TRY(late_seed((unsigned)round + 1));
    }
    for (int link = 0; link < LINKS; link++) TRY(launch(c, round % CHAINS, link));
    TRY(compare(c, round % CHAINS, round));
  }
  if (!wait(c->kernel->name)) return 0;
  TRY(cudaMemcpy(differing, device.differing, sizeof none, cudaMemcpyDeviceToHost));
  return 1;
}

/* ---- Next to sums in double precision */
static char input[sizeof host.weights], output[sizeof host.weights];

/* The error of an element, in units of what rounding explains. */
static double error_of(const late_kernel *k, int i, int j) {
  double sum = 0, sizes = 0, scale = host.alpha;
  for (int x = 0; x < N; x++) {
    double a = number(input, k->trans_a ? x * N + i : i * N + x, k->type);
    double b = number(host.weights, k->trans_b ? j * N + x : x * N + j, k->type);
    if (k->type == LO_TYPE_I8) a -= host.zero_a[i];
    sum += a * b;
    sizes += fabs(a * b);
  }
  if (k->type >= LO_TYPE_I8) scale *= (double)host.scale_a[i] * host.scale_b[j];
  double z = scale * sum + host.bias[j], is = number(output, i * N + j, k->type);
  if (k->type == LO_TYPE_I8) z = fmin(fmax(z, -128), 127);
  double allowed = types[k->type].unit * (fabs(z) + fabs(host.bias[j])) +
                   types[k->type].sum * scale * sizes + types[k->type].finest;
  return is == is ? fabs(is - z) / allowed : INFINITY;
}
static double error_of_sum(const late_kernel *k, const float *sums, int i) {
  double sum = 0, sizes = 0;
  for (int x = 0; x < N; x++) {
    double a = number(input, x * N + i, k->type);
    sum += a;
    sizes += fabs(a);
  }
  return sums[i] == sums[i] ? fabs(sums[i] - sum) / (N * 0x1p-24 * sizes) : INFINITY;
}

/* Of the last link: it has read what the others made. Every few elements. */
static int check(const chains *c, const char *what) {
  enum { STEP = 37 };
  const late_kernel *k = c->kernel;
  size_t bytes = (size_t)types[k->type].size * N * N;
  float sums[N];
  double most = 0;
  for (int link = 0; link < LINKS; link++) {
    const char *from = link ? device.wanted[0][link - 1] : device.begin[0];
    TRY(cudaMemcpy(input, from, bytes, cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(output, device.wanted[0][link], bytes, cudaMemcpyDeviceToHost));
    for (int at = link; at < N * N; at += STEP) most = fmax(most, error_of(k, at / N, at % N));
    if (!k->trans_a) continue;
    TRY(cudaMemcpy(sums, device.wanted_sums[0][link], sizeof sums, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) most = fmax(most, error_of_sum(k, sums, i));
  }
  return ok(most <= 1, "%s: on time it is right (%.2f of the tolerance)", what, most);
}

static void test(const late_kernel *k, int parts) {
  chains c;
  char what[128];
  lo_u64 differing[2];
  double begin = now();
  snprintf(what, sizeof what, "%s, %d part%s of k", k->name, parts, parts == 1 ? "" : "s");
  make_operands(k->type);
  if (!put_operands() || !plan(&c, k, parts) || !run_wanted(&c)) return;
  check(&c, what);
  if (!run_late(&c, differing)) return;
  ok(!differing[0], "%s: late, the same %d times (%llu words differ, from launch %llu on; %.1f s)",
     what, LAUNCHES, differing[0], differing[0] ? differing[1] * LINKS : 0, now() - begin);
}

static const char *cannot_run(void) {
  static char text[96];
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  int architecture, code;
  if (!driver->count) return driver->reason;
  if (cudaDeviceGetAttribute(&architecture, cudaDevAttrComputeCapabilityMajor, 0))
    return "the device does not answer";
  if (lo_cu_code_architecture(&code)) return "this build has no code for the device";
  if (architecture == 9 && code == 90) return NULL;
  snprintf(text, sizeof text, "the device is no Hopper, or this build has no code for sm_90a");
  return text;
}

int main(int argc, char **argv) {
  const char *reason = cannot_run(), *only = argc > 1 ? argv[1] : "";
  if (reason) {
    skip("warps that come late", "%s", reason);
    return done();
  }
  if (!get_memory()) return done();
  for (int i = 0; i < late_kernel_count; i++) {
    const late_kernel *k = &late_kernels[i];
    if (!strstr(k->name, only)) continue;
    test(k, 1);
    if (k->parts) test(k, k->parts);
  }
  return done();
}
