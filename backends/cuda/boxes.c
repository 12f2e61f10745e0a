/* Operands as TMA takes them: tensors, and the boxes of them that are copied at once. */
#include <config.h>

#include <string.h>

#include "backends/cuda/boxes.h"
#include "backends/cuda/driver.h"
#include "common/context.h"

_Static_assert(sizeof(lo_cu_map) == sizeof(CUtensorMap), "lo_cu_map");

static const struct {
  CUtensorMapDataType type;
  unsigned size;
} types[] = {
    [LO_BOX_F16] = {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2},
    [LO_BOX_BF16] = {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2},
    [LO_BOX_TF32] = {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 4}, /* rounds f32 to it */
    [LO_BOX_8] = {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1},
};

static int encode(lo_cu_map *map, CUtensorMapDataType type, const void *p,
                  const cuuint64_t extent[3], const cuuint64_t stride[2], const cuuint32_t box[3],
                  CUtensorMapSwizzle swizzle) {
  const cuuint32_t step[] = {1, 1, 1};
  CUtensorMap made;
  CUresult error = lo_cuda_driver_get()->cuTensorMapEncodeTiled(
      &made, type, 3, (void *)p, extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  memcpy(map, &made, sizeof made);
  return (int)error;
}

/* The distance of a single row to the next one is whatever it is. */
static cuuint64_t row_stride(cuuint64_t stride, cuuint64_t rows, cuuint64_t row) {
  return rows == 1 ? (row + 15) / 16 * 16 : stride;
}

int lo_cuda_box(const lo_cu_operand *o, lo_box_type type, lo_i64 k, lo_i64 batch, int lines,
                lo_cu_map *map) {
  unsigned size = types[type].size, along = 128 / size;
  int one = batch == 1 || o->batch_stride == 0;
  cuuint64_t extent[] = {(cuuint64_t)(o->k_inner ? k : o->extent),
                         (cuuint64_t)(o->k_inner ? o->extent : k), one ? 1 : (cuuint64_t)batch};
  cuuint64_t stride[] = {(cuuint64_t)o->stride * size,
                         one ? 16 : (cuuint64_t)o->batch_stride * size};
  cuuint32_t box[] = {along, o->k_inner ? (cuuint32_t)lines : along, 1};
  stride[0] = row_stride(stride[0], extent[1], extent[0] * size);
  return encode(map, types[type].type, o->p, extent, stride, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

/* As bits: nothing is converted. */
int lo_cuda_box_c(const lo_cu_gemm *g, lo_cu_map *map) {
  static const CUtensorMapDataType words[] = {
      [1] = CU_TENSOR_MAP_DATA_TYPE_UINT8,
      [2] = CU_TENSOR_MAP_DATA_TYPE_UINT16,
      [4] = CU_TENSOR_MAP_DATA_TYPE_UINT32,
  };
  cuuint64_t size = lo_type_bytes((layerops_type)g->e.c.type);
  cuuint64_t extent[] = {(cuuint64_t)g->n, (cuuint64_t)g->m, (cuuint64_t)g->batch};
  cuuint64_t stride[] = {row_stride((cuuint64_t)g->e.c.stride * size, extent[1], extent[0] * size),
                         g->batch == 1 ? 16 : (cuuint64_t)g->e.c.batch_stride * size};
  cuuint32_t box[] = {(cuuint32_t)(128 / size), LO_CU_BOX_ROWS, 1};
  return encode(map, words[size], g->e.c.p, extent, stride, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

int lo_cuda_narrow_box(const void *p, lo_box_type type, lo_i64 rows, lo_i64 cols, lo_i64 stride,
                       int width, int lines, lo_cu_map *map) {
  static const CUtensorMapSwizzle swizzles[] = {[1] = CU_TENSOR_MAP_SWIZZLE_32B,
                                                [2] = CU_TENSOR_MAP_SWIZZLE_64B,
                                                [4] = CU_TENSOR_MAP_SWIZZLE_128B};
  const unsigned size = types[type].size;
  const cuuint64_t extent[] = {(cuuint64_t)cols, (cuuint64_t)rows, 1};
  const cuuint64_t distance[] = {row_stride((cuuint64_t)stride * size, extent[1], extent[0] * size),
                                 16};
  const cuuint32_t box[] = {(cuuint32_t)width, (cuuint32_t)lines, 1};
  return encode(map, types[type].type, p, extent, distance, box, swizzles[width * size / 32]);
}

bool lo_cuda_takes_boxes(const lo_cu_gemm *g) {
  const int ends = LO_END_ACTIVATION | LO_END_SCALES; /* nothing is read beside C */
  const lo_cu_output *c = &g->e.c;
  lo_i64 size = (lo_i64)lo_type_bytes((layerops_type)c->type), most = (lo_i64)1 << 40;
  lo_i64 stride = g->m == 1 ? 0 : c->stride, batch_stride = g->batch == 1 ? 0 : c->batch_stride;
  bool far = stride >= most / size || batch_stride >= most / size;
  if (g->n * size % 16) return false; /* TMA stores 16 bytes at a time, and so past the row's end */
  return g->split == 1 && !far && !(g->e.ends & ~ends) &&
         (((uintptr_t)c->p | (uintptr_t)(stride * size) | (uintptr_t)(batch_stride * size)) & 15) ==
             0;
}
