/* What the two parts of a network's file share: store.c, and store_sparse.c for block-sparse
 * layers. */
#ifndef LO_STORE_H
#define LO_STORE_H

#include "network/network.h"
#include "network/safetensors.h"

#define LO_STORE_NAME   64 /* bytes of a tensor's name */
#define LO_STORE_ARRAYS 3  /* of a block-sparse layer, beside its values */

typedef struct lo_store_name {
  char text[LO_STORE_NAME];
} lo_store_name;
/* "layers.0.weight", or of the optimizer's state "m" "optimizer.m.layers.0.weight". */
lo_store_name lo_store_name_of(const char *state, int64_t layer, const char *what);

/* W's sizes, where the file has layer `layer` as block-sparse. */
layerops_status lo_store_sparse_size(const char *path, const lo_safetensors *file, int64_t layer,
                                     bool *found, int64_t size[2]);
/* A block-sparse layer with the file's pattern and values of 0. */
layerops_status lo_store_sparse_pattern(layerops_context *ctx, const char *path,
                                        const lo_safetensors *file, int64_t layer,
                                        const int64_t size[2], layerops_bsr **w);
/* What of values, in host memory, stands out of W becomes 0. */
void lo_store_clear_outside(const layerops_bsr *w, float *values);
/* The arrays as tensors; `size` is for W's sizes. All must live as long as the tensors. */
void lo_store_sparse_arrays(const layerops_bsr *w, int64_t layer, int64_t size[2],
                            lo_store_name names[LO_STORE_ARRAYS],
                            lo_tensor tensors[LO_STORE_ARRAYS]);

#endif
