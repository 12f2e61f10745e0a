/* What tuning found for this device: read when a context is opened, asked before the rule. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/code.inc" /* LO_CUDA_CODE */
#include "backends/cuda/plan.h"
#include "common/cache_file.h"
#include "common/call.h"

/* All but the product that a time depends on. LO_CUDA_CODE is a sum over the kernels' sources and
 * the compiler's options: it says more than a version, and is the same in two builds of one. */
void lo_cuda_tuned_open(layerops_context *ctx) {
  lo_cuda_state *s = lo_cuda(ctx);
  const lo_cuda_driver *driver = lo_cuda_driver_get();
  char name[128] = "?", about[480], why[LO_CACHE_WHY];
  CUdevice device;
  if (driver->cuDeviceGet(&device, ctx->device->index) == CUDA_SUCCESS &&
      driver->cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS)
    strcpy(name, "?");
  snprintf(about, sizeof about,
           "device=%s sm=%d kernels=%d sms=%d driver=%s library=%s code=%s runtime=%d", name,
           s->device->architecture, s->architecture, s->device->sms, driver->text, LAYEROPS_VERSION,
           LO_CUDA_CODE, CUDART_VERSION);
  lo_tuned_start(&s->tuned, about);
  lo_tuned_read(&s->tuned, &ctx->args, why);
  if (*why) lo_log(ctx, 1, "layerops: cache not used: %s", why);
}

bool lo_cuda_tuned_plan(layerops_context *ctx, const lo_product *p, const lo_tuned_key *key,
                        lo_cuda_plan *plan) {
  const lo_cuda_state *s = lo_cuda(ctx);
  if (!s->tuned.count || *s->forced) return false;
  const lo_tuned_row *row = lo_tuned_find(&s->tuned, key);
  if (!row || !*row->best.kernel) return false;
  const char *reason = lo_cuda_plan_named(ctx, p, row->best.kernel, row->best.parts, plan);
  if (reason) {
    lo_refused(ctx, row->best.kernel, reason);
    return false;
  }
  lo_log(ctx, 2, "layerops: tuned device=%s kernel=%s parts=%d us=%.2f", ctx->device->name,
         row->best.kernel, (int)row->best.parts, 1e-3 * (double)row->best.ns);
  ctx->kernel = plan->kernel->name;
  return true;
}

layerops_status lo_cuda_tune_list(layerops_context *ctx, layerops_tuned_fn told, void *user) {
  const lo_tuned *t = &lo_cuda(ctx)->tuned;
  for (size_t i = 0; i < t->count; i++)
    if (*t->rows[i].best.kernel) lo_tuned_tell(&t->rows[i], NULL, told, user);
  return LAYEROPS_OK;
}

layerops_status lo_cuda_tune_clear(layerops_context *ctx) {
  char why[LO_CACHE_WHY];
  bool done = lo_tuned_clear(&lo_cuda(ctx)->tuned, &ctx->args, why);
  lo_cuda_plans_forget(ctx);
  return done ? LAYEROPS_OK : lo_fail(LAYEROPS_ERROR_IO, "tune_clear: %s", why);
}
