/* The lists of block-sparse weights of 16-bit types as the direct kernels go by them (their layouts
 * stand in bsr_launch.h): each line's first blocks beside their number, and the items of the
 * gradient of the weights. */
#ifndef LO_CUDA_BSR_HEADS_H
#define LO_CUDA_BSR_HEADS_H

#include "backends/cuda/bsr_launch.h"
#include "common/context.h"

/* Words to be freed by who asked for them. */
typedef struct lo_bsr_words {
  int32_t *words;
  int64_t count; /* of heads or items */
} lo_bsr_words;

/* Whether the lists have room for such weights. */
bool lo_cuda_bsr_has_heads(const layerops_bsr *w);
/* Of all lines: rows of blocks, or columns. */
layerops_status lo_cuda_bsr_heads_make(const layerops_bsr *w, bool by_columns, lo_bsr_words *heads);
layerops_status lo_cuda_bsr_items_make(const layerops_bsr *w, lo_bsr_words *items);

#endif
