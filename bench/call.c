#include <config.h>

#include "bench/call.h"

#include <string.h>

#define GRAPH_CALLS 20
#define TRY(call)                                                                                  \
  do {                                                                                             \
    layerops_status status_ = (call);                                                              \
    if (status_ != LAYEROPS_OK) return status_;                                                    \
  } while (0)

static layerops_status issue(struct bench_call *call) {
  switch (call->op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    return layerops_##name(call->ctx, &call->args.name);
    LAYEROPS_OP_LIST(X)
#undef X
  case LAYEROPS_OP_COUNT:
    break;
  }
  return LAYEROPS_ERROR_INVALID;
}

layerops_status bench_call_matrix(struct bench_call *call, const void *host, layerops_type type,
                                  int64_t batch, int64_t rows, int64_t cols,
                                  layerops_matrix *matrix) {
  int64_t elements, bytes;
  if (__builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, batch, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)layerops_type_size(type), &bytes))
    return LAYEROPS_ERROR_OVERFLOW;
  if (call->buffer_count == BENCH_CALL_BUFFERS) return LAYEROPS_ERROR_STATE;
  layerops_buffer **buffer = &call->buffers[call->buffer_count];
  TRY(host ? layerops_buffer_from(call->ctx, host, bytes, buffer)
           : layerops_buffer_create(call->ctx, bytes, buffer));
  call->buffer_count++;
  *matrix = layerops_matrix_of(*buffer, type, rows, cols);
  matrix->batch = batch;
  matrix->batch_stride = rows * cols;
  return LAYEROPS_OK;
}

static layerops_type type_of(const struct bench_type *type) {
  for (layerops_type t = 1; t < LAYEROPS_TYPE_COUNT; t++)
    if (!strcmp(layerops_type_name(t), type->element)) return t;
  return LAYEROPS_NONE_TYPE;
}

/* W stays where it is, to be packed again. */
static layerops_status pack(struct bench_call *call) {
  layerops_linear_forward_args *a = &call->args.linear_forward;
  layerops_weights_args args = {.w = a->w};
  call->w = a->w;
  a->w = (layerops_matrix){0};
  layerops_status status = layerops_weights_pack(call->ctx, &args, &call->weights);
  a->packed = call->weights;
  return status;
}

layerops_status bench_call_pack(struct bench_call *call) {
  TRY(layerops_weights_update(call->ctx, call->weights, call->w));
  return layerops_sync(call->ctx);
}

static layerops_status make_dense(struct bench_call *call, const struct bench_operands *o,
                                  bool packed) {
  const struct bench_row *row = o->row;
  layerops_type type = type_of(o->type), wide = type_of(bench_type_y(o->type));
  layerops_linear_forward_args *a = &call->args.linear_forward;
  call->op = LAYEROPS_OP_linear_forward;
  a->activation = row->activation;
  TRY(layerops_supports(call->ctx, call->op, type));
  TRY(bench_call_matrix(call, o->x, type, 1, row->m, row->k, &a->x));
  TRY(bench_call_matrix(call, o->w, type_of(bench_type_w(o->type)), 1, row->n, row->k, &a->w));
  if (packed) TRY(pack(call));
  TRY(bench_call_matrix(call, o->bias, wide, 1, 1, row->n, &a->bias));
  if (o->scale_w) {
    TRY(bench_call_matrix(call, &o->scale_x, LAYEROPS_F32, 1, 1, 1, &a->scale_x));
    TRY(bench_call_matrix(call, o->scale_w, LAYEROPS_F32, 1, 1, row->n, &a->scale_w));
  }
  return bench_call_matrix(call, o->y, wide, 1, row->m, row->n, &a->y);
}

static layerops_status make_sparse(struct bench_call *call, const struct bench_operands *o) {
  const struct bench_row *row = o->row;
  layerops_type type = type_of(o->type);
  layerops_bsr_args bsr = {.rows = row->n,
                           .cols = row->k,
                           .block = row->block,
                           .count = bench_pattern_kept(&o->pattern),
                           .row_start = o->pattern.row_start,
                           .column = o->pattern.col,
                           .values = o->w,
                           .type = type};
  layerops_bsr_linear_forward_args *a = &call->args.bsr_linear_forward;
  call->op = LAYEROPS_OP_bsr_linear_forward;
  a->activation = row->activation;
  TRY(layerops_supports(call->ctx, call->op, type));
  TRY(layerops_bsr_create(call->ctx, &bsr, &call->bsr));
  a->w = call->bsr;
  TRY(bench_call_matrix(call, o->x, type, 1, row->m, row->k, &a->x));
  return bench_call_matrix(call, o->y, type, 1, row->m, row->n, &a->y);
}

layerops_status bench_call_row(layerops_context *ctx, const struct bench_operands *operands,
                               bool packed, struct bench_call *call) {
  *call = (struct bench_call){.ctx = ctx};
  return operands->row->block ? make_sparse(call, operands) : make_dense(call, operands, packed);
}

layerops_status bench_call_fetch(struct bench_call *call, const struct bench_operands *operands) {
  const layerops_matrix *y = call->op == LAYEROPS_OP_linear_forward
                                 ? &call->args.linear_forward.y
                                 : &call->args.bsr_linear_forward.y;
  int64_t bytes = y->rows * y->cols * (int64_t)bench_type_y(operands->type)->size;
  return layerops_buffer_read(call->ctx, y->buffer, operands->y, bytes);
}

layerops_status bench_call_prepare(struct bench_call *call) {
  layerops_device_info info;
  TRY(layerops_context_info(call->ctx, &info));
  TRY(issue(call));
  TRY(layerops_sync(call->ctx));
  if (!info.is_gpu) return LAYEROPS_OK;
  TRY(layerops_record_begin(call->ctx));
  layerops_status status = LAYEROPS_OK;
  for (int i = 0; i < GRAPH_CALLS && status == LAYEROPS_OK; i++) status = issue(call);
  layerops_status end = layerops_record_end(call->ctx, &call->graph);
  return status != LAYEROPS_OK ? status : end;
}

static layerops_status run(struct bench_call *call, int64_t calls) {
  for (; call->graph && calls >= GRAPH_CALLS; calls -= GRAPH_CALLS)
    TRY(layerops_graph_replay(call->graph));
  for (; calls > 0; calls--) TRY(issue(call));
  return layerops_sync(call->ctx);
}

bool bench_call_run(void *state, int64_t calls) {
  struct bench_call *call = state;
  call->failed = run(call, calls);
  return call->failed == LAYEROPS_OK;
}

void bench_call_free(struct bench_call *call) {
  layerops_graph_destroy(call->graph);
  layerops_bsr_destroy(call->bsr);
  layerops_weights_destroy(call->weights);
  for (int i = 0; i < call->buffer_count; i++) layerops_buffer_destroy(call->buffers[i]);
  *call = (struct bench_call){0};
}
