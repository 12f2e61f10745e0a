#include <config.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/again.h"
#include "common/process.h"

#define MAX_SIZE                                                                                   \
  ((int64_t)1 << 48) /* no dimension needs more, and sums of a few stay far from overflow */

layerops_status lo_enter(layerops_context *ctx, const char *function) {
  if (!ctx) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: context is NULL", function);
  if (!ctx->backend->host_memory && ctx->fork_generation != lo_fork_generation())
    return lo_fail(LAYEROPS_ERROR_FORKED,
                   "%s: the context on %s was opened before fork(); open a new one in the child",
                   function, ctx->device->name);
  if (atomic_load_explicit(&ctx->device->lost, memory_order_relaxed))
    return lo_fail(LAYEROPS_ERROR_DEVICE_LOST, "%s: %s failed earlier and cannot be used any more",
                   function, ctx->device->name);
  return LAYEROPS_OK;
}

layerops_status lo_not_recording(layerops_context *ctx, const char *function) {
  if (ctx->recording)
    return lo_fail(LAYEROPS_ERROR_STATE, "%s: not allowed while the context is recording",
                   function);
  return LAYEROPS_OK;
}

layerops_status lo_copy_args(const char *function, void *to, size_t size, const void *user,
                             size_t user_size) {
  if (!user) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: args is NULL", function);
  size_t known = user_size < size ? user_size : size;
  memcpy(to, user, known);
  memset((char *)to + known, 0, size - known);
  for (size_t i = known; i < user_size; i++)
    if (((const char *)user)[i])
      return lo_fail(
          LAYEROPS_ERROR_UNSUPPORTED,
          "%s: args (%zu bytes) sets byte %zu, which this version (%zu bytes) does not know",
          function, user_size, i, size);
  return LAYEROPS_OK;
}

layerops_status lo_door_enter(lo_door *door, layerops_context *ctx, const char *function) {
  LO_TRY(lo_enter(ctx, function));
  door->ctx = ctx;
  door->function = function;
  door->packed = NULL;
  door->count = door->element_count = 0;
  return LAYEROPS_OK;
}

layerops_status lo_door_open(lo_door *door, layerops_context *ctx, layerops_op op, size_t size,
                             const void *user, size_t user_size) {
  LO_TRY(lo_door_enter(door, ctx, layerops_op_name(op)));
  door->user = user;
  door->user_size = user_size;
  door->call.op = op;
  door->call.batch = 1;
  door->call.second_type = LAYEROPS_NONE_TYPE;
  door->call.detail[0] = 0;
  return lo_copy_args(door->function, &door->call.args, size, user, user_size);
}

layerops_status lo_door_refuse(lo_door *door, layerops_status status, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return lo_fail(status, "%s: %s", door->function, text);
}

#define REFUSE(...) return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, __VA_ARGS__)

static void push(lo_door *door, const char *name, layerops_matrix *view, int role) {
  door->operands[door->count++] = (lo_operand){view, name, role};
}

const char *lo_types_text(unsigned types, char text[LO_TYPES_TEXT]) {
  size_t used = 0;
  text[0] = 0;
  for (layerops_type t = 0; t < LAYEROPS_TYPE_COUNT; t++)
    if (types & LO_BIT(t))
      used += (size_t)snprintf(text + used, LO_TYPES_TEXT - used, "%s%s", used ? ", " : "",
                               layerops_type_name(t));
  return text;
}

static layerops_status check_type(lo_door *door, const char *name, layerops_type type,
                                  unsigned types) {
  if (type < 0 || type >= LAYEROPS_TYPE_COUNT)
    REFUSE("%s has the unknown type %d", name, (int)type);
  if (types & LO_BIT(type)) return LAYEROPS_OK;
  char list[LO_TYPES_TEXT];
  return lo_door_refuse(door, LAYEROPS_ERROR_UNSUPPORTED, "%s is %s here; supported: %s", name,
                        layerops_type_name(type), lo_types_text(types, list));
}

static bool empty(const layerops_matrix *v) {
  return !v->rows || !v->cols || !v->batch;
}

/* The index behind the view's last element, or -1 on overflow. 0 where the view is empty. */
static int64_t view_end(const layerops_matrix *v) {
  if (empty(v)) return 0;
  int64_t rows, batches, end;
  if (__builtin_mul_overflow(v->rows - 1, v->stride, &rows) ||
      __builtin_mul_overflow(v->batch - 1, v->batch_stride, &batches) ||
      __builtin_add_overflow(rows, batches, &end) || __builtin_add_overflow(end, v->cols, &end) ||
      __builtin_add_overflow(end, v->offset, &end) || end > INT64_MAX / 16)
    return -1;
  return end;
}

static layerops_status check_extent(lo_door *door, const char *name, const layerops_matrix *v) {
  if (v->rows < 0 || v->cols < 0 || v->batch < 0 || v->offset < 0)
    REFUSE("%s has a negative size: rows %lld, cols %lld, batch %lld, offset %lld", name,
           (long long)v->rows, (long long)v->cols, (long long)v->batch, (long long)v->offset);
  if (v->rows > MAX_SIZE || v->cols > MAX_SIZE || v->batch > MAX_SIZE)
    return lo_door_refuse(door, LAYEROPS_ERROR_OVERFLOW,
                          "%s is too large: rows %lld, cols %lld, batch %lld", name,
                          (long long)v->rows, (long long)v->cols, (long long)v->batch);
  if (v->stride < v->cols)
    REFUSE("%s has stride %lld, less than its cols %lld", name, (long long)v->stride,
           (long long)v->cols);
  int64_t matrix;
  if (v->batch > 1 && v->rows && v->cols &&
      (__builtin_mul_overflow(v->rows - 1, v->stride, &matrix) ||
       __builtin_add_overflow(matrix, v->cols, &matrix) || v->batch_stride < matrix))
    REFUSE("%s has batch stride %lld, less than a matrix of %lld rows at stride %lld", name,
           (long long)v->batch_stride, (long long)v->rows, (long long)v->stride);
  if (v->reserved[0] || v->reserved[1] || v->reserved[2])
    REFUSE("%s has reserved fields set", name);
  return LAYEROPS_OK;
}

static layerops_status check_memory(lo_door *door, const char *name, const layerops_matrix *v) {
  int64_t end = view_end(v), size = (int64_t)lo_type_bytes(v->type);
  if (end < 0)
    return lo_door_refuse(door, LAYEROPS_ERROR_OVERFLOW,
                          "%s overflows: rows %lld x stride %lld, batch %lld x batch stride %lld, "
                          "offset %lld",
                          name, (long long)v->rows, (long long)v->stride, (long long)v->batch,
                          (long long)v->batch_stride, (long long)v->offset);
  if (v->buffer && v->host) REFUSE("%s has both a buffer and a host pointer", name);
  if (v->buffer && v->buffer->device != door->ctx->device)
    REFUSE("%s lies in a buffer of %s, the context is on %s", name, v->buffer->device->name,
           door->ctx->device->name);
  if (!end) return LAYEROPS_OK;
  if (!v->buffer && !v->host) REFUSE("%s has neither a buffer nor a host pointer", name);
  if (v->buffer && end * size > v->buffer->bytes)
    REFUSE("%s ends at byte %lld of a buffer of %lld bytes", name, (long long)(end * size),
           (long long)v->buffer->bytes);
  uintptr_t address = v->host ? (uintptr_t)v->host : (uintptr_t)v->buffer->root_offset;
  if (address & (uintptr_t)(size - 1)) /* sizes are powers of two, and a division is slow */
    REFUSE("%s is at address %p, not a multiple of its element size %lld", name, (void *)address,
           (long long)size);
  return LAYEROPS_OK;
}

bool lo_given(const layerops_matrix *v) {
  return v->rows || v->cols || v->type || v->buffer || v->host || v->offset || v->stride ||
         v->batch || v->batch_stride || v->reserved[0] || v->reserved[1] || v->reserved[2];
}

/* Distances that lead to no element may be anything in the user's view, and kernels multiply them.
 */
static void settle(layerops_matrix *v) {
  const bool none = empty(v);
  if (none) v->offset = 0;
  if (none || v->rows == 1) v->stride = v->cols;
  if (none || v->batch == 1) v->batch_stride = 0;
}

layerops_status lo_door_shape(lo_door *door, const char *name, const layerops_matrix *view,
                              int64_t rows, int64_t cols) {
  if ((rows == LO_ANY || view->rows == rows) && (cols == LO_ANY || view->cols == cols))
    return LAYEROPS_OK;
  char beside[256] = ""; /* of names and sizes that were checked */
  size_t used = 0;
  for (int i = 0; i < door->count && i < 2; i++) {
    const lo_operand *o = &door->operands[i];
    used += (size_t)snprintf(beside + used, sizeof beside - used, "%s %s of %lld x %lld",
                             i ? " and" : " beside", o->name, (long long)o->view->rows,
                             (long long)o->view->cols);
  }
  REFUSE("%s is %lld x %lld, but must be %lld x %lld%s", name, (long long)view->rows,
         (long long)view->cols, (long long)(rows == LO_ANY ? view->rows : rows),
         (long long)(cols == LO_ANY ? view->cols : cols), beside);
}

layerops_status lo_door_matrix(lo_door *door, const char *name, layerops_matrix *view, int role,
                               unsigned types, int64_t rows, int64_t cols) {
  if (!lo_present(view))
    REFUSE("%s is needed, but is %s", name, lo_given(view) ? "without a type" : "absent");
  LO_TRY(check_type(door, name, view->type, types));
  LO_TRY(check_extent(door, name, view));
  LO_TRY(lo_door_shape(door, name, view, rows, cols));
  LO_TRY(check_memory(door, name, view));
  settle(view);
  push(door, name, view, role);
  return LAYEROPS_OK;
}

layerops_status lo_door_optional(lo_door *door, const char *name, layerops_matrix *view, int role,
                                 unsigned types, int64_t rows, int64_t cols) {
  return lo_given(view) ? lo_door_matrix(door, name, view, role, types, rows, cols) : LAYEROPS_OK;
}

layerops_status lo_door_all_unbatched(lo_door *door) {
  for (int i = 0; i < door->count; i++)
    if (door->operands[i].view->batch != 1)
      REFUSE("%s has batch %lld, but must have 1", door->operands[i].name,
             (long long)door->operands[i].view->batch);
  return LAYEROPS_OK;
}

layerops_status lo_door_flags(lo_door *door, uint32_t flags) {
  const uint32_t known = LAYEROPS_BATCH_INVARIANT | LAYEROPS_FAST_ACCUM | LAYEROPS_ALLOW_TF32;
  if (!(flags & ~known)) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_UNSUPPORTED, "flags is 0x%x, of which 0x%x is unknown",
                        (unsigned)flags, (unsigned)(flags & ~known));
}

layerops_status lo_door_reserved(lo_door *door, int32_t reserved) {
  if (!reserved) return LAYEROPS_OK;
  return lo_door_refuse(door, LAYEROPS_ERROR_UNSUPPORTED, "reserved is %d, but must be 0",
                        (int)reserved);
}

layerops_status lo_door_scalar(lo_door *door, const char *name, layerops_scalar *s, double unset) {
  if (s->reserved) REFUSE("%s has a reserved field set", name);
  switch (s->kind) {
  case 0:
    if (s->value != 0 || s->buffer || s->offset)
      REFUSE("%s is set, but its kind is 0, unset", name);
    *s = layerops_value(unset);
    return LAYEROPS_OK;
  case 1:
    return LAYEROPS_OK;
  case 2:
    break;
  default:
    REFUSE("%s has the unknown kind %d", name, (int)s->kind);
  }
  layerops_matrix *v = &door->elements[door->element_count++];
  *v = layerops_vector_f32(s->buffer, 1);
  v->offset = s->offset;
  return lo_door_matrix(door, name, v, LO_IN | LO_SCALAR, LO_BIT(LAYEROPS_F32), 1, 1);
}

layerops_status lo_door_value(lo_door *door, const char *name, layerops_scalar *s, double unset,
                              double low, double high) {
  if (s->kind == 2)
    return lo_door_refuse(door, LAYEROPS_ERROR_UNSUPPORTED,
                          "%s must be a value, not an element of a buffer", name);
  LO_TRY(lo_door_scalar(door, name, s, unset));
  if (!(s->value >= low && s->value <= high))
    REFUSE("%s is %g, but must lie in [%g, %g]", name, s->value, low, high);
  return LAYEROPS_OK;
}

layerops_status lo_door_activation(lo_door *door, const char *name,
                                   layerops_activation activation) {
  return lo_door_one_of(door, name, activation, LAYEROPS_ACTIVATION_COUNT);
}

layerops_status lo_door_one_of(lo_door *door, const char *name, int value, int count) {
  if (value < 0 || value >= count) REFUSE("%s is %d, but must be 0 to %d", name, value, count - 1);
  return LAYEROPS_OK;
}

void lo_door_describe(lo_door *door, int64_t m, int64_t n, int64_t k, double flops,
                      layerops_type type, layerops_type out_type) {
  door->call.m = m;
  door->call.n = n;
  door->call.k = k;
  door->call.flops = flops;
  door->call.type = type;
  door->call.out_type = out_type;
}

void lo_door_pair(lo_door *door, layerops_type second) {
  door->call.second_type = second;
}

void lo_door_detail(lo_door *door, int64_t batch, const char *format, ...) {
  door->call.batch = batch;
  if (!door->ctx->verbose) return; /* the text would take longer than a small layer */
  door->call.detail[0] = ' ';
  va_list list;
  va_start(list, format);
  vsnprintf(door->call.detail + 1, sizeof door->call.detail - 1, format, list);
  va_end(list);
}

/* Makes empty outputs absent; false if none is left, so that there is nothing to do. */
static bool drop_empty_outputs(lo_door *door) {
  bool any = false;
  for (int i = 0; i < door->count; i++) {
    lo_operand *o = &door->operands[i];
    if (!(o->role & LO_OUT)) continue;
    if (empty(o->view))
      *o->view = (layerops_matrix){0};
    else
      any = true;
  }
  return any;
}

static bool has_host_view(const lo_door *door) {
  for (int i = 0; i < door->count; i++)
    if (door->operands[i].view->host) return true;
  return false;
}

layerops_status lo_supports(layerops_context *ctx, layerops_op op, layerops_type type,
                            layerops_type second) {
  bool have = false;
  switch (op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    have = ctx->ops->name != NULL;                                                                 \
    break;
    LAYEROPS_OP_LIST(X)
#undef X
  case LAYEROPS_OP_COUNT:
    break;
  }
  if (!have)
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "%s: %s has no such operation", layerops_op_name(op),
                   ctx->device->name);
  const char *reason = ctx->backend->refuses ? ctx->backend->refuses(ctx, op, type, second) : NULL;
  if (!reason) return LAYEROPS_OK;
  const bool pair = second != LAYEROPS_NONE_TYPE && second != type;
  return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "%s: %s refuses %s%s%s: %s", layerops_op_name(op),
                 ctx->device->name, layerops_type_name(type), pair ? " with " : "",
                 pair ? layerops_type_name(second) : "", reason);
}

layerops_status lo_door_pass(lo_door *door) {
  LO_TRY(lo_check_aliases(door));
  LO_TRY(lo_supports(door->ctx, door->call.op, door->call.type, door->call.second_type));
  bool staged = !door->ctx->backend->host_memory && has_host_view(door);
  if ((door->ctx->recording || door->ctx->preparing) && staged)
    return lo_door_refuse(door, LAYEROPS_ERROR_STATE, "host views cannot be %s on %s",
                          door->ctx->preparing ? "prepared" : "recorded", door->ctx->device->name);
  bool runs = !staged && !door->ctx->recording && !door->ctx->preparing;
  struct lo_kept_call *noted = runs ? lo_call_note(door) : NULL;
  if (!drop_empty_outputs(door)) {
    lo_call_keep(door, noted, false);
    return LAYEROPS_OK;
  }
  if (door->ctx->preparing) return lo_call_prepare(door->ctx, &door->call);
  if (door->ctx->recording) return lo_record(door->ctx, &door->call);
  if (staged) return lo_run_staged(door);
  layerops_status status = lo_call_run(door->ctx, &door->call);
  lo_call_keep(door, noted, status == LAYEROPS_OK);
  return status;
}

layerops_status lo_check_labels(const char *function, const char *name,
                                const layerops_matrix *labels, int64_t limit, int64_t ignore) {
  const int32_t *values = lo_address(labels);
  for (int64_t i = 0; i < labels->cols; i++)
    if ((values[i] < 0 || values[i] >= limit) &&
        !(ignore != LO_NOTHING_IGNORED && values[i] == ignore))
      return lo_fail(LAYEROPS_ERROR_LABEL, "%s: %s[%lld] is %d, but must lie in [0, %lld)",
                     function, name, (long long)i, (int)values[i], (long long)limit);
  return LAYEROPS_OK;
}
