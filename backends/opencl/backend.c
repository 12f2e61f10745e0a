/* The OpenCL backend's table. */
#include <config.h>

#include "backends/opencl/opencl.h"

static bool moves(layerops_op op) {
  return op == LAYEROPS_OP_fill || op == LAYEROPS_OP_copy || op == LAYEROPS_OP_transpose ||
         op == LAYEROPS_OP_gather;
}

static const char *refuses(layerops_context *ctx, layerops_op op, layerops_type type,
                           layerops_type second) {
  (void)ctx;
  if (moves(op)) return NULL;
  if (op == LAYEROPS_OP_bsr_linear_forward || op == LAYEROPS_OP_bsr_linear_backward) return NULL;
  return lo_type_bytes(type) == 1 || lo_type_bytes(second) == 1
             ? "operands of 8 bits have no kernel here yet"
             : NULL;
}

const struct lo_backend lo_backend_opencl = {
    .name = "opencl",
    .count = lo_cl_count,
    .info = lo_cl_info,
    .index_of = lo_cl_index_of,
    .open = lo_cl_open,
    .close = lo_cl_close,
    .sync = lo_cl_sync,
    .wait = lo_cl_wait,
    .buffer_create = lo_cl_buffer_create,
    .buffer_wrap = lo_cl_buffer_wrap,
    .buffer_release = lo_cl_buffer_release,
    .write = lo_cl_write,
    .read = lo_cl_read,
    .event_create = lo_cl_event_create,
    .event_record = lo_cl_event_record,
    .event_wait = lo_cl_event_wait,
    .event_elapsed = lo_cl_event_elapsed,
    .event_destroy = lo_cl_event_destroy,
    .refuses = refuses,
    .ops =
        {
#define ENTRY(name, number) .name = lo_cl_##name,
            LAYEROPS_OP_LIST(ENTRY)
#undef ENTRY
        },
};
