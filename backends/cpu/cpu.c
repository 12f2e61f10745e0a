/* The CPU backend: its devices and its table. */
#include <config.h>

#include <stdio.h>

#include "backends/cpu/host.h"

static layerops_status info(int index, layerops_device_info *out) {
  (void)index;
  snprintf(out->name, sizeof out->name, "cpu");
  return LAYEROPS_OK;
}

static layerops_status open_cpu(layerops_context *ctx, int index, const layerops_open_args *args) {
  (void)ctx, (void)index, (void)args;
  return LAYEROPS_OK;
}

static void close_cpu(layerops_context *ctx) { (void)ctx; }

const struct lo_backend lo_backend_cpu = {
    .name = "cpu",
    LO_HOST_BACKEND,
    .info = info,
    .open = open_cpu,
    .close = close_cpu,
};
