#ifndef LO_CUDA_BOXES_H
#define LO_CUDA_BOXES_H

#include "backends/cuda/params.h"

typedef enum lo_box_type { LO_BOX_F16, LO_BOX_BF16, LO_BOX_TF32, LO_BOX_8 } lo_box_type;

/* The map of an operand of a product, in boxes of 128 bytes by `lines` lines where it runs along k,
 * by as many k as make 128 bytes where it does not. Its rows begin on borders of 16 bytes. Returns
 * the driver's error. */
int lo_cuda_box(const lo_cu_operand *o, lo_box_type type, lo_i64 k, lo_i64 batch, int lines,
                lo_cu_map *map);

#endif
