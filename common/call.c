#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "common/door.h"

void lo_log(layerops_context *ctx, int level, const char *format, ...) {
  if (ctx->verbose < level) return;
  char line[640];
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (ctx->args.log)
    ctx->args.log(ctx->args.log_user, level, line);
  else
    fprintf(stderr, "%s\n", line);
}

void lo_refused(layerops_context *ctx, const char *kernel, const char *reason) {
  lo_log(ctx, 2, "layerops: refused device=%s kernel=%s reason=%s", ctx->device->name, kernel,
         reason);
}

const void *lo_select(layerops_context *ctx, const void *list, size_t entry_size, size_t count,
                      const void *problem) {
  for (size_t i = 0; i < count; i++) {
    const lo_kernel *kernel = (const lo_kernel *)((const char *)list + i * entry_size);
    const char *reason = kernel->refuses ? kernel->refuses(ctx, problem) : NULL;
    if (!reason) {
      ctx->kernel = kernel->name;
      return kernel;
    }
    lo_refused(ctx, kernel->name, reason);
  }
  return NULL;
}

layerops_status lo_call_dispatch(layerops_context *ctx, const lo_call *call) {
  switch (call->op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    return ctx->ops->name(ctx, &call->args.name);
    LAYEROPS_OP_LIST(X)
#undef X
  case LAYEROPS_OP_COUNT:
    break;
  }
  return lo_fail(LAYEROPS_ERROR_INVALID, "unknown operation %d", (int)call->op);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a product of two types, or of 8-bit floats, adds to the line. (Integers have W of i8.) */
static void describe_product(const lo_call *call, char *w, char *fast, size_t size) {
  w[0] = fast[0] = 0;
  const bool gemm = call->op == LAYEROPS_OP_gemm, linear = call->op == LAYEROPS_OP_linear_forward;
  if (!gemm && !linear && call->op != LAYEROPS_OP_bsr_linear_forward) return;
  if (call->second_type != call->type && !lo_is_int8(call->type))
    snprintf(w, size, " w=%s", layerops_type_name(call->second_type));
  const uint32_t flags = gemm     ? call->args.gemm.flags
                         : linear ? call->args.linear_forward.flags
                                  : 0;
  if (flags & LAYEROPS_FAST_ACCUM && lo_is_f8(call->type)) snprintf(fast, size, " fast_accum=1");
}

static layerops_status run_verbose(layerops_context *ctx, const lo_call *call) {
  LO_TRY(ctx->backend->sync(ctx));
  double start = now();
  LO_TRY(lo_call_dispatch(ctx, call));
  LO_TRY(ctx->backend->sync(ctx));
  double seconds = now() - start;
  char w[16], fast[16];
  describe_product(call, w, fast, sizeof w);
  lo_log(ctx, 1,
         "layerops: %s device=%s kernel=%s m=%lld n=%lld k=%lld batch=%lld type=%s%s out=%s%s%s "
         "ms=%.6g "
         "gflops=%.4g",
         layerops_op_name(call->op), ctx->device->name, ctx->kernel, (long long)call->m,
         (long long)call->n, (long long)call->k, (long long)call->batch,
         layerops_type_name(call->type), w, layerops_type_name(call->out_type), call->detail, fast,
         seconds * 1e3, seconds > 0 ? call->flops / seconds * 1e-9 : 0.0);
  return LAYEROPS_OK;
}

layerops_status lo_call_run(layerops_context *ctx, const lo_call *call) {
  ctx->kernel = "";
  return ctx->verbose ? run_verbose(ctx, call) : lo_call_dispatch(ctx, call);
}

layerops_status lo_call_prepare(layerops_context *ctx, const lo_call *call) {
  ctx->kernel = "";
  return ctx->backend->graphs ? ctx->backend->graphs->prepare(ctx, call) : LAYEROPS_OK;
}
