/* Operands as TMA takes them: tensors, and the boxes of them that are copied at once. */
#include <config.h>

#include <string.h>

#include "backends/cuda/boxes.h"
#include "backends/cuda/driver.h"

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

int lo_cuda_box(const lo_cu_operand *o, lo_box_type type, lo_i64 k, lo_i64 batch, int lines,
                lo_cu_map *map) {
  unsigned size = types[type].size, along = 128 / size;
  int one = batch == 1 || o->batch_stride == 0;
  cuuint64_t extent[] = {(cuuint64_t)(o->k_inner ? k : o->extent),
                         (cuuint64_t)(o->k_inner ? o->extent : k), one ? 1 : (cuuint64_t)batch};
  cuuint64_t stride[] = {(cuuint64_t)o->stride * size,
                         one ? 16 : (cuuint64_t)o->batch_stride * size};
  cuuint32_t box[] = {along, o->k_inner ? (cuuint32_t)lines : along, 1}, step[] = {1, 1, 1};
  if (extent[1] == 1) stride[0] = (extent[0] * size + 15) / 16 * 16; /* whatever it is */
  CUtensorMap made;
  CUresult error = lo_cuda_driver_get()->cuTensorMapEncodeTiled(
      &made, types[type].type, 3, (void *)o->p, extent, stride, box, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  memcpy(map, &made, sizeof made);
  return (int)error;
}
