/* A product's kernel held against float64 at sampled entries: with the operands as they are and a
 * plain epilogue, so that what is compared is the main loop and its parts of k. */
#include <config.h>

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/plan.h"
#include "common/tolerance.h"

enum { SAMPLES = 16 };

typedef struct sampling {
  layerops_context *ctx;
  const lo_product *p;
  lo_product plain;
  int64_t batch;                        /* of the matrix that is looked at */
  int64_t rows[SAMPLES], cols[SAMPLES]; /* of C */
  char *memory;                         /* on the device: plain's C and sums, then lines */
  float *lines;                         /* there: 2 SAMPLES of k: rows of op(A), columns of op(B) */
  float *host_lines, *host_sums;
  void *host_rows; /* SAMPLES rows of C */
  double lost; /* what TF32, or tensor cores that keep fewer digits, take from a sum, relatively */
  int compared;
} sampling;

static int64_t round_up(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

static bool integers(const lo_product *p) {
  return p->a.type == LAYEROPS_I8 || p->a.type == LAYEROPS_U8;
}

/* ---- The plain product */
static void make_plain(sampling *s) {
  const lo_product *p = s->p;
  s->plain = *p;
  s->plain.epilogue = (lo_epilogue){.alpha = layerops_value(1), .beta = layerops_value(0)};
  s->plain.scale_a = s->plain.scale_b = s->plain.zero_a = s->plain.scale_c = (layerops_matrix){0};
  s->plain.c = layerops_matrix_of(NULL, integers(p) ? LAYEROPS_I32 : LAYEROPS_F32, p->m, p->n);
  s->plain.c.batch = p->batch;
  s->plain.c.batch_stride = p->m * p->n;
  if (lo_present(&p->row_sum)) s->plain.row_sum = layerops_matrix_of(NULL, LAYEROPS_F32, 1, p->m);
}

static layerops_status allocate(sampling *s) {
  const lo_product *p = s->p;
  int64_t c = round_up(4 * p->batch * p->m * p->n), sums = round_up(4 * p->m);
  int64_t lines = 2 * SAMPLES * p->k;
  LO_TRY(lo_cuda_check(s->ctx, cudaMalloc((void **)&s->memory, (size_t)(c + sums + 4 * lines)),
                       "verify"));
  s->plain.c.host = s->memory;
  if (lo_present(&s->plain.row_sum)) s->plain.row_sum.host = s->memory + c;
  s->lines = (float *)(s->memory + c + sums);
  s->host_lines = malloc((size_t)lines * sizeof(float));
  s->host_rows = malloc((size_t)(4 * SAMPLES * p->n));
  s->host_sums = malloc((size_t)p->m * sizeof(float));
  if (s->host_lines && s->host_rows && s->host_sums) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "verify: no memory");
}

/* NaN first, so that what is not written shows. */
static layerops_status run_plain(sampling *s, const lo_cuda_plan *plan, char *parts) {
  size_t bytes = (size_t)((char *)s->lines - s->memory);
  struct CUstream_st *stream = lo_cuda(s->ctx)->stream;
  LO_TRY(lo_cuda_check(s->ctx, cudaMemsetAsync(s->memory, 0xff, bytes, stream), "verify"));
  return lo_cuda_run_product(s->ctx, &s->plain, plan, parts, "verify");
}

/* ---- What is compared */

/* The first, the last, then random ones. */
static void pick(int64_t *at, int64_t size, uint64_t *state) {
  for (int i = 0; i < SAMPLES; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    at[i] = i == 0 ? 0 : i == 1 ? size - 1 : (int64_t)((*state >> 24) % (uint64_t)size);
  }
}

/* Line i of an operand of which lines are rows or columns, as f32. */
static layerops_status fetch_line(sampling *s, const layerops_matrix *m, bool row, int64_t i,
                                  float *to) {
  layerops_copy_args copy = {
      .x = *m, .y = layerops_host_matrix(to, LAYEROPS_F32, row ? 1 : s->p->k, row ? s->p->k : 1)};
  copy.x.rows = copy.y.rows;
  copy.x.cols = copy.y.cols;
  copy.x.offset += (m->batch > 1 ? s->batch * m->batch_stride : 0) + (row ? i * m->stride : i);
  copy.x.batch = 1;
  copy.x.batch_stride = 0;
  return lo_cuda_copy(s->ctx, &copy);
}

static layerops_status fetch(sampling *s) {
  const lo_product *p = s->p;
  struct CUstream_st *stream = lo_cuda(s->ctx)->stream;
  for (int i = 0; i < SAMPLES; i++) {
    LO_TRY(fetch_line(s, &p->a, !p->trans_a, s->rows[i], s->lines + i * p->k));
    LO_TRY(fetch_line(s, &p->b, p->trans_b, s->cols[i], s->lines + (SAMPLES + i) * p->k));
    const char *row = s->memory + 4 * p->n * (s->batch * p->m + s->rows[i]);
    LO_TRY(lo_cuda_check(s->ctx,
                         cudaMemcpyAsync((char *)s->host_rows + 4 * p->n * i, row,
                                         (size_t)(4 * p->n), cudaMemcpyDeviceToHost, stream),
                         "verify"));
  }
  LO_TRY(lo_cuda_check(s->ctx,
                       cudaMemcpyAsync(s->host_lines, s->lines,
                                       (size_t)(2 * SAMPLES * p->k) * sizeof(float),
                                       cudaMemcpyDeviceToHost, stream),
                       "verify"));
  if (lo_present(&s->plain.row_sum))
    LO_TRY(
        lo_cuda_check(s->ctx,
                      cudaMemcpyAsync(s->host_sums, s->plain.row_sum.host,
                                      (size_t)p->m * sizeof(float), cudaMemcpyDeviceToHost, stream),
                      "verify"));
  return lo_cuda_check(s->ctx, cudaStreamSynchronize(stream), "verify");
}

/* Within what rounding explains (common/tolerance.h): of the sum, of the result, and of what may
 * be lost where numbers are subnormal. An entry beyond f32 says nothing. */
static bool right(sampling *s, double got, double sum, double size) {
  if (!(size <= FLT_MAX)) return true;
  s->compared++;
  if (integers(s->p)) return got == sum;
  double k = (double)s->p->k, units = lo_sum_steps(s->p->a.type, s->p->k) + 1;
  return fabs(got - sum) <= units * 0x1p-24 * size + s->lost * size + 4 * k * FLT_MIN;
}

static bool compare_entry(sampling *s, int i, int j, char *why, size_t why_size) {
  const lo_product *p = s->p;
  const float *x = s->host_lines + i * p->k, *w = s->host_lines + (SAMPLES + j) * p->k;
  double sum = 0, size = 0;
  for (int64_t l = 0; l < p->k; l++) {
    double product = (double)x[l] * (double)w[l];
    sum += product;
    size += fabs(product);
  }
  const void *at = (const char *)s->host_rows + 4 * (p->n * i + s->cols[j]);
  double got = integers(p) ? *(const int32_t *)at : (double)*(const float *)at;
  if (right(s, got, sum, size)) return true;
  snprintf(why, why_size, "entry (%lld, %lld) is %.9g, but must be %.9g", (long long)s->rows[i],
           (long long)s->cols[j], got, sum);
  return false;
}

static bool compare_row_sum(sampling *s, int i, char *why, size_t why_size) {
  const float *x = s->host_lines + i * s->p->k;
  double sum = 0, size = 0, got = s->host_sums[s->rows[i]];
  for (int64_t l = 0; l < s->p->k; l++) {
    sum += x[l];
    size += fabs(x[l]);
  }
  if (right(s, got, sum, size)) return true;
  snprintf(why, why_size, "the sum of row %lld is %.9g, but must be %.9g", (long long)s->rows[i],
           got, sum);
  return false;
}

static bool compare(sampling *s, char *why, size_t why_size) {
  for (int i = 0; i < SAMPLES; i++) {
    for (int j = 0; j < SAMPLES; j++)
      if (!compare_entry(s, i, j, why, why_size)) return false;
    if (lo_present(&s->plain.row_sum) && !compare_row_sum(s, i, why, why_size)) return false;
  }
  return true;
}

static layerops_status verify(sampling *s, const lo_cuda_plan *plan, char *parts,
                              lo_cuda_verdict *verdict, char *why, size_t why_size) {
  uint64_t state = (uint64_t)s->p->m * 31 + (uint64_t)s->p->n;
  LO_TRY(allocate(s));
  LO_TRY(run_plain(s, plan, parts));
  for (s->batch = 0; s->batch<s->p->batch; s->batch += s->p->batch> 1 ? s->p->batch - 1 : 1) {
    pick(s->rows, s->p->m, &state);
    pick(s->cols, s->p->n, &state);
    LO_TRY(fetch(s));
    *verdict = LO_VERDICT_WRONG;
    if (!compare(s, why, why_size)) return LAYEROPS_OK;
  }
  *verdict = s->compared ? LO_VERDICT_RIGHT : LO_VERDICT_NONE;
  return LAYEROPS_OK;
}

layerops_status lo_cuda_verify(layerops_context *ctx, const lo_product *p, const lo_cuda_plan *plan,
                               char *memory, lo_cuda_verdict *verdict, char *why, size_t why_size) {
  sampling s = {.ctx = ctx, .p = p};
  /* TF32 keeps 10 digits of each factor: cut off, 2^-10 of it, and twice that of the product. */
  s.lost = plan->kind == LO_KIND_TF32 ? 0x1p-9
           : plan->kind & (LO_KIND_F8 | LO_KIND_F8_FAST)
               ? lo_f8_steps(p->k, plan->kind == LO_KIND_F8_FAST) * 0x1p-24
               : 0;
  make_plain(&s);
  layerops_status status = verify(&s, plan, memory, verdict, why, why_size);
  cudaFree(s.memory);
  free(s.host_lines);
  free(s.host_rows);
  free(s.host_sums);
  return status;
}
