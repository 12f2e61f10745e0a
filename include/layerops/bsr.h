/* Block-sparse weights: BSR, blocks in compressed rows. The products with them are in ops.h. */
#ifndef LAYEROPS_BSR_H
#define LAYEROPS_BSR_H

#include <layerops/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The format ---------------------------------------------------------------------------------
 * W [rows, cols], a layer's [out, in], is cut into blocks of height x width elements, each of 4, 8,
 * 16, 32, 64 or 128, square or not (4 only on "cpu" and "reference"). There are
 *   block_rows = ceil(rows / height), block_cols = ceil(cols / width)
 * so the last ones may be ragged, that is, stand out of W. Of block row r the blocks row_start[r]
 * ... row_start[r + 1] - 1 are kept, block i in block column column[i]; columns ascend within a
 * row. All else is 0. Rows and columns may be empty, and no block, or all, may be kept.
 *
 * All blocks are stored whole: block i begins at element i * height * width of the values, its
 * elements are row-major. What lies outside of W is 0 and stays so. Elements are f32, f16, bf16, or
 * i8 with one f32 scale a block: W = scales[i] * values.
 *
 * The object belongs to the context's device; all its contexts may use it. A context that makes one
 * may have enqueued the work that fills it: another waits for that (layerops_wait, layerops_sync).
 * The pattern never changes, so it is made once by columns too, for the backward pass; the values
 * are an operand as any other. Threads may use an object together, but while one changes values.
 *
 * None of these functions can be recorded (STATE). Errors as in ops.h. */

/* Copies what it is given: a later change of the arrays changes nothing. */
typedef struct layerops_bsr_args {
  int64_t rows, cols;
  int64_t block;            /* the height of blocks, and their width where `width` is 0 */
  int64_t count;            /* kept blocks */
  const int32_t *row_start; /* host, block_rows + 1 numbers */
  const int32_t *column;    /* host, count numbers */
  const void *values;       /* host, count * height * width elements of type; NULL: zeros. What lies
                               outside of W is taken as 0 */
  layerops_type type;       /* f32, f16, bf16, i8 */
  int32_t reserved;
  int64_t width;
  const float *scales; /* host, count numbers, i8 alone; NULL: ones */
} layerops_bsr_args;

/* From index arrays. INVALID where row_start does not ascend from 0 to count, or columns do not
 * ascend within a row, or leave the matrix; OVERFLOW where block_rows, block_cols or count do not
 * fit 31 bits. */
LAYEROPS_API layerops_status layerops_bsr_create_(layerops_context *ctx,
                                                  const layerops_bsr_args *args, size_t size,
                                                  layerops_bsr **bsr);
static inline layerops_status
layerops_bsr_create(layerops_context *ctx, const layerops_bsr_args *args, layerops_bsr **bsr) {
  return layerops_bsr_create_(ctx, args, sizeof(layerops_bsr_args), bsr);
}
LAYEROPS_API void layerops_bsr_destroy(layerops_bsr *bsr); /* NULL is allowed */

/* ---- What an object has ---- */

/* The values as a matrix [count * height, width]: what an optimizer updates. The scales as one
 * [1, count] of f32, absent unless the values are i8. Their buffers live as long as the object.
 * Absent for NULL. */
LAYEROPS_API layerops_matrix layerops_bsr_values(const layerops_bsr *bsr);
LAYEROPS_API layerops_matrix layerops_bsr_scales(const layerops_bsr *bsr);

#ifdef __cplusplus
}
#endif
#endif
