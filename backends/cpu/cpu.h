/* The inside of the CPU backend: what a context holds, and the functions that files share. */
#ifndef LO_CPU_H
#define LO_CPU_H

#include "backends/cpu/cut.h"
#include "backends/cpu/isa/isa.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/team.h"
#include "backends/cpu/topology.h"
#include "common/context.h"
#include "common/product.h"

/* Main loops for a type of operands, best first; an empty list where they are converted to f32. */
/* What a main loop is chosen by, apart from types: n and k alone, as a row's bits must not depend
 * on other rows. */
typedef struct lo_grouped_shape {
  int64_t n, k_bytes;
} lo_grouped_shape;
typedef struct lo_grouped_choice {
  lo_kernel kernel;
  const lo_grouped *dot;
} lo_grouped_choice;
typedef struct lo_grouped_list {
  const lo_grouped_choice *choices;
  size_t count;
} lo_grouped_list;

/* What LAYEROPS_CPU_ISA names: an instruction set, and what it adds for 16 and 8 bits. */
typedef struct lo_instructions {
  const char *name;
  const lo_isa *isa;
  bool (*runs)(void); /* on this processor */
  lo_grouped_list bf16, int8;
} lo_instructions;

/* ctx->state */
typedef struct lo_cpu {
  const lo_isa *isa;
  const lo_instructions *instructions;
  int threads;
  lo_caches caches;
  const lo_parallel_way *way;
  layerops_bind bind;
  lo_team *team;      /* of the first parallel region; NULL before */
  double hand_over;   /* ns; 0 until learnt */
  uint64_t regions;   /* until then */
  int64_t last_short; /* when the last region came that was too short to wake the team for */
} lo_cpu;

static inline lo_cpu *lo_cpu_of(layerops_context *ctx) {
  return ctx->state;
}

/* The instructions for this process: the best that build and processor have, or
 * LAYEROPS_CPU_ISA. */
layerops_status lo_isa_choose(const lo_instructions **instructions);
/* Asks the system for AMX's registers, once for the process: NULL, or why not. */
const char *lo_refuses_amx(layerops_context *ctx, const void *problem);
/* "avx512 avx2 portable": those that build and processor have, best first. */
void lo_isa_list(char *text, size_t size);

/* lo_workspace aligned to a cache line, wherever the user's own begins. */
static inline layerops_status lo_scratch(layerops_context *ctx, int64_t bytes, float **scratch) {
  layerops_buffer *buffer;
  LO_TRY(lo_workspace(ctx, bytes + 64, &buffer));
  *scratch = (float *)(((uintptr_t)buffer->native + 63) & ~(uintptr_t)63);
  return LAYEROPS_OK;
}

/* weights.c */
extern const struct lo_weights_form lo_cpu_weights_form;

/* train.c */
layerops_status lo_cpu_train_epoch(layerops_context *ctx, lo_epoch *epoch);

#define LO_CPU_OP(name, number)                                                                    \
  layerops_status lo_cpu_##name(layerops_context *ctx, const layerops_##name##_args *args);
LAYEROPS_OP_LIST(LO_CPU_OP)
#undef LO_CPU_OP

#endif
