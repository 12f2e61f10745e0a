#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/again.h"
#include "common/call.h"
#include "common/device.h"
#include "common/door.h"
#include "common/process.h"

uint64_t lo_next_number(void) {
  static _Atomic uint64_t last;
  return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void *lo_host_alloc(const layerops_open_args *args, size_t bytes, size_t alignment) {
  if (args->alloc) return args->alloc(args->alloc_user, bytes, alignment);
  void *pointer = NULL;
  return posix_memalign(&pointer, alignment, bytes ? bytes : 1) ? NULL : pointer;
}

void lo_host_release(const layerops_open_args *args, void *pointer) {
  if (args->release)
    args->release(args->alloc_user, pointer);
  else if (!args->alloc)
    free(pointer);
}

static int verbose_level(const layerops_open_args *args) {
  const char *text = getenv("LAYEROPS_VERBOSE");
  return args->verbose ? args->verbose : text ? atoi(text) : 0;
}

static layerops_status check_open_args(const layerops_open_args *args) {
  if (args->threads < 0 || args->threads > 4096)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: threads is %d, but must lie in [0, 4096]",
                   (int)args->threads);
  if (args->bind < 0 || args->bind >= LAYEROPS_BIND_COUNT)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: bind is %d, which is no layerops_bind",
                   (int)args->bind);
  if (!args->alloc != !args->release)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: alloc and release must be set together");
  if (args->no_cache != 0 && args->no_cache != 1)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: no_cache is %d, but must be 0 or 1",
                   (int)args->no_cache);
  return LAYEROPS_OK;
}

/* Fills the context; what it took is given back by the caller where this fails. */
static layerops_status start(layerops_context *ctx, const layerops_open_args *args) {
  int index;
  LO_TRY(lo_device_resolve(args->device, &ctx->backend, &index));
  layerops_device_info info;
  LO_TRY(lo_device_info(ctx->backend, index, &info));
  ctx->device = lo_device_get(ctx->backend, index, info.name);
  if (!ctx->device) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  ctx->ops = &ctx->backend->ops;
  ctx->args = *args;
  ctx->args.device = ctx->device->name;
  ctx->verbose = verbose_level(args);
  ctx->kernel = "";
  ctx->fork_generation = lo_fork_generation();
  if (args->queue && ctx->backend->host_memory)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: queue is set, but %s has no queues", info.name);
  if (args->workspace && args->workspace->device != ctx->device)
    return lo_fail(LAYEROPS_ERROR_INVALID, "open: workspace lies on %s, the context is on %s",
                   args->workspace->device->name, info.name);
  return ctx->backend->open(ctx, index, &ctx->args);
}

layerops_status layerops_open_with_(const layerops_open_args *user, size_t size,
                                    layerops_context **ctx) {
  if (!ctx) return lo_fail(LAYEROPS_ERROR_INVALID, "open: ctx is NULL");
  *ctx = NULL;
  layerops_open_args args;
  LO_TRY(lo_copy_args("open", &args, sizeof args, user, size));
  LO_TRY(check_open_args(&args));
  lo_watch_forks();
  layerops_context *c = calloc(1, sizeof *c);
  if (!c) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory for a context");
  layerops_status status = start(c, &args);
  if (status != LAYEROPS_OK) {
    free(c);
    return status;
  }
  *ctx = c;
  return LAYEROPS_OK;
}

layerops_status layerops_open(const char *device, layerops_context **ctx) {
  layerops_open_args args = {.device = device};
  return layerops_open_with(&args, ctx);
}

void layerops_close(layerops_context *ctx) {
  if (!ctx) return;
  bool ours = ctx->backend->host_memory || ctx->fork_generation == lo_fork_generation();
  if (ours) {
    ctx->backend->sync(ctx); /* errors are the user's to see before */
    layerops_buffer_destroy(ctx->workspace);
    ctx->backend->close(ctx);
  }
  layerops_graph_destroy(ctx->recording);
  lo_calls_forget(ctx);
  free(ctx);
}

layerops_status layerops_sync(layerops_context *ctx) {
  LO_TRY(lo_enter(ctx, "sync"));
  LO_TRY(lo_not_recording(ctx, "sync"));
  LO_TRY(ctx->backend->sync(ctx));
  return lo_take_fault(ctx);
}

layerops_status layerops_wait(layerops_context *ctx, layerops_context *other) {
  LO_TRY(lo_enter(ctx, "wait"));
  LO_TRY(lo_enter(other, "wait"));
  LO_TRY(lo_not_recording(ctx, "wait"));
  if (ctx->device != other->device)
    return lo_fail(LAYEROPS_ERROR_INVALID, "wait: the contexts are on %s and %s", ctx->device->name,
                   other->device->name);
  return ctx->backend->wait ? ctx->backend->wait(ctx, other) : LAYEROPS_OK;
}

layerops_status layerops_context_info_(layerops_context *ctx, layerops_device_info *info,
                                       size_t size) {
  LO_TRY(lo_enter(ctx, "context_info"));
  if (!info) return lo_fail(LAYEROPS_ERROR_INVALID, "context_info: info is NULL");
  layerops_device_info full;
  LO_TRY(lo_device_info(ctx->backend, ctx->device->index, &full));
  memset(info, 0, size);
  memcpy(info, &full, size < sizeof full ? size : sizeof full);
  return LAYEROPS_OK;
}

const char *layerops_last_kernel(layerops_context *ctx) {
  return ctx ? ctx->kernel : "";
}

layerops_status layerops_supports(layerops_context *ctx, layerops_op op, layerops_type type) {
  return layerops_supports_pair(ctx, op, type, LAYEROPS_NONE_TYPE);
}

layerops_status layerops_supports_pair(layerops_context *ctx, layerops_op op, layerops_type type,
                                       layerops_type second) {
  LO_TRY(lo_enter(ctx, "supports"));
  if (op <= 0 || op >= LAYEROPS_OP_COUNT)
    return lo_fail(LAYEROPS_ERROR_INVALID, "supports: unknown operation %d", (int)op);
  if (type <= 0 || type >= LAYEROPS_TYPE_COUNT)
    return lo_fail(LAYEROPS_ERROR_INVALID, "supports: unknown type %d", (int)type);
  if (second < 0 || second >= LAYEROPS_TYPE_COUNT)
    return lo_fail(LAYEROPS_ERROR_INVALID, "supports: unknown type %d", (int)second);
  const lo_op_types types = lo_op_types_of(op, type);
  char list[LO_TYPES_TEXT];
  if (!(types.first & LO_BIT(type)))
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "%s: takes no %s; supported: %s",
                   layerops_op_name(op), layerops_type_name(type),
                   lo_types_text(types.first, list));
  if (second && !(types.second & LO_BIT(second)))
    return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "%s: takes no %s with %s; supported: %s",
                   layerops_op_name(op), layerops_type_name(second), layerops_type_name(type),
                   lo_types_text(types.second, list));
  return lo_supports(ctx, op, type, second);
}

void lo_fault(layerops_context *ctx, layerops_status status, const char *format, ...) {
  if (ctx->fault != LAYEROPS_OK) return;
  ctx->fault = status;
  va_list list;
  va_start(list, format);
  vsnprintf(ctx->fault_text, sizeof ctx->fault_text, format, list);
  va_end(list);
}

layerops_status lo_take_fault(layerops_context *ctx) {
  layerops_status status = ctx->fault;
  ctx->fault = LAYEROPS_OK;
  return status == LAYEROPS_OK ? status : lo_fail(status, "%s", ctx->fault_text);
}

layerops_status lo_device_lost(layerops_context *ctx, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  atomic_store(&ctx->device->lost, true);
  return lo_fail(LAYEROPS_ERROR_DEVICE_LOST, "%s: %s", ctx->device->name, text);
}

layerops_status lo_workspace(layerops_context *ctx, int64_t bytes, layerops_buffer **buffer) {
  layerops_buffer *have = ctx->args.workspace ? ctx->args.workspace : ctx->workspace;
  if (have && have->bytes >= bytes) {
    *buffer = have;
    return LAYEROPS_OK;
  }
  if (ctx->args.workspace)
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY,
                   "workspace has %lld bytes, but this call needs %lld", (long long)have->bytes,
                   (long long)bytes);
  if (ctx->backend->graphs && ctx->backend->graphs->capturing(ctx)) {
    ctx->workspace_wanted = bytes;
    return lo_fail(
        LAYEROPS_ERROR_STATE,
        "the workspace must grow to %lld bytes, which it cannot while the queue is being "
        "captured: prepare the call before (layerops_prepare)",
        (long long)bytes);
  }
  LO_TRY(lo_workspace_grow(ctx, bytes));
  *buffer = ctx->workspace;
  return LAYEROPS_OK;
}

layerops_status lo_workspace_grow(layerops_context *ctx, int64_t bytes) {
  layerops_buffer *larger;
  LO_TRY(layerops_buffer_create(ctx, bytes, &larger));
  layerops_buffer_destroy(ctx->workspace);
  ctx->workspace = larger;
  return LAYEROPS_OK;
}
