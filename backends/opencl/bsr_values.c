/* Work on the values of kept blocks, a group for each. */
#include <config.h>

#include "backends/opencl/bsr.h"

static lo_cl_bsr_values describe(const layerops_bsr *w, lo_cl_region region) {
  return (lo_cl_bsr_values){.area = w->height * w->width,
                            .gate = -1,
                            .at = region.offset / (int64_t)sizeof(cl_float),
                            .type = w->type,
                            .scaled = w->scales != NULL};
}

layerops_status lo_cl_bsr_widen(layerops_context *ctx, const layerops_bsr *w,
                                const layerops_matrix *gate, lo_cl_region to) {
  lo_cl_bsr_values p = describe(w, to);
  if (lo_present(gate)) p.gate = gate->offset;
  if (!w->count) return LAYEROPS_OK;
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_VALUES, NULL, "widen");
  lo_cl_memory(&l, w->values);
  lo_cl_memory(&l, w->scales);
  lo_cl_view_memory(&l, gate);
  lo_cl_memory(&l, to.buffer);
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, lo_cl_of(ctx)->device->class.group, w->count, 1, 1);
}

layerops_status lo_cl_bsr_gates(layerops_context *ctx, const lo_cl_bsr_wgrad *g,
                                lo_cl_region sums) {
  const int group = lo_cl_of(ctx)->device->class.group;
  lo_cl_bsr_values p = describe(g->w, sums);
  p.dgate = lo_cl_view_of(&g->dgate);
  p.beta = lo_cl_scalar_of(&g->beta);
  lo_cl_launch l = lo_cl_start(ctx, LO_CL_BSR_VALUES, NULL, "gates");
  lo_cl_memory(&l, g->w->values);
  lo_cl_memory(&l, sums.buffer);
  lo_cl_scalar_memory(&l, &g->beta);
  lo_cl_view_memory(&l, &g->dgate);
  lo_cl_local(&l, group, sizeof(cl_float));
  lo_cl_bytes(&l, sizeof p, &p);
  return lo_cl_run(&l, group, g->w->count, 1, 1);
}
