#include <config.h>

#include "bench/replay.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"

#define PREFIX     "layerops: "
#define SEED       1
#define SIZE_LIMIT (INT64_C(1) << 40)
#define TRY(call)                                                                                  \
  do {                                                                                             \
    layerops_status status_ = (call);                                                              \
    if (status_ != LAYEROPS_OK) return status_;                                                    \
  } while (0)

/* ---- reading the line ---- */

enum kind { SIZE, TEXT, TYPE, ACTIVATION, IGNORED };

static const struct {
  const char *name;
  enum kind kind;
  size_t at, size; /* of the member, and of its text */
} keys[] = {
#define MEMBER(name, kind)                                                                         \
  { #name, kind, offsetof(struct bench_line, name), 0 }
#define WORD(name)                                                                                 \
  { #name, TEXT, offsetof(struct bench_line, name), sizeof((struct bench_line *)0)->name }
    WORD(device),
    WORD(kernel),
    MEMBER(m, SIZE),
    MEMBER(n, SIZE),
    MEMBER(k, SIZE),
    MEMBER(batch, SIZE),
    MEMBER(type, TYPE),
    MEMBER(out, TYPE),
    WORD(trans),
    WORD(wants),
    WORD(truth),
    MEMBER(activation, ACTIVATION),
    MEMBER(block, SIZE),
    MEMBER(width, SIZE),
    MEMBER(blocks, SIZE),
    MEMBER(gate, SIZE),
    WORD(layout),
    MEMBER(log, SIZE),
    MEMBER(packed, SIZE),
    MEMBER(w, TYPE),
    MEMBER(fast_accum, SIZE),
    {"ms", IGNORED, 0, 0},
    {"gflops", IGNORED, 0, 0},
};

static bool read_size(const char *value, int64_t *size) {
  char *end;
  errno = 0;
  long long v = strtoll(value, &end, 10);
  *size = v;
  return value[0] >= '0' && value[0] <= '9' && !*end && !errno && v <= SIZE_LIMIT;
}

static bool read_type(const char *value, layerops_type *type) {
  for (*type = 1; *type < LAYEROPS_TYPE_COUNT; ++*type)
    if (!strcmp(layerops_type_name(*type), value)) return true;
  return false;
}

static bool read_value(struct bench_line *line, size_t key, const char *value) {
  char *member = (char *)line + keys[key].at;
  layerops_activation *activation = (layerops_activation *)(void *)member;
  switch (keys[key].kind) {
  case SIZE:
    return read_size(value, (int64_t *)(void *)member);
  case TEXT:
    return (size_t)snprintf(member, keys[key].size, "%s", value) < keys[key].size;
  case TYPE:
    return read_type(value, (layerops_type *)(void *)member);
  case ACTIVATION:
    return (*activation = layerops_activation_from_name(value)) >= 0;
  case IGNORED:
    break;
  }
  return true;
}

static bool read_pair(struct bench_line *line, char *word) {
  char *value = strchr(word, '=');
  if (!value) return false;
  *value++ = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!strcmp(keys[i].name, word) && read_value(line, i, value)) return true;
  value[-1] = '='; /* whole again, for the message */
  return false;
}

static bool read_op(const char *word, layerops_op *op) {
  for (int i = 1; i < LAYEROPS_OP_COUNT; i++)
    if (!strcmp(layerops_op_name((layerops_op)i), word)) {
      *op = (layerops_op)i;
      return true;
    }
  return false;
}

bool bench_line_read(const char *text, struct bench_line *line, char *why, size_t why_size) {
  const char *start = strstr(text, PREFIX);
  char copy[1024], *rest = NULL;
  *line = (struct bench_line){.batch = 1};
  if (!start || strlen(start) >= sizeof copy) {
    snprintf(why, why_size, "not a line of LAYEROPS_VERBOSE, which begins with 'layerops: '");
    return false;
  }
  strcpy(copy, start + strlen(PREFIX));
  char *word = strtok_r(copy, " \n", &rest);
  if (!word || !read_op(word, &line->op)) {
    snprintf(why, why_size, "'%.40s' is not an operation", word ? word : "");
    bench_printable(why);
    return false;
  }
  while ((word = strtok_r(NULL, " \n", &rest)))
    if (!read_pair(line, word)) {
      snprintf(why, why_size, "'%.80s' is not understood", word);
      bench_printable(why);
      return false;
    }
  if (line->device[0] && line->type && line->out) return true;
  snprintf(why, why_size, "device, type or out is missing");
  return false;
}

/* ---- making the call ---- */

struct maker {
  struct bench_call *call;
  const struct bench_line *line;
  uint64_t stream;
};

/* Values that are legal wherever the type is: normal numbers, or integers below `limit`. */
static void fill_host(void *host, layerops_type type, int64_t count, int64_t limit,
                      uint64_t stream) {
  const struct bench_type *real = bench_type_find(layerops_type_name(type));
  if (real) {
    bench_normal(real, host, count, 1, SEED, stream);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    int32_t value = (int32_t)(i % (limit < 1 ? 1 : limit));
    if (layerops_type_size(type) == sizeof value)
      ((int32_t *)host)[i] = value;
    else
      ((int8_t *)host)[i] = (int8_t)(value % 100);
  }
}

static layerops_status input(struct maker *mk, layerops_type type, int64_t batch, int64_t rows,
                             int64_t cols, layerops_matrix *matrix) {
  int64_t elements, bytes;
  if (__builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, batch, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)layerops_type_size(type), &bytes))
    return LAYEROPS_ERROR_OVERFLOW;
  void *host = malloc((size_t)bytes + 1);
  if (!host) return LAYEROPS_ERROR_OUT_OF_MEMORY;
  fill_host(host, type, elements, mk->line->op == LAYEROPS_OP_gather ? mk->line->m : mk->line->n,
            mk->stream++);
  layerops_status status = bench_call_matrix(mk->call, host, type, batch, rows, cols, matrix);
  free(host);
  return status;
}

static layerops_status zeros(struct maker *mk, int64_t rows, int64_t cols,
                             layerops_matrix *matrix) {
  float *host = calloc((size_t)(rows * cols) + 1, sizeof *host);
  if (!host) return LAYEROPS_ERROR_OUT_OF_MEMORY;
  layerops_status status = bench_call_matrix(mk->call, host, LAYEROPS_F32, 1, rows, cols, matrix);
  free(host);
  return status;
}

static layerops_status output(struct maker *mk, layerops_type type, int64_t rows, int64_t cols,
                              layerops_matrix *matrix) {
  return bench_call_matrix(mk->call, NULL, type, 1, rows, cols, matrix);
}

/* Of the second operand of a product. */
static layerops_type type_of_w(const struct bench_line *l) {
  return l->w ? l->w : l->type == LAYEROPS_U8 ? LAYEROPS_I8 : l->type;
}

static uint32_t flags_of(const struct bench_line *l) {
  return l->fast_accum ? LAYEROPS_FAST_ACCUM : 0;
}

static layerops_status make_gemm(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_gemm_args *a = &mk->call->args.gemm;
  a->trans_a = l->trans[0] == 't';
  a->trans_b = l->trans[0] && l->trans[1] == 't';
  TRY(input(mk, l->type, l->batch, a->trans_a ? l->k : l->m, a->trans_a ? l->m : l->k, &a->a));
  a->flags = flags_of(l);
  TRY(input(mk, type_of_w(l), l->batch, a->trans_b ? l->n : l->k, a->trans_b ? l->k : l->n, &a->b));
  return bench_call_matrix(mk->call, NULL, l->out, l->batch, l->m, l->n, &a->c);
}

/* W of a layer, packed where the line says so. */
static layerops_status weights(struct maker *mk, bool backward, layerops_matrix *w,
                               const layerops_weights **packed) {
  const struct bench_line *l = mk->line;
  TRY(input(mk, type_of_w(l), 1, l->n, l->k, w));
  if (!l->packed) return LAYEROPS_OK;
  TRY(bench_call_weights(mk->call, *w, backward, packed));
  *w = (layerops_matrix){0};
  return LAYEROPS_OK;
}

static layerops_status make_linear_forward(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_linear_forward_args *a = &mk->call->args.linear_forward;
  const bool bytes = layerops_type_size(l->type) == 1;
  a->activation = l->activation;
  a->flags = flags_of(l);
  TRY(input(mk, l->type, 1, l->m, l->k, &a->x));
  TRY(weights(mk, false, &a->w, &a->packed));
  TRY(input(mk, bytes ? LAYEROPS_F32 : l->type, 1, 1, l->n, &a->bias));
  return output(mk, l->out, l->m, l->n, &a->y);
}

static layerops_status make_linear_backward(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_linear_backward_args *a = &mk->call->args.linear_backward;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->dy));
  a->dx_activation = strchr(l->wants, 'x') ? l->activation : LAYEROPS_IDENTITY;
  if (a->dx_activation != LAYEROPS_IDENTITY) TRY(input(mk, l->type, 1, l->m, l->k, &a->dx_saved));
  if (strchr(l->wants, 'x')) {
    TRY(weights(mk, true, &a->w, &a->packed));
    TRY(output(mk, strchr(l->wants, 'w') ? l->type : l->out, l->m, l->k, &a->dx));
  }
  if (strchr(l->wants, 'w')) {
    TRY(input(mk, l->type, 1, l->m, l->k, &a->x));
    TRY(output(mk, l->out, l->n, l->k, &a->dw));
  }
  if (strchr(l->wants, 'b')) TRY(output(mk, l->type, 1, l->n, &a->dbias));
  return l->wants[0] ? LAYEROPS_OK : output(mk, l->type, l->m, l->n, &a->dz);
}

static layerops_status make_activation_forward(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_activation_forward_args *a = &mk->call->args.activation_forward;
  a->activation = l->activation;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->x));
  return output(mk, l->out, l->m, l->n, &a->y);
}

static layerops_status make_activation_backward(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_activation_backward_args *a = &mk->call->args.activation_backward;
  a->activation = l->activation;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->dy));
  TRY(input(mk, l->type, 1, l->m, l->n, &a->saved));
  return output(mk, l->out, l->m, l->n, &a->dx);
}

static layerops_status make_softmax(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_softmax_args *a = &mk->call->args.softmax;
  a->log = l->log != 0;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->x));
  return output(mk, l->out, l->m, l->n, &a->y);
}

static layerops_status make_cross_entropy(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_cross_entropy_args *a = &mk->call->args.cross_entropy;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->logits));
  TRY(strcmp(l->truth, "probabilities")
          ? input(mk, LAYEROPS_I32, 1, 1, l->m, &a->labels)
          : input(mk, LAYEROPS_F32, 1, l->m, l->n, &a->probabilities));
  TRY(output(mk, LAYEROPS_F32, 1, 1, &a->loss));
  return output(mk, l->out, l->m, l->n, &a->dlogits);
}

static layerops_status make_mse(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_mse_args *a = &mk->call->args.mse;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->y));
  TRY(input(mk, l->type, 1, l->m, l->n, &a->target));
  TRY(output(mk, LAYEROPS_F32, 1, 1, &a->loss));
  return output(mk, l->out, l->m, l->n, &a->dy);
}

static layerops_status make_sgd(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_sgd_args *a = &mk->call->args.sgd;
  if (l->momentum) {
    a->momentum = layerops_value(0.9);
    TRY(zeros(mk, l->m, l->n, &a->velocity));
  }
  a->lr = layerops_value(1e-6); /* stays finite however often it is repeated */
  TRY(input(mk, l->type, 1, l->m, l->n, &a->w));
  return input(mk, l->type, 1, l->m, l->n, &a->g);
}

static layerops_status make_adam(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_adam_args *a = &mk->call->args.adam;
  a->step = layerops_value(1);
  TRY(input(mk, l->type, 1, l->m, l->n, &a->w));
  TRY(input(mk, l->type, 1, l->m, l->n, &a->g));
  TRY(zeros(mk, l->m, l->n, &a->m));
  return zeros(mk, l->m, l->n, &a->v);
}

static layerops_status make_fill(struct maker *mk) {
  return output(mk, mk->line->out, mk->line->m, mk->line->n, &mk->call->args.fill.y);
}

static layerops_status make_copy(struct maker *mk) {
  const struct bench_line *l = mk->line;
  TRY(input(mk, l->type, 1, l->m, l->n, &mk->call->args.copy.x));
  return output(mk, l->out, l->m, l->n, &mk->call->args.copy.y);
}

static layerops_status make_transpose(struct maker *mk) {
  const struct bench_line *l = mk->line;
  TRY(input(mk, l->type, 1, l->m, l->n, &mk->call->args.transpose.x));
  return output(mk, l->out, l->n, l->m, &mk->call->args.transpose.y);
}

static layerops_status make_gather(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_gather_args *a = &mk->call->args.gather;
  TRY(input(mk, l->type, 1, l->m, l->n, &a->x));
  TRY(input(mk, LAYEROPS_I32, 1, 1, l->m, &a->index));
  return output(mk, l->out, l->m, l->n, &a->y);
}

static int64_t width_of(const struct bench_line *l) {
  return l->width ? l->width : l->block;
}

/* The line tells how many blocks are kept, not which: they are spread evenly. */
static layerops_status spread_blocks(struct maker *mk, int64_t rows, int64_t cols,
                                     int32_t *row_start, int32_t *column) {
  const struct bench_line *l = mk->line;
  for (int64_t i = 0; i < l->blocks; i++) {
    int64_t at = (int64_t)((double)i * (double)(rows * cols) / (double)l->blocks);
    column[i] = (int32_t)(at % cols);
    row_start[at / cols + 1]++;
  }
  for (int64_t r = 0; r < rows; r++) row_start[r + 1] += row_start[r];
  layerops_bsr_args args = {.rows = l->n,
                            .cols = l->k,
                            .block = l->block,
                            .width = l->width,
                            .count = l->blocks,
                            .row_start = row_start,
                            .column = column,
                            .type = type_of_w(l)};
  return layerops_bsr_create(mk->call->ctx, &args, &mk->call->bsr);
}

static layerops_status make_blocks(struct maker *mk) {
  const struct bench_line *l = mk->line;
  if (l->block < 1) return LAYEROPS_ERROR_INVALID;
  const int64_t rows = (l->n + l->block - 1) / l->block;
  const int64_t cols = (l->k + width_of(l) - 1) / width_of(l);
  if (rows > INT32_MAX || cols > INT32_MAX || l->blocks > INT32_MAX || l->blocks > rows * cols)
    return LAYEROPS_ERROR_INVALID;
  int32_t *row_start = calloc((size_t)rows + 1, sizeof *row_start);
  int32_t *column = calloc((size_t)l->blocks + 1, sizeof *column);
  layerops_status status = row_start && column ? spread_blocks(mk, rows, cols, row_start, column)
                                               : LAYEROPS_ERROR_OUT_OF_MEMORY;
  free(row_start);
  free(column);
  return status;
}

static bool by_features(const struct bench_line *l) {
  return !strcmp(l->layout, "features");
}

/* Activations of m samples, as the layout has them. */
static layerops_status samples_in(struct maker *mk, int64_t features, layerops_matrix *matrix) {
  const struct bench_line *l = mk->line;
  return by_features(l) ? input(mk, l->type, 1, features, l->m, matrix)
                        : input(mk, l->type, 1, l->m, features, matrix);
}
static layerops_status samples_out(struct maker *mk, layerops_type type, int64_t features,
                                   layerops_matrix *matrix) {
  const struct bench_line *l = mk->line;
  return by_features(l) ? output(mk, type, features, l->m, matrix)
                        : output(mk, type, l->m, features, matrix);
}

static layerops_status make_bsr_linear_forward(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_bsr_linear_forward_args *a = &mk->call->args.bsr_linear_forward;
  TRY(make_blocks(mk));
  a->w = mk->call->bsr;
  a->activation = l->activation;
  a->layout = by_features(l) ? LAYEROPS_FEATURES_BY_ROW : LAYEROPS_SAMPLES_BY_ROW;
  if (l->gate) TRY(input(mk, LAYEROPS_F32, 1, 1, l->blocks, &a->gate));
  TRY(samples_in(mk, l->k, &a->x));
  return samples_out(mk, l->out, l->n, &a->y);
}

static layerops_status make_bsr_linear_backward(struct maker *mk) {
  const struct bench_line *l = mk->line;
  layerops_bsr_linear_backward_args *a = &mk->call->args.bsr_linear_backward;
  const bool dw = strchr(l->wants, 'w') != NULL, dgate = strchr(l->wants, 'g') != NULL;
  TRY(make_blocks(mk));
  a->w = mk->call->bsr;
  a->layout = by_features(l) ? LAYEROPS_FEATURES_BY_ROW : LAYEROPS_SAMPLES_BY_ROW;
  if (l->gate) TRY(input(mk, LAYEROPS_F32, 1, 1, l->blocks, &a->gate));
  TRY(samples_in(mk, l->n, &a->dy));
  if (strchr(l->wants, 'x')) {
    a->dx_activation = l->activation;
    if (l->activation != LAYEROPS_IDENTITY) TRY(samples_in(mk, l->k, &a->dx_saved));
    TRY(samples_out(mk, dw ? l->type : l->out, l->k, &a->dx));
  }
  if (dw || dgate) TRY(samples_in(mk, l->k, &a->x));
  if (dw) TRY(output(mk, l->out, l->blocks * l->block, width_of(l), &a->dw));
  if (dgate) TRY(output(mk, LAYEROPS_F32, 1, l->blocks, &a->dgate));
  if (strchr(l->wants, 'b')) TRY(output(mk, l->type, 1, l->n, &a->dbias));
  return l->wants[0] ? LAYEROPS_OK : samples_out(mk, l->type, l->n, &a->dz);
}

layerops_status bench_line_call(layerops_context *ctx, const struct bench_line *line,
                                struct bench_call *call) {
  struct maker mk = {.call = call, .line = line};
  *call = (struct bench_call){.ctx = ctx, .op = line->op};
  switch (line->op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    return make_##name(&mk);
    LAYEROPS_OP_LIST(X)
#undef X
  case LAYEROPS_OP_COUNT:
    break;
  }
  return LAYEROPS_ERROR_INVALID;
}

/* How many [m,k], [n,k] and [m,n] operands of the first type an operation reads or writes, and its
   operations an element of [m,n] where it is no product: as the verbose line counts them. */
static const struct {
  int mk, nk, mn, out, f32;
  double flops;
} shapes[LAYEROPS_OP_COUNT] = {
    [LAYEROPS_OP_gemm] = {1, 1, 0, 1, 0, 0},
    [LAYEROPS_OP_linear_forward] = {1, 1, 0, 1, 0, 0},
    [LAYEROPS_OP_activation_forward] = {0, 0, 1, 1, 0, 1},
    [LAYEROPS_OP_activation_backward] = {0, 0, 2, 1, 0, 2},
    [LAYEROPS_OP_softmax] = {0, 0, 1, 1, 0, 4},
    [LAYEROPS_OP_cross_entropy] = {0, 0, 1, 1, 0, 6},
    [LAYEROPS_OP_mse] = {0, 0, 2, 1, 0, 4},
    [LAYEROPS_OP_sgd] = {0, 0, 3, 0, 0, 4},
    [LAYEROPS_OP_adam] = {0, 0, 3, 0, 4, 12},
    [LAYEROPS_OP_fill] = {0, 0, 0, 1, 0, 0},
    [LAYEROPS_OP_copy] = {0, 0, 1, 1, 0, 0},
    [LAYEROPS_OP_transpose] = {0, 0, 1, 1, 0, 0},
    [LAYEROPS_OP_gather] = {0, 0, 1, 1, 0, 0},
};

/* Each product of the backward pass reads dY, reads one more operand and writes one. */
static void backward_work(const struct bench_line *l, double *flops, double *bytes) {
  double m = (double)l->m, n = (double)l->n, k = (double)l->k;
  double size = (double)layerops_type_size(l->type);
  bool dx = strchr(l->wants, 'x') != NULL, dw = strchr(l->wants, 'w') != NULL;
  *flops = 2.0 * (dx + dw) * m * n * k;
  *bytes = size * (m * n + (dx + dw) * (m * k + n * k));
}

/* The same with the kept blocks for W; a gradient of gates is one of weights that is not stored. */
static void sparse_work(const struct bench_line *l, double *flops, double *bytes) {
  const double m = (double)l->m, n = (double)l->n, k = (double)l->k;
  const double weights = (double)(l->block * width_of(l)) * (double)l->blocks;
  const double size = (double)layerops_type_size(l->type);
  const double w_size = (double)layerops_type_size(type_of_w(l));
  const double out = (double)layerops_type_size(l->out);
  const bool dx = strchr(l->wants, 'x') != NULL;
  const bool dw = strchr(l->wants, 'w') || strchr(l->wants, 'g');
  if (l->op == LAYEROPS_OP_bsr_linear_forward) {
    *flops = 2 * m * weights;
    *bytes = size * m * k + w_size * weights + out * m * n;
    return;
  }
  *flops = 2.0 * (dx + dw) * m * weights;
  *bytes = size * (m * n + (dx + dw) * (m * k + weights));
}

void bench_line_work(const struct bench_line *l, double *flops, double *bytes) {
  double m = (double)l->m, n = (double)l->n, k = (double)l->k, batch = (double)l->batch;
  if (l->block) {
    sparse_work(l, flops, bytes);
    return;
  }
  double size = (double)layerops_type_size(l->type), out = (double)layerops_type_size(l->out);
  double w_size = (double)layerops_type_size(type_of_w(l));
  if (l->op == LAYEROPS_OP_linear_backward) {
    backward_work(l, flops, bytes);
    return;
  }
  *flops = shapes[l->op].mk ? 2 * m * n * k * batch : shapes[l->op].flops * m * n;
  *bytes = batch * (size * (shapes[l->op].mk * m * k + shapes[l->op].mn * m * n) +
                    w_size * shapes[l->op].nk * n * k + out * shapes[l->op].out * m * n +
                    4 * shapes[l->op].f32 * m * n) +
           (l->momentum ? 8 * m * n : 0);
}
