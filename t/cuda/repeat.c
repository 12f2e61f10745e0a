/* The same call gives the same bits, whatever else the device does: every kernel for products by
 * name, every operation with the kernels of each family of architectures, and eight threads that
 * share packed weights, many times each while another stream is busy.
 *
 * Usage: repeat [RUNS [PREFIX]]. RUNS: 100; with 1, for compute-sanitizer, nothing disturbs.
 * PREFIX: only the kernels whose name begins so; "operations": all but the kernels by name.
 * LAYEROPS_CUDA_ARCH: one family. */
#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/any_call.h"
#include "t/devices.h"

#ifndef HAVE_CUDA
static void test_device(const char *name) {
  (void)name;
}
int main(void) {
  for_each_device(test_device);
  return done();
}
#else

#include "backends/cuda/plan.h"

enum { LARGEST = 256 * 1024, BYTES = 4 * LARGEST };

static int runs = 100;
static const char *prefix;
static layerops_context *ctx;

/* ---- Operands: each call finds its own among them. */
enum { A, B, C, D, E, F, G, INDEX, BUFFERS };
static struct {
  layerops_buffer *buffer;
  char start[BYTES], first[BYTES], now[BYTES];
} pool[BUFFERS];

static unsigned seed = 1;
static unsigned next(unsigned below) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % below;
}

/* In (0, 1), with all bits of the type in use: the order of a sum shows. */
static void put(char *p, int at, layerops_type type) {
  float f = (float)(next(1 << 20) + 1) / (1 << 20);
  uint32_t u;
  memcpy(&u, &f, 4);
  if (type == LAYEROPS_F32)
    memcpy(p + 4 * at, &u, 4);
  else if (type == LAYEROPS_BF16)
    ((uint16_t *)p)[at] = (uint16_t)(u >> 16);
  else if (type == LAYEROPS_F16) /* none is so small that it were subnormal */
    ((uint16_t *)p)[at] = (uint16_t)(u < 113u << 23 ? 0x400 : (u >> 13) - (112 << 10));
  else
    p[at] = (char)next(256);
}

static layerops_status fill_pool(layerops_type type) {
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < BUFFERS && !status; i++) {
    for (int j = 0; j < BYTES / (int)layerops_type_size(type); j++) put(pool[i].start, j, type);
    if (i == INDEX)
      for (int j = 0; j < LARGEST; j++) ((int32_t *)pool[i].start)[j] = j * 7 % 5;
    status = layerops_buffer_write(ctx, pool[i].buffer, pool[i].start, BYTES);
  }
  return status;
}

static layerops_matrix of(int which, layerops_type type, int64_t rows, int64_t cols) {
  return layerops_matrix_of(pool[which].buffer, type, rows, cols);
}

/* ---- Another stream, which takes SMs away for a time that varies. */
static struct {
  layerops_context *ctx;
  layerops_buffer *buffers[3];
} noise;

enum { NOISE = 640 };
static layerops_status make_noise(void) {
  layerops_status status = layerops_open("cuda", &noise.ctx);
  for (int i = 0; i < 3 && !status; i++) {
    status = layerops_buffer_create(noise.ctx, 4 * NOISE * NOISE, &noise.buffers[i]);
    layerops_fill_args fill = {.y = layerops_matrix_f32(noise.buffers[i], NOISE, NOISE)};
    if (!status) status = layerops_fill(noise.ctx, &fill);
  }
  return status;
}

static void end_noise(void) {
  for (int i = 0; i < 3; i++) layerops_buffer_destroy(noise.buffers[i]);
  layerops_close(noise.ctx);
}

static layerops_status disturb(void) {
  layerops_status status = LAYEROPS_OK;
  if (runs == 1) return status;
  for (unsigned i = next(3); i > 0 && !status; i--) {
    int64_t size = 16 + next(NOISE - 16);
    layerops_gemm_args args = {.a = layerops_matrix_f32(noise.buffers[0], size, size),
                               .b = layerops_matrix_f32(noise.buffers[1], size, size),
                               .c = layerops_matrix_f32(noise.buffers[2], size, size)};
    status = layerops_gemm(noise.ctx, &args);
  }
  return status;
}

/* ---- Runs */
#define BIT(which) (1u << (which))

/* One run of the call from the operands' start. What it writes, `bytes` of each buffer whose bit
 * is in `written`, goes to `now`. */
static layerops_status run(const any_call *call, unsigned written, int64_t bytes) {
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < BUFFERS && !status; i++)
    if (written & BIT(i)) status = layerops_buffer_write(ctx, pool[i].buffer, pool[i].start, bytes);
  if (!status) status = disturb();
  if (!status) status = run_any_call(ctx, call);
  for (int i = 0; i < BUFFERS && !status; i++)
    if (written & BIT(i)) status = layerops_buffer_read(ctx, pool[i].buffer, pool[i].now, bytes);
  return status;
}

/* The number of runs that differ from the first, or -1. */
static int count_other(const any_call *call, unsigned written, int64_t bytes) {
  int other = 0, idle = 1;
  for (int r = 0; r < runs; r++) {
    int differs = 0;
    if (run(call, written, bytes)) return -1;
    for (int i = 0; i < BUFFERS; i++) {
      if (!(written & BIT(i))) continue;
      if (r == 0) memcpy(pool[i].first, pool[i].now, (size_t)bytes);
      if (r == 0) idle &= !memcmp(pool[i].start, pool[i].now, (size_t)bytes);
      differs |= memcmp(pool[i].first, pool[i].now, (size_t)bytes) != 0;
    }
    other += differs;
  }
  return idle ? runs : other;
}

/* Restores the operands too: a later call may read what this one wrote. */
static void expect_same(const char *what, const any_call *call, unsigned written, int64_t bytes) {
  int other = count_other(call, written, bytes);
  ok(other == 0, "%s %s: %d runs%s%s", what, layerops_last_kernel(ctx), runs, other ? ": " : "",
     other < 0 ? layerops_last_error()
     : other   ? "bits differ"
               : "");
  for (int i = 0; i < BUFFERS; i++)
    if (written & BIT(i)) layerops_buffer_write(ctx, pool[i].buffer, pool[i].start, bytes);
}

/* ---- Families of architectures, the newest first */
static int families[3], family_count;

/* A context with a family's kernels, or with one of them for products. */
static int open_family(int architecture, const char *kernel) {
  char arch[16];
  const char *before = getenv("LAYEROPS_CUDA_ARCH");
  char *kept = before ? strdup(before) : NULL;
  snprintf(arch, sizeof arch, "%d", architecture);
  setenv("LAYEROPS_CUDA_ARCH", arch, 1);
  if (kernel) setenv("LAYEROPS_CUDA_KERNEL", kernel, 1);
  layerops_status status = layerops_open("cuda", &ctx);
  unsetenv("LAYEROPS_CUDA_KERNEL");
  if (kept)
    setenv("LAYEROPS_CUDA_ARCH", kept, 1);
  else
    unsetenv("LAYEROPS_CUDA_ARCH");
  free(kept);
  return ok(status == LAYEROPS_OK, "sm_%d %s opens%s%s", architecture, kernel ? kernel : "",
            status ? ": " : "", status ? layerops_last_error() : "");
}

/* ---- Kernels by name */
typedef struct shape {
  int64_t m, n, k;
} shape;

/* A way to run a kernel: on one tile of many steps of k or on more of them, all orders of operands
 * or X W^T alone, parts of k, and rows that lie badly, so that they are copied. */
typedef struct way {
  bool large, all_orders, copied;
  int parts;
} way;

/* Rows on the borders that the kernel wants, or off them. */
static layerops_matrix operand(int which, layerops_type type, int64_t rows, int64_t cols,
                               const lo_cuda_kernel *k, bool copied) {
  int64_t size = (int64_t)layerops_type_size(type), each = k->align > size ? k->align / size : 1;
  layerops_matrix m = of(which, type, rows, cols);
  m.stride = copied ? cols | 1 : (cols + each - 1) / each * each;
  return m;
}

static any_call product(const lo_cuda_kernel *k, layerops_type type, shape s, int order,
                        bool copied) {
  const bool integers = LO_KIND_INT8 & k->kinds;
  const bool mixed = LO_KINDS_W8 & k->kinds;
  layerops_type w_type = mixed ? LAYEROPS_F8E4M3 : type == LAYEROPS_U8 ? LAYEROPS_I8 : type;
  const bool w_copied = copied && !mixed;
  layerops_matrix y = of(C, integers ? LAYEROPS_F32 : type, s.m, s.n);
  uint32_t flags = k->kinds & LO_KIND_TF32 ? LAYEROPS_ALLOW_TF32 : 0;
  y.stride = s.n + 3;
  any_call call = {.op = order == 1 ? LAYEROPS_OP_linear_forward : LAYEROPS_OP_gemm};
  if (order == 1)
    call.args.linear_forward =
        (layerops_linear_args){.x = operand(A, type, s.m, s.k, k, copied),
                               .w = operand(B, w_type, s.n, s.k, k, w_copied),
                               .bias = of(D, y.type, 1, s.n),
                               .y = y,
                               .activation = LAYEROPS_GELU,
                               .flags = flags};
  else
    call.args.gemm =
        (layerops_gemm_args){.a = order / 2 ? operand(A, type, s.k, s.m, k, copied)
                                            : operand(A, type, s.m, s.k, k, copied),
                             .b = order % 2 ? operand(B, w_type, s.n, s.k, k, w_copied)
                                            : operand(B, w_type, s.k, s.n, k, w_copied),
                             .c = y,
                             .trans_a = order / 2,
                             .trans_b = order % 2,
                             .beta = layerops_value(0.5),
                             .flags = flags};
  return call;
}

static shape shape_of(const lo_cuda_kernel *k, bool large) {
  int64_t tile_n = k->few ? k->bm : k->bn, long_step = k->bk > 256;
  shape s = {k->bm / 2 + 3, tile_n / 2 + 5, (long_step ? 1 : 4) * k->bk + 16};
  if (large) s = (shape){k->bm + 2, tile_n + 6, (long_step ? 2 : 6) * k->bk + 16};
  if (k->few) s.m = k->few;
  return s;
}

static void test_way(const lo_cuda_kernel *k, layerops_type type, int architecture, way w) {
  shape s = shape_of(k, w.large);
  char name[80];
  snprintf(name, sizeof name, "%s:%d", k->name, w.parts);
  if (!open_family(architecture, name)) return;
  for (int order = 0; order < 4; order++) {
    any_call call = product(k, type, s, order, w.copied);
    if (!(k->orders >> order & 1) || !(w.all_orders || order == 1)) continue;
    snprintf(name, sizeof name, "%s order %d, %d parts%s,", layerops_type_name(type), order,
             w.parts, w.copied ? ", copies" : "");
    expect_same(name, &call, BIT(C), 4 * s.m * (s.n + 3));
  }
  layerops_close(ctx);
}

static void test_kernel(const lo_cuda_kernel *k, layerops_type type, int architecture) {
  static const way ways[] = {
      {.all_orders = true, .parts = 1}, {.large = true, .parts = 3}, {.copied = true, .parts = 1}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    way w = ways[i];
    if (k->few || (k->boxes && !k->meets)) w.parts = 1;
    if (!w.copied || k->align == LO_CUDA_CHUNK) test_way(k, type, architecture, w);
  }
}

static bool fits(const lo_cuda_kernel *k, int architecture) {
  return k->from <= architecture && architecture <= k->to;
}

/* Those that no newer family had. */
static void test_kernels(layerops_type type, int kind, int family) {
  for (int i = 0; i < lo_cuda_kernel_count; i++) {
    const lo_cuda_kernel *k = &lo_cuda_kernels[i];
    if (!(k->kinds & kind) || !fits(k, families[family])) continue;
    if (family > 0 && fits(k, families[family - 1])) continue;
    if (!prefix || !strncmp(k->name, prefix, strlen(prefix)))
      test_kernel(k, type, families[family]);
  }
}

/* ---- Operations, with the kernels that a family would take */
static any_call product_of(layerops_op op, layerops_type type, shape s, int variant) {
  any_call call = {.op = op};
  layerops_matrix y = of(C, type, s.m, s.n);
  if (op == LAYEROPS_OP_gemm)
    call.args.gemm =
        (layerops_gemm_args){.a = variant & 1 ? of(A, type, s.k, s.m) : of(A, type, s.m, s.k),
                             .b = variant & 2 ? of(B, type, s.n, s.k) : of(B, type, s.k, s.n),
                             .c = y,
                             .trans_a = variant & 1,
                             .trans_b = (variant & 2) / 2,
                             .beta = layerops_value(0.5)};
  else if (op == LAYEROPS_OP_linear_forward)
    call.args.linear_forward = (layerops_linear_args){.x = of(A, type, s.m, s.k),
                                                      .w = of(B, type, s.n, s.k),
                                                      .bias = of(D, type, 1, s.n),
                                                      .residual = of(E, type, s.m, s.n),
                                                      .preact = of(F, type, s.m, s.n),
                                                      .y = y,
                                                      .activation = LAYEROPS_SILU};
  else
    call.args.linear_backward = (layerops_linear_backward_args){.dy = of(A, type, s.m, s.n),
                                                                .x = of(B, type, s.m, s.k),
                                                                .w = of(D, type, s.n, s.k),
                                                                .saved = of(E, type, s.m, s.n),
                                                                .dx = of(C, type, s.m, s.k),
                                                                .dx_saved = of(B, type, s.m, s.k),
                                                                .dw = of(F, type, s.n, s.k),
                                                                .dbias = of(G, type, 1, s.n),
                                                                .activation = LAYEROPS_GELU,
                                                                .dx_activation = LAYEROPS_RELU};
  return call;
}

static void test_products(layerops_type type, int family) {
  static const layerops_op ops[] = {LAYEROPS_OP_gemm, LAYEROPS_OP_linear_forward,
                                    LAYEROPS_OP_linear_backward};
  static const shape shapes[] = {{150, 131, 90}, {128, 192, 256}, {7, 200, 320}, {96, 10, 200}};
  if (!open_family(families[family], NULL)) return;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) {
      any_call call = product_of(ops[i], type, shapes[j], j);
      char what[64];
      snprintf(what, sizeof what, "%s %s of sm_%d,", layerops_op_name(ops[i]),
               layerops_type_name(type), families[family]);
      expect_same(what, &call, BIT(C) | (i > 0 ? BIT(F) : 0) | (i > 1 ? BIT(G) : 0), BYTES / 4);
    }
  layerops_close(ctx);
}

static layerops_bsr *make_bsr(void) {
  static const int32_t row_start[] = {0, 2, 3, 6}, column[] = {0, 2, 1, 0, 1, 2};
  layerops_bsr_args args = {.rows = 96,
                            .cols = 96,
                            .block = 32,
                            .count = 6,
                            .row_start = row_start,
                            .column = column,
                            .values = pool[B].start,
                            .type = LAYEROPS_F32};
  layerops_bsr *bsr = NULL;
  ok(!layerops_bsr_create(ctx, &args, &bsr), "block-sparse weights");
  return bsr;
}

/* Operations on rows of n; false where it is none, or the type is not for it. */
static bool call_of(layerops_op op, layerops_type type, int64_t m, int64_t n,
                    const layerops_bsr *bsr, any_call *call) {
  layerops_matrix a = of(A, type, m, n), b = of(B, type, m, n), c = of(C, type, m, n);
  layerops_matrix d = of(D, LAYEROPS_F32, m, n), e = of(E, LAYEROPS_F32, m, n);
  layerops_matrix labels = of(INDEX, LAYEROPS_I32, 1, m), one = of(F, LAYEROPS_F32, 1, 1);
  *call = (any_call){.op = op};
  switch (op) {
#define CALL(name, ...)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    call->args.name = (layerops_##name##_args){__VA_ARGS__};                                       \
    return true;
    CALL(activation_forward, .x = a, .y = c, .activation = LAYEROPS_GELU)
    CALL(activation_backward, .dy = a, .saved = b, .dx = c, .activation = LAYEROPS_GELU)
    CALL(softmax, .x = a, .y = c)
    CALL(cross_entropy, .logits = a, .labels = labels, .dlogits = c, .loss = one,
         .losses = of(D, LAYEROPS_F32, 1, m), .correct = of(G, LAYEROPS_I32, 1, 1))
    CALL(mse, .y = a, .target = b, .dy = c, .loss = one)
    CALL(sgd, .w = c, .g = a, .velocity = d, .lr = layerops_value(0.1),
         .momentum = layerops_value(0.9))
    CALL(adam, .w = c, .g = a, .m = d, .v = e, .lr = layerops_value(0.1), .step = layerops_value(1))
    CALL(fill, .y = c, .value = layerops_value(2))
    CALL(copy, .x = a, .y = d)
    CALL(transpose, .x = a, .y = of(C, type, n, m))
    CALL(gather, .x = of(A, type, 5, n), .index = labels, .y = c)
#undef CALL
  case LAYEROPS_OP_bsr_linear_forward:
    call->args.bsr_linear_forward = (layerops_bsr_linear_forward_args){
        .x = of(A, type, m, 96), .w = bsr, .y = of(C, type, m, 96)};
    return type == LAYEROPS_F32 && n == 10;
  default:
    return false;
  }
}

/* Short rows, long ones, and rows that are not held in registers. */
static void test_rows(layerops_type type) {
  static const shape shapes[] = {{.m = 150, .n = 10}, {.m = 33, .n = 1001}, {.m = 5, .n = 9600}};
  any_call call;
  if (!open_family(families[0], NULL)) return;
  layerops_bsr *bsr = make_bsr();
  for (layerops_op op = 1; op < LAYEROPS_OP_COUNT; op++)
    for (int i = 0; i < 3; i++) {
      if (!call_of(op, type, shapes[i].m, shapes[i].n, bsr, &call)) continue;
      char what[64];
      snprintf(what, sizeof what, "%s %s, rows of %lld,", layerops_op_name(op),
               layerops_type_name(type), (long long)shapes[i].n);
      expect_same(what, &call, BIT(C) | BIT(D) | BIT(E) | BIT(F) | BIT(G), BYTES / 4);
    }
  layerops_bsr_destroy(bsr);
  layerops_close(ctx);
}

/* ---- Threads */
enum { THREADS = 8, OUT = 200, DEPTH = 304, MOST = 1 + 27 * (THREADS - 1) };
typedef struct sharer {
  pthread_t thread;
  layerops_type type, y_type;
  const layerops_weights *weights;
  layerops_buffer *y;
  int64_t m;
  float wanted[OUT * MOST], got[OUT * MOST];
  int failures;
} sharer;

static layerops_status forward(layerops_context *c, sharer *s, float *y) {
  layerops_linear_args args = {.x = of(A, s->type, s->m, DEPTH),
                               .packed = s->weights,
                               .y = layerops_matrix_of(s->y, s->y_type, s->m, OUT),
                               .activation = LAYEROPS_GELU};
  layerops_status status = layerops_linear_forward(c, &args);
  int64_t bytes = s->m * OUT * (int64_t)layerops_type_size(s->y_type);
  return status ? status : layerops_buffer_read(c, s->y, y, bytes);
}

static void *share(void *arg) {
  sharer *s = arg;
  layerops_context *own = NULL;
  s->failures = layerops_open("cuda", &own) != LAYEROPS_OK;
  for (int i = 0; i < runs && !s->failures; i++)
    s->failures = forward(own, s, s->got) || memcmp(s->got, s->wanted, sizeof s->got);
  layerops_close(own);
  return NULL;
}

/* Each has a context of its own and another number of rows, so that several kernels run. */
static void test_threads(layerops_type type) {
  static sharer sharers[THREADS];
  layerops_weights *weights = NULL;
  if (!open_family(families[0], NULL)) return;
  layerops_weights_args args = {.w = of(B, type == LAYEROPS_U8 ? LAYEROPS_I8 : type, OUT, DEPTH)};
  layerops_status status = layerops_weights_pack(ctx, &args, &weights);
  int started = 0, failures = 0;
  memset(sharers, 0, sizeof sharers);
  for (int i = 0; i < THREADS && !status; i++) {
    sharer *s = &sharers[i];
    s->type = type;
    s->y_type = layerops_type_size(type) == 1 ? LAYEROPS_F32 : type;
    s->weights = weights;
    s->m = 1 + 27 * i;
    status = layerops_buffer_create(ctx, sizeof s->got, &s->y);
    if (!status) status = forward(ctx, s, s->wanted);
  }
  while (!status && started < THREADS &&
         !pthread_create(&sharers[started].thread, NULL, share, &sharers[started]))
    started++;
  for (int i = 0; i < started; i++) {
    pthread_join(sharers[i].thread, NULL);
    failures += sharers[i].failures;
  }
  ok(started == THREADS && !failures,
     "%s: %d threads share packed weights, with the bits of one%s%s", layerops_type_name(type),
     started, status ? ": " : "", status ? layerops_last_error() : "");
  for (int i = 0; i < THREADS; i++) layerops_buffer_destroy(sharers[i].y);
  layerops_weights_destroy(weights);
  layerops_close(ctx);
}

/* ---- All of it */
static void find_families(void) {
  int own = lo_cuda(ctx)->architecture;
  families[family_count++] = own;
  if (getenv("LAYEROPS_CUDA_ARCH")) return;
  if (own > 80) families[family_count++] = 80;
  if (own > 75) families[family_count++] = 75;
}

static void test_type(layerops_type type, int kind) {
  if (!ok(!fill_pool(type), "operands of %s", layerops_type_name(type))) return;
  for (int i = 0; i < family_count; i++) test_kernels(type, kind, i);
  const int alike = LO_KIND_TF32 | LO_KINDS_W8; /* operations are no others */
  if ((prefix && strcmp(prefix, "operations")) || kind & alike) return;
  for (int i = 0; i < family_count && kind != LO_KIND_INT8; i++) test_products(type, i);
  if (kind != LO_KIND_INT8) test_rows(type);
  test_threads(type);
}

static void test_all(void) {
  static const struct {
    layerops_type type;
    int kind;
  } types[] = {{LAYEROPS_F32, LO_KIND_F32},    {LAYEROPS_F32, LO_KIND_TF32},
               {LAYEROPS_F16, LO_KIND_F16},    {LAYEROPS_BF16, LO_KIND_BF16},
               {LAYEROPS_I8, LO_KIND_INT8},    {LAYEROPS_U8, LO_KIND_INT8},
               {LAYEROPS_F16, LO_KIND_F16_W8}, {LAYEROPS_BF16, LO_KIND_BF16_W8}};
  layerops_context *owner = ctx;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    test_type(types[i].type, types[i].kind);
    ctx = owner;
  }
}

static void test_device(const char *name) {
  if (strcmp(name, "cuda:0")) return;
  layerops_status status = layerops_open(name, &ctx);
  for (int i = 0; i < BUFFERS && !status; i++)
    status = layerops_buffer_create(ctx, BYTES, &pool[i].buffer);
  if (!status) status = make_noise();
  if (ok(status == LAYEROPS_OK, "contexts and buffers%s%s", status ? ": " : "",
         status ? layerops_last_error() : "")) {
    find_families();
    test_all();
    ok(!layerops_sync(noise.ctx) && !layerops_sync(ctx), "nothing went wrong unseen");
  }
  end_noise();
  for (int i = 0; i < BUFFERS; i++) layerops_buffer_destroy(pool[i].buffer);
  layerops_close(ctx);
}

int main(int argc, char **argv) {
  if (argc > 1) runs = atoi(argv[1]);
  if (argc > 2) prefix = argv[2];
  for_each_device(test_device);
  return done();
}
#endif
