/* The main loop of 8-bit integers where bytes cannot be multiplied exactly (vpmaddubsw saturates):
 * both operands are widened to 16 bits, and pairs of products are added. For the file of each
 * instruction set, which defines what grouped_kernel.h wants. */
#define GROUP 2
#include "backends/cpu/isa/grouped_kernel.h"
#include "backends/cpu/isa/isa.h"

const lo_grouped LO_ISA_NAME(lo_grouped_integers) = {.type = LAYEROPS_I32,
                                                     .size = 2,
                                                     .depth = 2,
                                                     .masks = true,
                                                     .rows = MAX_ROWS,
                                                     .row_unit = 1,
                                                     .panel = 2 * LANES,
                                                     .flops_per_ns = FLOPS_PER_NS,
                                                     .run = run_tile};
