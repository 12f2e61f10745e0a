#ifndef LO_CUDA_BOXES_H
#define LO_CUDA_BOXES_H

#include <stdbool.h>

#include "backends/cuda/params.h"

typedef enum lo_box_type { LO_BOX_F16, LO_BOX_BF16, LO_BOX_TF32, LO_BOX_8 } lo_box_type;

/* The map of an operand of a product, in boxes of 128 bytes by `lines` lines where it runs along k,
 * by as many k as make 128 bytes where it does not. Its rows begin on borders of 16 bytes. Returns
 * the driver's error. */
int lo_cuda_box(const lo_cu_operand *o, lo_box_type type, lo_i64 k, lo_i64 batch, int lines,
                lo_cu_map *map);

/* The map of a matrix in boxes of `width` elements, 32, 64 or 128 bytes, by `lines` rows. */
int lo_cuda_narrow_box(const void *p, lo_box_type type, lo_i64 rows, lo_i64 cols, lo_i64 stride,
                       int width, int lines, lo_cu_map *map);

/* The map of C, in boxes of LO_CU_BOX_ROWS rows by 128 bytes; and whether it leaves by them: its
 * rows begin and end on borders of 16 bytes, k is not in parts, and the epilogue is a short one. */
int lo_cuda_box_c(const lo_cu_gemm *g, lo_cu_map *map);
bool lo_cuda_takes_boxes(const lo_cu_gemm *g);

#endif
