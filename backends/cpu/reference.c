/* The oracle: plain loops in double, libm, no code shared with the fast backends. */
#include <config.h>

#include <stdio.h>

#include "backends/cpu/host.h"
#include "backends/cpu/reference.h"

static layerops_status info(int index, layerops_device_info *out) {
  (void)index;
  snprintf(out->name, sizeof out->name, "reference");
  snprintf(out->description, sizeof out->description,
           "plain loops in double: the oracle of the tests");
  snprintf(out->isa, sizeof out->isa, "portable C");
  out->units = 1;
  return LAYEROPS_OK;
}

static layerops_status open_reference(layerops_context *ctx, int index,
                                      const layerops_open_args *args) {
  (void)ctx, (void)index, (void)args;
  return LAYEROPS_OK;
}

static void close_reference(layerops_context *ctx) {
  (void)ctx;
}

const struct lo_backend lo_backend_reference = {
    .name = "reference",
    LO_HOST_BACKEND(lo_host_buffer_create),
    .info = info,
    .open = open_reference,
    .close = close_reference,
    .ops =
        {
#define REF_ENTRY(name, number) .name = lo_ref_##name,
            LAYEROPS_OP_LIST(REF_ENTRY)
#undef REF_ENTRY
        },
};
