/* The CPU backend: its device and its table. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/host.h"
#include "common/door.h"

static layerops_status info(int index, layerops_device_info *out) {
  (void)index;
  snprintf(out->name, sizeof out->name, "cpu");
  lo_isa_list(out->isa, sizeof out->isa);
  lo_topology_describe(out);
  return LAYEROPS_OK;
}

static layerops_status open_cpu(layerops_context *ctx, int index, const layerops_open_args *args) {
  (void)index;
  const lo_instructions *instructions;
  const lo_parallel_way *way;
  layerops_bind bind;
  LO_TRY(lo_isa_choose(&instructions));
  LO_TRY(lo_parallel_choose(args, &way));
  LO_TRY(lo_parallel_bind(args, way, &bind));
  lo_cpu *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "open: no memory");
  *cpu = (lo_cpu){.isa = instructions->isa,
                  .instructions = instructions,
                  .threads = lo_parallel_limit(args),
                  .caches = lo_topology_caches(),
                  .way = way,
                  .bind = bind};
  ctx->state = cpu;
  return LAYEROPS_OK;
}

static void close_cpu(layerops_context *ctx) {
  lo_team_end(lo_cpu_of(ctx)->team);
  free(ctx->state);
}

/* ---- First touch: see layerops_buffer_create ---- */

typedef struct pages {
  char *memory;
  int64_t size, count, parts;
} pages;

static void touch(void *arg, int64_t part) {
  const pages *p = arg;
  int64_t begin, end;
  lo_share(p->count, p->parts, part, &begin, &end);
  for (int64_t i = begin; i < end; i++) *(volatile char *)(p->memory + i * p->size) = 0;
}

/* A thread is worth waking for this many bytes, which take it longer to touch than to come. */
enum { TOUCH_BYTES = 256 << 10 };

static layerops_status create_buffer(layerops_context *ctx, layerops_buffer *buffer) {
  LO_TRY(lo_host_buffer_create(ctx, buffer));
  const lo_cpu *cpu = lo_cpu_of(ctx);
  if (cpu->bind == LAYEROPS_BIND_NONE || ctx->args.alloc ||
      buffer->bytes / TOUCH_BYTES < cpu->threads)
    return LAYEROPS_OK;
  pages p = {buffer->native, sysconf(_SC_PAGESIZE), 0, cpu->threads};
  p.count = (buffer->bytes + p.size - 1) / p.size;
  lo_parallel(ctx, p.parts, touch, &p);
  return LAYEROPS_OK;
}

static unsigned types_of(layerops_op op) {
  switch (op) {
  case LAYEROPS_OP_fill:
  case LAYEROPS_OP_copy:
  case LAYEROPS_OP_transpose:
  case LAYEROPS_OP_gather:
    return LO_COPYABLE;
  case LAYEROPS_OP_gemm:
  case LAYEROPS_OP_linear_forward:
    return LO_MULTIPLIED;
  default:
    return LO_FLOAT;
  }
}

static const char *refuses(layerops_context *ctx, layerops_op op, layerops_type type,
                           layerops_type second) {
  (void)ctx;
  (void)second; /* every pair that the door lets in */
  return types_of(op) & LO_BIT(type) ? NULL : "no kernel for this type";
}

const struct lo_backend lo_backend_cpu = {
    .name = "cpu",
    LO_HOST_BACKEND(create_buffer),
    .info = info,
    .open = open_cpu,
    .close = close_cpu,
    .weights = &lo_cpu_weights_form,
    .refuses = refuses,
    .ops =
        {
#define OP(name, number) .name = lo_cpu_##name,
            LAYEROPS_OP_LIST(OP)
#undef OP
        },
    .train_epoch = lo_cpu_train_epoch,
};
