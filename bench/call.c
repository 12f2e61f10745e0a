#include <config.h>

#include "bench/call.h"

#include <stdlib.h>

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

layerops_status bench_call_weights(struct bench_call *call, layerops_matrix w, bool backward,
                                   const layerops_weights **packed) {
  layerops_weights_args args = {.w = w, .backward = backward};
  int64_t count = call->weights_count + 1;
  layerops_weights **more = realloc(call->weights, (size_t)count * sizeof(layerops_weights *));
  if (!more) return LAYEROPS_ERROR_OUT_OF_MEMORY;
  call->weights = more;
  TRY(layerops_weights_pack(call->ctx, &args, &more[count - 1]));
  call->weights_count = count;
  if (count == 1) call->w = w;
  *packed = more[count - 1];
  return LAYEROPS_OK;
}

layerops_status bench_call_pack(struct bench_call *call) {
  TRY(layerops_weights_update(call->ctx, call->weights[0], call->w));
  return layerops_sync(call->ctx);
}

static void set_dense_backward(struct bench_call *call, const struct bench_call_operands *o) {
  const struct bench_set *v = &o->views;
  layerops_linear_backward_args *a = &call->args.linear_backward;
  *a = o->host->product == BENCH_DGRAD
           ? (layerops_linear_backward_args){.dy = v->y, .w = v->w, .dx = v->x}
           : (layerops_linear_backward_args){.dy = v->y, .x = v->x, .dw = v->w};
  if (o->host->type->truncation > 0) a->flags = LAYEROPS_ALLOW_TF32;
}

static void set_dense(struct bench_call *call, const struct bench_call_operands *o) {
  layerops_linear_forward_args *a = &call->args.linear_forward;
  *a = (layerops_linear_forward_args){.x = o->views.x,
                                      .w = o->views.w,
                                      .bias = o->views.bias,
                                      .y = o->views.y,
                                      .activation = o->host->row->activation,
                                      .scale_x = call->steps->scale_x,
                                      .scale_w = o->views.scale_w,
                                      .scale_y = call->steps->scale_y};
  if (o->host->type->truncation > 0) a->flags = LAYEROPS_ALLOW_TF32;
  if (o->host->type->fast) a->flags = LAYEROPS_FAST_ACCUM;
  if (!call->packed) return;
  a->w = (layerops_matrix){0};
  a->packed = call->weights[o->set];
}

static void set_sparse(struct bench_call *call, const struct bench_call_operands *o) {
  const struct bench_set *v = &o->views;
  const uint32_t flags = o->host->type->truncation > 0 ? LAYEROPS_ALLOW_TF32 : 0;
  if (o->host->product == BENCH_FORWARD)
    call->args.bsr_linear_forward = (layerops_bsr_linear_forward_args){
        .w = v->bsr, .x = v->x, .y = v->y, .activation = o->host->row->activation, .flags = flags};
  else if (o->host->product == BENCH_DGRAD)
    call->args.bsr_linear_backward =
        (layerops_bsr_linear_backward_args){.w = v->bsr, .dy = v->y, .dx = v->x, .flags = flags};
  else
    call->args.bsr_linear_backward = (layerops_bsr_linear_backward_args){
        .w = v->bsr, .dy = v->y, .x = v->x, .dw = v->w, .flags = flags};
}

static void set_step(struct bench_call *call, int64_t i) {
  struct bench_call_operands o = bench_steps_at(call->steps, i);
  if (o.host->row->block)
    set_sparse(call, &o);
  else if (o.host->product != BENCH_FORWARD)
    set_dense_backward(call, &o);
  else
    set_dense(call, &o);
}

static layerops_status pack_sets(struct bench_call *call) {
  const layerops_weights *packed;
  for (int64_t i = 0; i < call->steps->set_count; i++)
    TRY(bench_call_weights(call, call->steps->sets[i].w, false, &packed));
  return LAYEROPS_OK;
}

layerops_status bench_call_steps(const struct bench_steps *steps, bool packed,
                                 struct bench_call *call) {
  const struct bench_operands *o = steps->layers[0];
  *call = (struct bench_call){.ctx = steps->ctx, .steps = steps, .packed = packed};
  static const layerops_op ops[2][2] = {
      {LAYEROPS_OP_linear_forward, LAYEROPS_OP_linear_backward},
      {LAYEROPS_OP_bsr_linear_forward, LAYEROPS_OP_bsr_linear_backward}};
  call->op = ops[o->row->block > 0][o->product != BENCH_FORWARD];
  TRY(layerops_supports_pair(call->ctx, call->op, bench_element(o->type),
                             bench_element(bench_type_w(o->type))));
  if (packed) TRY(pack_sets(call));
  set_step(call, 0);
  return LAYEROPS_OK;
}

static layerops_status record(struct bench_call *call, int64_t count) {
  layerops_graph_destroy(call->graph);
  call->graph = NULL;
  TRY(layerops_record_begin(call->ctx));
  layerops_status status = LAYEROPS_OK;
  for (int64_t i = 0; i < count && status == LAYEROPS_OK; i++) {
    if (call->steps) set_step(call, i);
    status = issue(call);
  }
  layerops_status end = layerops_record_end(call->ctx, &call->graph);
  return status != LAYEROPS_OK ? status : end;
}

layerops_status bench_call_prepare(struct bench_call *call) {
  layerops_device_info info;
  TRY(layerops_context_info(call->ctx, &info));
  TRY(issue(call));
  TRY(layerops_sync(call->ctx));
  return info.is_gpu ? record(call, BENCH_FEW_CALLS) : LAYEROPS_OK;
}

layerops_status bench_call_record(struct bench_call *call) {
  set_step(call, 0);
  TRY(issue(call));
  TRY(layerops_sync(call->ctx));
  return record(call, call->steps->count);
}

static layerops_status run(struct bench_call *call, int64_t calls) {
  for (; call->graph && calls >= BENCH_FEW_CALLS; calls -= BENCH_FEW_CALLS)
    TRY(layerops_graph_replay(call->graph));
  for (; calls > 0; calls--) TRY(issue(call));
  return layerops_sync(call->ctx);
}

bool bench_call_run(void *state, int64_t calls) {
  struct bench_call *call = state;
  call->failed = run(call, calls);
  return call->failed == LAYEROPS_OK;
}

bool bench_call_issue(void *state) {
  struct bench_call *call = state;
  call->failed = issue(call);
  return call->failed == LAYEROPS_OK;
}

bool bench_call_replay(void *state) {
  struct bench_call *call = state;
  call->failed = layerops_graph_replay(call->graph);
  return call->failed == LAYEROPS_OK;
}

void bench_call_free(struct bench_call *call) {
  layerops_graph_destroy(call->graph);
  layerops_bsr_destroy(call->bsr);
  for (int64_t i = 0; i < call->weights_count; i++) layerops_weights_destroy(call->weights[i]);
  free(call->weights);
  for (int i = 0; i < call->buffer_count; i++) layerops_buffer_destroy(call->buffers[i]);
  *call = (struct bench_call){0};
}
