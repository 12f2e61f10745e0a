/* Tuning on a CUDA device: nothing but scratch memory is written, what is found is used, here and
 * by contexts opened later, and no kernel is taken that computes something else. */
#include <config.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

#ifndef HAVE_CUDA
int main(void) {
  skip("tuning", "configured without cuda");
  return done();
}
#else

#include "backends/cuda/plan.h"
#include "common/cache_file.h"
#include "t/is.h"
#include "t/scratch.h"

#define TRY(call)                                                                                  \
  do {                                                                                             \
    if ((call) != LAYEROPS_OK) {                                                                   \
      ok(0, "%s: %s", #call, layerops_last_error());                                               \
      return;                                                                                      \
    }                                                                                              \
  } while (0)

enum { M = 130, N = 70, K = 260, PAD = 4, BUFFERS = 12 };

/* ---- Operands: small whole numbers, exact in every type and order, and NaN beside them */
static uint16_t narrow(float f, layerops_type type) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if (type == LAYEROPS_BF16 || f == 0) return (uint16_t)(u >> 16);
  return (uint16_t)((u >> 16 & 0x8000) | (((u >> 13) & 0x3ffff) - (112 << 10))); /* the bias */
}

typedef struct world {
  layerops_context *ctx;
  layerops_type type;
  unsigned seed;
  layerops_buffer *buffers[BUFFERS];
  int64_t bytes[BUFFERS];
  int count;
} world;

static float whole(world *w) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (float)(int)(w->seed >> 29) - 3;
}

static layerops_matrix matrix(world *w, int64_t rows, int64_t cols) {
  int64_t size = (int64_t)layerops_type_size(w->type), stride = cols + PAD;
  char *host = malloc((size_t)(rows * stride * size));
  memset(host, 0xff, (size_t)(rows * stride * size));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      float f = whole(w);
      uint16_t narrowed = narrow(f, w->type);
      memcpy(host + (i * stride + j) * size,
             w->type == LAYEROPS_F32 ? (void *)&f : (void *)&narrowed, (size_t)size);
    }
  int at = w->count++;
  w->bytes[at] = rows * stride * size;
  if (layerops_buffer_from(w->ctx, host, w->bytes[at], &w->buffers[at])) abort();
  free(host);
  layerops_matrix m = layerops_matrix_of(w->buffers[at], w->type, rows, cols);
  m.stride = stride;
  return m;
}

static void end_world(world *w) {
  for (int i = 0; i < w->count; i++) layerops_buffer_destroy(w->buffers[i]);
}

/* Whether all memory of both has the same bits. */
static int same(world *a, world *b) {
  int equal = a->count == b->count;
  for (int i = 0; equal && i < a->count; i++) {
    char *x = malloc((size_t)a->bytes[i]), *y = malloc((size_t)a->bytes[i]);
    equal = !layerops_buffer_read(a->ctx, a->buffers[i], x, a->bytes[i]) &&
            !layerops_buffer_read(b->ctx, b->buffers[i], y, a->bytes[i]) &&
            !memcmp(x, y, (size_t)a->bytes[i]);
    if (!equal) diag("buffer %d of the call differs", i);
    free(x);
    free(y);
  }
  return equal;
}

/* ---- Calls that read what they write */
static layerops_status call_gemm(world *w) {
  layerops_gemm_args a = {.a = matrix(w, K, M),
                          .b = matrix(w, K, N),
                          .c = matrix(w, M, N),
                          .trans_a = 1,
                          .beta = layerops_value(1)};
  return layerops_gemm(w->ctx, &a);
}

static layerops_status call_forward(world *w) {
  layerops_linear_args a = {.x = matrix(w, M, K),
                            .w = matrix(w, N, K),
                            .bias = matrix(w, 1, N),
                            .preact = matrix(w, M, N),
                            .y = matrix(w, M, N),
                            .activation = LAYEROPS_RELU};
  a.residual = a.y; /* in place */
  return layerops_linear_forward(w->ctx, &a);
}

static layerops_status call_backward(world *w) {
  layerops_linear_backward_args a = {.dy = matrix(w, M, N),
                                     .x = matrix(w, M, K),
                                     .w = matrix(w, N, K),
                                     .saved = matrix(w, M, N),
                                     .dx = matrix(w, M, K),
                                     .dw = matrix(w, N, K),
                                     .dbias = matrix(w, 1, N),
                                     .activation = LAYEROPS_RELU,
                                     .dx_activation = LAYEROPS_RELU,
                                     .beta = layerops_value(1)};
  a.dz = a.dy; /* in place, twice would be wrong: ReLU' of dZ is not that of dY */
  a.dx_saved = a.dx;
  return layerops_linear_backward(w->ctx, &a);
}

static const struct {
  const char *name;
  layerops_status (*call)(world *w);
  int products;
} calls[] = {{"gemm, C += A^T B", call_gemm, 1},
             {"linear_forward in place over its residual", call_forward, 1},
             {"linear_backward, dW += and all in place", call_backward, 2}};

typedef struct heard {
  int tuned, left;
  char kernel[64], reason[256];
  int good;
} heard;

static void hear(void *user, const layerops_tuned *p) {
  heard *h = user;
  h->tuned += !p->reason;
  h->left += p->reason != NULL;
  snprintf(h->kernel, sizeof h->kernel, "%s", p->kernel);
  snprintf(h->reason, sizeof h->reason, "%s", p->reason ? p->reason : "");
  h->good = p->reason || (p->seconds > 0 && p->rule_seconds > 0 && p->parts > 0 && *p->rule_kernel);
}

static layerops_context *open_context(int no_cache) {
  layerops_open_args args = {.device = "cuda", .no_cache = no_cache};
  layerops_context *ctx = NULL;
  if (layerops_open_with(&args, &ctx)) {
    ok(0, "cuda opens: %s", layerops_last_error());
    abort();
  }
  return ctx;
}

static int listed(layerops_context *ctx) {
  heard h = {0};
  return layerops_tune_list(ctx, hear, &h) ? -1 : h.tuned;
}

/* ---- Outputs */
static void test_call(layerops_context *tuning, layerops_context *plain, int i, layerops_type type,
                      heard *h) {
  int before = h->tuned;
  for (int again = 0; again < 2; again++) {
    world a = {.ctx = tuning, .type = type, .seed = 7}, b = {.ctx = plain, .type = type, .seed = 7};
    TRY(calls[i].call(&a));
    TRY(calls[i].call(&b));
    ok(same(&a, &b), "%s, %s: the bits are those without tuning%s", calls[i].name,
       layerops_type_name(type), again ? ", also when it is tuned" : "");
    end_world(&a);
    end_world(&b);
  }
  is_int(h->tuned - before, calls[i].products, "... and %d products were tuned, once",
         calls[i].products);
}

static void test_outputs(void) {
  static const layerops_type types[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16};
  heard h = {.good = 1};
  layerops_tune_args args = {.seconds = 20, .told = hear, .user = &h};
  layerops_context *tuning = open_context(0), *plain = open_context(1);
  TRY(layerops_tune_begin(tuning, &args));
  is_int(layerops_tune_begin(tuning, &args), LAYEROPS_ERROR_STATE, "tuning begins once");
  is_int(layerops_tune_clear(tuning), LAYEROPS_ERROR_STATE, "clearing must wait");
  layerops_open("toaster", &(layerops_context *){NULL});
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 3; i++) test_call(tuning, plain, i, types[t], &h);
  contains(layerops_last_error(), "toaster", "tuning leaves the last error as it was");
  is_int(h.left, 0, "none was left");
  ok(h.good, "each was told with its times");
  TRY(layerops_tune_end(tuning));
  is_int(layerops_tune_end(tuning), LAYEROPS_ERROR_STATE, "and ends once");
  is_int(listed(tuning), 12, "12 products are listed");
  layerops_context *later = open_context(0);
  is_int(listed(later), 12, "... also by a context opened later");
  is_int(listed(plain), 0, "... but not by one without the cache");
  setenv("LAYEROPS_CUDA_ARCH", "75", 1);
  layerops_context *other = open_context(0);
  unsetenv("LAYEROPS_CUDA_ARCH");
  is_int(listed(other), 0, "... nor by one with the kernels of another architecture");
  TRY(layerops_tune_clear(later));
  is_int(listed(later), 0, "cleared");
  layerops_close(other);
  other = open_context(0);
  is_int(listed(other), 0, "... for later contexts too");
  layerops_close(other);
  layerops_close(later);
  layerops_close(plain);
  layerops_close(tuning);
}

/* ---- What is found is used */
static void product_of(const world *w, layerops_gemm_args *args, lo_product *p) {
  (void)w;
  args->alpha = layerops_value(1); /* as the door fills them in */
  args->beta = layerops_value(0);
  lo_product_gemm(args, p);
}

static layerops_gemm_args plain_gemm(world *w) {
  return (layerops_gemm_args){
      .a = matrix(w, M, K), .b = matrix(w, N, K), .c = matrix(w, M, N), .trans_b = 1};
}

/* The kernel that a new context takes for the product after the cache was told of this one. */
static const char *kernel_taken(const char *kernel, int parts, int no_cache) {
  static char taken[64];
  char why[LO_CACHE_WHY];
  layerops_context *ctx = open_context(0);
  world w = {.ctx = ctx, .type = LAYEROPS_F32, .seed = 3};
  layerops_gemm_args args = plain_gemm(&w), filled = args;
  lo_product p;
  product_of(&w, &filled, &p);
  lo_tuned *t = &lo_cuda(ctx)->tuned;
  lo_tuned_row row = {.key = lo_cuda_plan_key(&p),
                      .best = {.parts = parts, .ns = 1},
                      .rule = {"x", 1, 1},
                      .fresh = true};
  snprintf(row.best.kernel, sizeof row.best.kernel, "%s", kernel);
  if (*kernel && (!lo_tuned_put(t, &row) || !lo_tuned_save(t, &ctx->args, why))) abort();
  layerops_context *next = open_context(no_cache);
  if (layerops_gemm(next, &args)) abort();
  snprintf(taken, sizeof taken, "%s", layerops_last_kernel(next));
  layerops_close(next);
  end_world(&w);
  if (layerops_tune_clear(ctx)) abort();
  layerops_close(ctx);
  return taken;
}

static void test_used(void) {
  char rule[64];
  snprintf(rule, sizeof rule, "%s", kernel_taken("", 1, 0));
  const lo_cuda_kernel *other = lo_cuda_kernels;
  while (!strcmp(other->name, rule) || !(other->kinds & LO_KIND_F32) || other->few ||
         other->from > 75 || other->to < 90 || 2 * other->bk > K)
    other++;
  is_str(kernel_taken(other->name, 1, 0), other->name, "a tuned product takes its kernel");
  is_str(kernel_taken(other->name, 2, 0), other->name, "... also in 2 parts of k");
  is_str(kernel_taken(other->name, 1, 1), rule, "... but not without the cache");
  is_str(kernel_taken("no_such_kernel", 1, 0), rule, "a kernel that is no more: the rule's");
  is_str(kernel_taken(other->name, 97, 0), rule, "parts that k does not have: the rule's");
  is_str(kernel_taken("dot", 1, 0), rule, "a kernel that refuses: the rule's");
  setenv("LAYEROPS_CUDA_KERNEL", rule, 1);
  is_str(kernel_taken(other->name, 1, 0), rule, "LAYEROPS_CUDA_KERNEL comes before it");
  layerops_context *ctx = open_context(0);
  layerops_tune_args args = {.seconds = 1};
  is_int(layerops_tune_begin(ctx, &args), LAYEROPS_ERROR_UNSUPPORTED, "... and tuning is refused");
  contains(layerops_last_error(), rule, "... with its name");
  layerops_close(ctx);
  unsetenv("LAYEROPS_CUDA_KERNEL");
}

/* ---- What is left */
static void test_left(void) {
  heard h = {0};
  layerops_tune_args args = {.seconds = 1e-9, .told = hear, .user = &h};
  layerops_context *ctx = open_context(0);
  world w = {.ctx = ctx, .type = LAYEROPS_F32, .seed = 5};
  layerops_gemm_args gemm = plain_gemm(&w);
  TRY(layerops_tune_begin(ctx, &args));
  for (int i = 0; i < 3; i++) TRY(layerops_gemm(ctx, &gemm));
  ok(h.left == 1 && !h.tuned, "no time: left, and told once");
  is_str(h.reason, "the time is over", "... with the reason");
  TRY(layerops_tune_end(ctx));
  is_int(listed(ctx), 0, "... and not listed");

  float *nan = malloc((size_t)w.bytes[0]);
  memset(nan, 0xff, (size_t)w.bytes[0]);
  TRY(layerops_buffer_write(ctx, w.buffers[0], nan, w.bytes[0]));
  free(nan);
  args.seconds = 20;
  TRY(layerops_tune_begin(ctx, &args));
  TRY(layerops_gemm(ctx, &gemm));
  ok(h.left == 2 && !h.tuned, "operands that are NaN: left");
  is_str(h.reason, "its operands are not finite", "... with the reason");

  layerops_graph *graph;
  gemm.a.rows--;
  gemm.c.rows--;
  TRY(layerops_record_begin(ctx));
  TRY(layerops_gemm(ctx, &gemm));
  TRY(layerops_record_end(ctx, &graph));
  ok(h.left == 2 && !h.tuned, "what is recorded is not tuned");
  layerops_graph_destroy(graph);
  end_world(&w);
  layerops_close(ctx); /* ends it */
}

/* ---- Verifying */
static void test_verify(layerops_type type) {
  layerops_context *ctx = open_context(1);
  world w = {.ctx = ctx, .type = type, .seed = 11};
  layerops_gemm_args args = plain_gemm(&w);
  lo_product p;
  product_of(&w, &args, &p);
  lo_cuda_plan plans[64];
  bool pushed;
  if (lo_cuda_enter(ctx->device, &pushed)) abort();
  int count = lo_cuda_plan_candidates(ctx, &p, plans, 64), rights = 0, wrongs = 0, wholes = 0;
  for (int i = 0; i < count; i++) {
    char why[256];
    lo_cuda_verdict verdict = LO_VERDICT_NONE;
    layerops_buffer *parts = NULL;
    if (layerops_buffer_create(ctx, plans[i].bytes + 256, &parts)) abort();
    if (!lo_cuda_verify(ctx, &p, &plans[i], parts->native, &verdict, why, sizeof why))
      rights += verdict == LO_VERDICT_RIGHT;
    int64_t half = lo_ceil_div(K / 2, plans[i].kernel->bk) * plans[i].kernel->bk;
    if (plans[i].split == 1 && !plans[i].kernel->few && half < K) { /* half of k is forgotten */
      wholes++;
      plans[i].slice = half;
      if (!lo_cuda_verify(ctx, &p, &plans[i], parts->native, &verdict, why, sizeof why))
        wrongs += verdict == LO_VERDICT_WRONG && strstr(why, "must be") != NULL;
    }
    layerops_buffer_destroy(parts);
  }
  lo_cuda_leave(pushed);
  ok(count > 0 && rights == count, "%s: all %d candidates are right: %d", layerops_type_name(type),
     count, rights);
  ok(wholes > 0 && wrongs == wholes, "... and %d that forget half of k are found wrong: %d", wholes,
     wrongs);
  end_world(&w);
  layerops_close(ctx);
}

/* A line of the file can hold it. */
static void test_names(void) {
  int fit = 1;
  for (int i = 0; i < lo_cuda_kernel_count; i++) {
    const char *name = lo_cuda_kernels[i].name;
    fit = fit && strlen(name) < LO_TUNED_NAME &&
          strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
    if (!fit) diag("%s", name);
  }
  ok(fit, "the names of all %d kernels can be kept", lo_cuda_kernel_count);
}

static const char *why_not(void) {
  static layerops_device_info list[64];
  size_t count = 0;
  if (layerops_devices(list, 64, &count)) return layerops_last_error();
  for (size_t i = 0; i < count && i < 64; i++)
    if (!strncmp(list[i].name, "cuda", 4)) return list[i].available ? NULL : list[i].reason;
  return "cuda is not listed";
}

int main(void) {
  unsetenv("LAYEROPS_CACHE");
  unsetenv("LAYEROPS_CUDA_KERNEL");
  test_names();
  const char *reason = why_not(), *required = getenv("LAYEROPS_TEST_REQUIRE");
  if (reason && required && strstr(required, "cuda")) ok(0, "cuda is required: %s", reason);
  if (reason) {
    skip("tuning", "%s", reason);
    return done();
  }
  scratch_begin();
  setenv("XDG_CACHE_HOME", scratch, 1);
  test_outputs();
  test_used();
  test_left();
  test_verify(LAYEROPS_F32);
  test_verify(LAYEROPS_F16);
  test_verify(LAYEROPS_BF16);
  return done();
}
#endif
