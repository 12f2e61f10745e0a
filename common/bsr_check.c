/* What block-sparse weights may be. */
#include <config.h>

#include "common/bsr.h"
#include "common/door.h"

#define LARGEST_SIZE ((int64_t)1 << 48)

static const char *const sides = "4, 8, 16, 32, 64, 128";

static bool is_side(int64_t side) {
  return side >= 4 && side <= 128 && !(side & (side - 1));
}

static layerops_status check_side(const char *function, const char *name, int64_t side) {
  if (is_side(side)) return LAYEROPS_OK;
  return lo_fail(side <= 0 ? LAYEROPS_ERROR_INVALID : LAYEROPS_ERROR_UNSUPPORTED,
                 "%s: %s is %lld; supported: %s", function, name, (long long)side, sides);
}

static int64_t blocks_of(int64_t size, int64_t side) {
  return size / side + (size % side != 0);
}

layerops_status lo_bsr_check_shape(const char *function, int64_t rows, int64_t cols, int64_t block,
                                   int64_t width, lo_bsr_shape *shape) {
  LO_TRY(check_side(function, "block", block));
  if (width) LO_TRY(check_side(function, "width", width));
  if (!width) width = block;
  if (rows < 0 || cols < 0)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "%s: rows is %lld and cols %lld, but none may be negative", function,
                   (long long)rows, (long long)cols);
  *shape = (lo_bsr_shape){rows, cols, block, width, blocks_of(rows, block), blocks_of(cols, width)};
  if (rows > LARGEST_SIZE || cols > LARGEST_SIZE || shape->block_rows >= INT32_MAX ||
      shape->block_cols >= INT32_MAX)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW,
                   "%s: rows %lld and cols %lld are %lld x %lld blocks: indices are 32 bits wide",
                   function, (long long)rows, (long long)cols, (long long)shape->block_rows,
                   (long long)shape->block_cols);
  return LAYEROPS_OK;
}

layerops_status lo_bsr_check_type(const char *function, layerops_type type) {
  enum { TYPES = LO_FLOAT | LO_BIT(LAYEROPS_I8) };
  if (type > 0 && type < LAYEROPS_TYPE_COUNT && TYPES & LO_BIT(type)) return LAYEROPS_OK;
  const bool known = type > 0 && type < LAYEROPS_TYPE_COUNT;
  char list[LO_TYPES_TEXT];
  return lo_fail(known ? LAYEROPS_ERROR_UNSUPPORTED : LAYEROPS_ERROR_INVALID,
                 "%s: type is %s (%d); supported: %s", function, layerops_type_name(type),
                 (int)type, lo_types_text(TYPES, list));
}

layerops_status lo_bsr_check_count(const char *function, int64_t count) {
  if (count < 0)
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: count is %lld", function, (long long)count);
  if (count > INT32_MAX)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "%s: count is %lld: indices are 32 bits wide", function,
                   (long long)count);
  return LAYEROPS_OK;
}

layerops_status lo_bsr_check_reserved(const char *function, int32_t reserved) {
  if (!reserved) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_UNSUPPORTED, "%s: reserved is %d, but must be 0", function,
                 (int)reserved);
}

layerops_status lo_bsr_check_device(const char *function, const layerops_context *ctx,
                                    const lo_bsr_shape *shape) {
  if (ctx->backend->host_memory || (shape->height > 4 && shape->width > 4)) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_UNSUPPORTED,
                 "%s: blocks are %lld x %lld, but sides of 4 only processors have; %s has 8, 16, "
                 "32, 64, 128",
                 function, (long long)shape->height, (long long)shape->width, ctx->device->name);
}

static layerops_status check_row(const char *function, const lo_bsr_shape *shape,
                                 const lo_bsr_pattern *p, int64_t r) {
  const int64_t begin = p->row_start[r], end = p->row_start[r + 1];
  if (begin > end || end > p->count)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "%s: row_start[%lld] is %lld and row_start[%lld] is %lld; count is %lld",
                   function, (long long)r, (long long)begin, (long long)r + 1, (long long)end,
                   (long long)p->count);
  for (int64_t i = begin; i < end; i++) {
    const int32_t c = p->column[i];
    if (c < 0 || c >= shape->block_cols)
      return lo_fail(LAYEROPS_ERROR_INVALID, "%s: column[%lld] is %d, but must lie in [0, %lld)",
                     function, (long long)i, (int)c, (long long)shape->block_cols);
    if (i > begin && c <= p->column[i - 1])
      return lo_fail(LAYEROPS_ERROR_INVALID,
                     "%s: column[%lld] is %d after %d: columns must ascend within row %lld",
                     function, (long long)i, (int)c, (int)p->column[i - 1], (long long)r);
  }
  return LAYEROPS_OK;
}

static layerops_status check_ends(const char *function, int64_t first, int64_t last,
                                  int64_t count) {
  if (first == 0 && last == count) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_INVALID,
                 "%s: row_start begins with %lld and ends with %lld, but must with 0 and %lld",
                 function, (long long)first, (long long)last, (long long)count);
}

layerops_status lo_bsr_check_pattern(const char *function, const lo_bsr_shape *shape,
                                     const lo_bsr_pattern *p) {
  LO_TRY(check_ends(function, p->row_start[0], p->row_start[shape->block_rows], p->count));
  for (int64_t r = 0; r < shape->block_rows; r++) LO_TRY(check_row(function, shape, p, r));
  return LAYEROPS_OK;
}

layerops_status lo_bsr_check_starts(const char *function, const int64_t *row_start, int64_t lists,
                                    int64_t count) {
  LO_TRY(check_ends(function, row_start[0], row_start[lists], count));
  for (int64_t r = 0; r < lists; r++)
    if (row_start[r] > row_start[r + 1] || row_start[r + 1] > count)
      return lo_fail(LAYEROPS_ERROR_INVALID,
                     "%s: row_start[%lld] is %lld and row_start[%lld] is %lld; count is %lld",
                     function, (long long)r, (long long)row_start[r], (long long)r + 1,
                     (long long)row_start[r + 1], (long long)count);
  return LAYEROPS_OK;
}

layerops_status lo_bsr_check_use(const char *function, const layerops_context *ctx,
                                 const layerops_bsr *w) {
  if (!w) return lo_fail(LAYEROPS_ERROR_INVALID, "%s: bsr is NULL", function);
  if (w->device == ctx->device) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_INVALID, "%s: bsr is on %s, the context on %s", function,
                 w->device->name, ctx->device->name);
}

layerops_status lo_bsr_check_numbers(const char *function, const char *choice,
                                     const lo_bsr_number *numbers, size_t count) {
  for (const lo_bsr_number *n = numbers; n < numbers + count; n++) {
    if (!n->used && n->value != 0)
      return lo_fail(LAYEROPS_ERROR_INVALID, "%s: %s is %g, but %s does not use it", function,
                     n->name, n->value, choice);
    if (n->used && !(n->value >= n->low && n->value <= n->high))
      return lo_fail(LAYEROPS_ERROR_INVALID, "%s: %s is %g, but for %s must lie in [%g, %g]",
                     function, n->name, n->value, choice, n->low, n->high);
  }
  return LAYEROPS_OK;
}
