/* cuSPARSE: of block-sparse rows forward and dgrad by SpMM, with W in BSR or in Blocked-ELL, wgrad
   by SDDMM; the fastest of the algorithms that run, as warm or cold as the row is measured. For
   dgrad W is transposed beforehand. Blocked-ELL has as many blocks in each row as the longest has,
   and computes f32 in TF32, so that it is left out of f32. It sees row-major X [m,k] as
   column-major [k,m]: nothing else is transposed. */
#include <config.h>

#define DISABLE_CUSPARSE_DEPRECATED /* its own header uses what it warns of */

#include <cuda_runtime_api.h>
#include <cusparse.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/copies.h"
#include "bench/peers/common.h"

#define TRIALS 3

static const struct type {
  const char *name;
  cudaDataType_t type;
  size_t size;
  bool exact; /* no TF32 */
} types[] = {{"f32", CUDA_R_32F, 4, true},
             {"tf32", CUDA_R_32F, 4, false},
             {"f16", CUDA_R_16F, 2, false},
             {"bf16", CUDA_R_16BF, 2, false}};

enum form { BSR, ELL };

static const struct way {
  const char *name;
  enum form form;
  cusparseSpMMAlg_t algorithm;
  cusparseOrder_t order; /* how wgrad describes the transposed Y */
  bool wgrad;
} ways[] = {
    {"bsr", BSR, CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_ORDER_ROW, false},
    {"blocked-ell", ELL, CUSPARSE_SPMM_BLOCKED_ELL_ALG1, CUSPARSE_ORDER_ROW, false},
    {"sddmm-col", BSR, CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_ORDER_COL, true},
    {"sddmm-row", BSR, CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_ORDER_ROW, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* One call's matrices. */
struct call {
  cusparseSpMatDescr_t w;
  cusparseDnMatDescr_t in, out; /* of wgrad Y transposed, and X */
};

struct state {
  struct bench_layer layer;
  const struct type *type;
  cusparseHandle_t handle;
  const struct way *way;
  struct call *calls;
  int32_t *start, *column; /* on the device; of Blocked-ELL column alone */
  struct bench_copies values;
  void *workspace;
  cudaGraphExec_t graph;
};

/* ---- W in its forms, on the host ---- */

/* A [rows, cols] blocks: W, or for dgrad the transposed of it, by rows. */
struct blocks {
  int64_t rows, cols, longest;
  int32_t *start, *column, *place; /* place: which of the layer's blocks */
};

static bool order_blocks(const struct bench_layer *l, struct blocks *a) {
  const struct bench_pattern *p = l->pattern;
  const bool turned = l->product == BENCH_DGRAD;
  const size_t count = (size_t)bench_pattern_kept(p) + 1;
  *a = (struct blocks){.rows = turned ? p->cols : p->rows, .cols = turned ? p->rows : p->cols};
  a->start = calloc((size_t)a->rows + 2, sizeof *a->start);
  a->column = malloc(count * sizeof *a->column);
  a->place = malloc(count * sizeof *a->place);
  if (!a->start || !a->column || !a->place) return false;
  for (int64_t r = 0; r < p->rows; r++)
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++)
      a->start[(turned ? p->col[e] : r) + 2]++;
  for (int64_t r = 0; r < a->rows; r++) {
    if (a->start[r + 2] > a->longest) a->longest = a->start[r + 2];
    a->start[r + 2] += a->start[r + 1];
  }
  for (int64_t r = 0; r < p->rows; r++) /* start[row + 1] moves to where the next row begins */
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++) {
      const int32_t at = a->start[(turned ? p->col[e] : r) + 1]++;
      a->column[at] = (int32_t)(turned ? r : p->col[e]);
      a->place[at] = e;
    }
  return true;
}

static void free_blocks(struct blocks *a) {
  free(a->start);
  free(a->column);
  free(a->place);
}

/* Copies a block, transposed for dgrad, to rows that lie STRIDE elements apart. */
static void put_block(const struct state *s, int32_t place, char *to, int64_t stride) {
  const int64_t b = s->layer.row->block, size = (int64_t)s->type->size;
  const bool turned = s->layer.product == BENCH_DGRAD;
  const char *from = (const char *)s->layer.w + place * b * b * size;
  for (int64_t i = 0; i < b; i++)
    for (int64_t j = 0; j < b; j++)
      memcpy(to + (i * stride + j) * size, from + (turned ? j * b + i : i * b + j) * size,
             (size_t)size);
}

static bool upload(int32_t **to, const int32_t *from, int64_t count) {
  const size_t bytes = (size_t)count * sizeof *from;
  return !cudaMalloc((void **)to, bytes + 1) &&
         !cudaMemcpy(*to, from, bytes, cudaMemcpyHostToDevice);
}

/* Columns, -1 behind the last of a row. */
static bool upload_ell_columns(struct state *s, const struct blocks *a) {
  const int64_t count = a->rows * a->longest;
  int32_t *column = malloc((size_t)(count + 1) * sizeof *column);
  for (int64_t i = 0; column && i < count; i++) {
    const int64_t r = i / a->longest, at = a->start[r] + i % a->longest;
    column[i] = at < a->start[r + 1] ? a->column[at] : -1;
  }
  bool good = column && upload(&s->column, column, count);
  free(column);
  return good;
}

static bool make_form(struct state *s, const struct blocks *a) {
  const int64_t b = s->layer.row->block, size = (int64_t)s->type->size;
  const bool ell = s->way->form == ELL;
  const int64_t stride = ell ? a->longest * b : b;
  const int64_t elements = ell ? a->rows * b * stride : a->start[a->rows] * b * b;
  char *values = calloc((size_t)elements + 1, (size_t)size);
  for (int64_t r = 0; values && r < a->rows; r++)
    for (int32_t at = a->start[r]; at < a->start[r + 1]; at++)
      put_block(s, a->place[at],
                values + (ell ? r * b * stride + (at - a->start[r]) * b : at * b * b) * size,
                stride);
  bool good = values &&
              bench_copies_make(s->layer.list, values, (size_t)(elements * size), &s->values) &&
              (ell ? upload_ell_columns(s, a)
                   : upload(&s->start, a->start, a->rows + 1) &&
                         upload(&s->column, a->column, a->start[a->rows]));
  free(values);
  return good;
}

/* ---- calls ---- */

static bool describe_w(const struct state *s, const struct blocks *a, void *values,
                       cusparseSpMatDescr_t *w) {
  const int64_t b = s->layer.row->block;
  if (s->way->form == ELL)
    return !cusparseCreateBlockedEll(w, a->rows * b, a->cols * b, b, a->longest * b, s->column,
                                     values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                     s->type->type);
  return !cusparseCreateBsr(w, a->rows, a->cols, a->start[a->rows], b, b, s->start, s->column,
                            values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                            CUSPARSE_INDEX_BASE_ZERO, s->type->type, CUSPARSE_ORDER_ROW);
}

/* A row-major matrix as the column-major transposed one. */
static bool describe_turned(const struct state *s, int64_t rows, int64_t cols, void *at,
                            cusparseDnMatDescr_t *matrix) {
  return !cusparseCreateDnMat(matrix, cols, rows, cols, at, s->type->type, CUSPARSE_ORDER_COL);
}

static bool describe(const struct state *s, const struct blocks *a, const struct bench_step *step,
                     struct call *c) {
  const struct bench_row *r = s->layer.row;
  const bool forward = s->layer.product == BENCH_FORWARD;
  if (s->layer.product == BENCH_WGRAD)
    return describe_w(s, a, step->w, &c->w) &&
           (s->way->order == CUSPARSE_ORDER_COL
                ? describe_turned(s, r->m, r->n, step->y, &c->in)
                : !cusparseCreateDnMat(&c->in, r->m, r->n, r->n, step->y, s->type->type,
                                       CUSPARSE_ORDER_ROW)) &&
           !cusparseCreateDnMat(&c->out, r->m, r->k, r->k, step->x, s->type->type,
                                CUSPARSE_ORDER_ROW);
  return describe_w(s, a, bench_copies_at(&s->values, s->layer.list, step), &c->w) &&
         describe_turned(s, r->m, forward ? r->k : r->n, forward ? step->x : step->y, &c->in) &&
         describe_turned(s, r->m, forward ? r->n : r->k, forward ? step->y : step->x, &c->out);
}

static cusparseOperation_t operation_of(const struct state *s) {
  return s->way->wgrad && s->way->order == CUSPARSE_ORDER_ROW ? CUSPARSE_OPERATION_TRANSPOSE
                                                              : CUSPARSE_OPERATION_NON_TRANSPOSE;
}

static bool allocate_workspace(struct state *s) {
  const struct call *c = s->calls;
  const cusparseOperation_t plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
  const float one = 1, zero = 0;
  size_t bytes = 0;
  cusparseStatus_t status =
      s->way->wgrad
          ? cusparseSDDMM_bufferSize(s->handle, operation_of(s), plain, &one, c->in, c->out, &zero,
                                     c->w, CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, &bytes)
          : cusparseSpMM_bufferSize(s->handle, plain, plain, &one, c->w, c->in, &zero, c->out,
                                    CUDA_R_32F, s->way->algorithm, &bytes);
  return !status && !cudaMalloc(&s->workspace, bytes + 1);
}

static bool call(const struct state *s, const struct call *c) {
  const cusparseOperation_t plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
  const float one = 1, zero = 0;
  return !(s->way->wgrad
               ? cusparseSDDMM(s->handle, operation_of(s), plain, &one, c->in, c->out, &zero, c->w,
                               CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, s->workspace)
               : cusparseSpMM(s->handle, plain, plain, &one, c->w, c->in, &zero, c->out, CUDA_R_32F,
                              s->way->algorithm, s->workspace));
}

/* ---- graphs ---- */

static bool record(struct state *s) {
  const struct bench_steps_list *list = s->layer.list;
  cudaGraph_t graph = NULL;
  if (cudaStreamBeginCapture(list->stream, cudaStreamCaptureModeRelaxed)) return false;
  bool good = true;
  for (int64_t i = 0; good && i < list->count; i++) good = call(s, &s->calls[i]);
  good = !cudaStreamEndCapture(list->stream, &graph) && good &&
         !cudaGraphInstantiate(&s->graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return good;
}

static bool replay(void *state) {
  struct state *s = state;
  return !cudaGraphLaunch(s->graph, s->layer.list->stream);
}

/* ---- the fastest way ---- */

static void close_way(struct state *s) {
  for (int64_t i = 0; s->calls && i < s->layer.list->count; i++) {
    if (s->calls[i].w) cusparseDestroySpMat(s->calls[i].w);
    if (s->calls[i].in) cusparseDestroyDnMat(s->calls[i].in);
    if (s->calls[i].out) cusparseDestroyDnMat(s->calls[i].out);
  }
  if (s->graph) cudaGraphExecDestroy(s->graph);
  free(s->calls);
  cudaFree(s->start);
  cudaFree(s->column);
  cudaFree(s->workspace);
  bench_copies_free(&s->values);
  s->calls = NULL;
  s->start = s->column = NULL;
  s->workspace = NULL;
  s->graph = NULL;
}

static bool open_calls(struct state *s, const struct blocks *a) {
  const struct bench_steps_list *list = s->layer.list;
  s->calls = calloc((size_t)list->count, sizeof *s->calls);
  if (!s->calls || !make_form(s, a)) return false;
  for (int64_t i = 0; i < list->count; i++)
    if (!describe(s, a, &list->steps[i], &s->calls[i])) return false;
  return allocate_workspace(s) && call(s, &s->calls[0]) && !cudaStreamSynchronize(list->stream) &&
         record(s);
}

static bool open_way(struct state *s, const struct way *way) {
  struct blocks a;
  s->way = way;
  bool good = order_blocks(&s->layer, &a) && open_calls(s, &a);
  free_blocks(&a);
  cudaGetLastError(); /* a way that cannot be launched leaves none behind */
  if (!good) close_way(s);
  return good;
}

static double try_way(struct state *s, const struct way *way) {
  double least = INFINITY;
  if (way->wgrad != (s->layer.product == BENCH_WGRAD) || (way->form == ELL && s->type->exact))
    return INFINITY;
  /* it would refuse these on standard output, which is the report's */
  if (way->wgrad && s->layer.row->m % s->layer.row->block) return INFINITY;
  if (!open_way(s, way)) return INFINITY;
  for (int i = 0; i < TRIALS; i++) {
    double seconds = s->layer.list->time(s->layer.list->clock, replay, s);
    least = seconds >= 0 ? fmin(least, seconds) : INFINITY;
  }
  close_way(s);
  return least;
}

/* ---- beginning and end ---- */

static const char *prepare(struct state *s) {
  int device = 0;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, s->layer.dtype)) s->type = &types[i];
  if (!s->layer.pattern) return "its products are sparse";
  if (!s->type) return "its blocks are of f32, f16 or bf16";
  if (!s->layer.list || !s->layer.list->stream) return "its adapter measures recorded calls";
  if (sscanf(s->layer.device, "cuda:%d", &device) != 1 || cudaSetDevice(device) ||
      cusparseCreate(&s->handle) || cusparseSetStream(s->handle, s->layer.list->stream))
    return "the device refused it";
  const struct way *best = NULL;
  double least = INFINITY;
  for (const struct way *way = ways; way < ways + WAYS; way++) {
    const double seconds = try_way(s, way);
    if (seconds < least) best = way;
    least = fmin(least, seconds);
  }
  return best && open_way(s, best) ? NULL : "it has nothing for this product";
}

static void close_state(void *state) {
  struct state *s = state;
  close_way(s);
  if (s->handle) cusparseDestroy(s->handle);
  free(s);
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  struct state *s = calloc(1, sizeof *s);
  if (!s) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  s->layer = *layer;
  const char *refusal = prepare(s);
  if (refusal) {
    snprintf(why, why_size, "%s", refusal);
    cudaGetLastError();
    close_state(s);
    return false;
  }
  int version[3] = {0};
  cusparseGetProperty(MAJOR_VERSION, &version[0]);
  cusparseGetProperty(MINOR_VERSION, &version[1]);
  cusparseGetProperty(PATCH_LEVEL, &version[2]);
  snprintf(label, label_size, "cusparse-%d.%d.%d:%s", version[0], version[1], version[2],
           s->way->name);
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,
                                               .name = "cusparse",
                                               .weights = BENCH_PLAIN,
                                               .setup = setup,
                                               .replay = replay,
                                               .close = close_state};
