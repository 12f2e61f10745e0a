#include <config.h>

#include <math.h>
#include <string.h>

#include "t/conformance/sparse.h"

cf_sparse cf_sparse_of(cf_session *s, layerops_type type, int64_t n, int64_t k, int64_t height,
                       int64_t width) {
  cf_sparse p = {.type = type,
                 .w_type = s->second ? s->second : type,
                 .n = n,
                 .k = k,
                 .height = height,
                 .width = width,
                 .block_rows = (n + height - 1) / height,
                 .block_cols = (k + width - 1) / width,
                 .fill = CF_INTEGER};
  p.kept = cf_memory(s, (size_t)(p.block_rows * p.block_cols));
  return p;
}

void cf_keep(cf_session *s, cf_sparse *p, int percent) {
  for (int64_t i = 0; i < p->block_rows * p->block_cols; i++)
    p->kept[i] = cf_below(s, 100) < percent;
}

static void fill_pattern(cf_session *s, cf_sparse *p) {
  p->row_start = cf_memory(s, (size_t)(p->block_rows + 1) * sizeof *p->row_start);
  p->column = cf_memory(s, (size_t)(p->block_rows * p->block_cols) * sizeof *p->column);
  for (int64_t r = 0; r < p->block_rows; r++) {
    for (int64_t c = 0; c < p->block_cols; c++)
      if (p->kept[r * p->block_cols + c]) p->column[p->count++] = (int32_t)c;
    p->row_start[r + 1] = (int32_t)p->count;
  }
}

/* Powers of two, so that products with values are exact in f32. */
static double scale_of(const cf_sparse *p, int64_t block) {
  return p->w_type == LAYEROPS_I8 ? ldexp(1, (int)(block % 4) - 2) : 1;
}

static double draw(cf_session *s, const cf_sparse *p) {
  if (p->fill == CF_INTEGER) return (double)(cf_below(s, 9) - 4);
  if (p->w_type == LAYEROPS_I8) return (double)(cf_below(s, 256) - 128);
  return cf_rounded(p->w_type, cf_uniform(s, -1, 1));
}

static void set_block(cf_session *s, cf_sparse *p, int64_t r, int64_t block, double gate) {
  for (int64_t i = 0; i < p->height; i++)
    for (int64_t j = 0; j < p->width; j++) {
      const int64_t row = r * p->height + i, col = p->column[block] * p->width + j;
      if (row >= p->n || col >= p->k) continue;
      const double value = draw(s, p) * scale_of(p, block);
      p->values[(block * p->height + i) * p->width + j] = value;
      cf_set(p->dense, row, col, value);
      cf_set(p->effective, row, col, gate * value);
    }
}

void cf_sparse_fill(cf_session *s, cf_sparse *p, bool gated) {
  static const double gates[] = {1, 0, -2, 0.5};
  fill_pattern(s, p);
  p->values = cf_memory(s, (size_t)(p->count * p->height * p->width) * sizeof *p->values);
  p->dense = cf_matrix(s, "dense w", LAYEROPS_F32, p->n, p->k, CF_ZERO);
  p->effective = cf_matrix(s, "dense w with gates", LAYEROPS_F32, p->n, p->k, CF_ZERO);
  p->gate = gated ? cf_matrix(s, "gate", LAYEROPS_F32, 1, p->count, CF_ONE) : NULL;
  for (int64_t r = 0; r < p->block_rows; r++)
    for (int64_t b = p->row_start[r]; b < p->row_start[r + 1]; b++) {
      const double gate = gated ? gates[b % CF_COUNT(gates)] : 1;
      if (gated) cf_set(p->gate, 0, b, gate);
      set_block(s, p, r, b, gate);
    }
}

/* The arrays of layerops_bsr_create. */
static void *stored_values(cf_session *s, const cf_sparse *p, float *scales) {
  const size_t size = layerops_type_size(p->w_type);
  const int64_t area = p->height * p->width;
  unsigned char *stored = cf_memory(s, (size_t)(p->count * area) * size);
  for (int64_t b = 0; b < p->count; b++) {
    scales[b] = (float)scale_of(p, b);
    for (int64_t i = b * area; i < (b + 1) * area; i++)
      if (p->w_type == LAYEROPS_I8)
        stored[i] = (unsigned char)(int8_t)(p->values[i] / scale_of(p, b));
      else
        cf_encode(p->w_type, p->values[i], stored + (size_t)i * size);
  }
  return stored;
}

layerops_status cf_sparse_make(cf_session *s, cf_sparse *p, int side) {
  float *scales = cf_memory(s, (size_t)p->count * sizeof *scales);
  layerops_bsr_args args = {.rows = p->n,
                            .cols = p->k,
                            .block = p->height,
                            .width = p->width,
                            .count = p->count,
                            .row_start = p->row_start,
                            .column = p->column,
                            .values = stored_values(s, p, scales),
                            .type = p->w_type,
                            .scales = p->w_type == LAYEROPS_I8 ? scales : NULL};
  return layerops_bsr_create(s->ctx[side], &args, &p->w[side]);
}

void cf_sparse_on(cf_session *s, cf_sparse *p, int side) {
  layerops_status status = cf_sparse_make(s, p, side);
  cf_expect(s, status == LAYEROPS_OK, "bsr_create returned %s: %s", layerops_status_name(status),
            layerops_last_error());
}

void cf_sparse_free(cf_sparse *p) {
  for (int side = 0; side < CF_SIDE_COUNT; side++) layerops_bsr_destroy(p->w[side]);
}

cf_operand *cf_samples(cf_session *s, const cf_sparse *p, const char *name, layerops_type type,
                       int64_t m, int64_t features, cf_fill fill) {
  return p->by_features ? cf_matrix(s, name, type, features, m, fill)
                        : cf_matrix(s, name, type, m, features, fill);
}

int64_t cf_sample_at(const cf_sparse *p, const cf_operand *o, int64_t i, int64_t j) {
  return p->by_features ? j * o->shape.cols + i : i * o->shape.cols + j;
}

double *cf_sparse_magnitudes(cf_session *s, const cf_sparse *p, const cf_operand *o, int64_t m,
                             bool dx) {
  const int64_t features = dx ? p->k : p->n;
  double *sums = cf_memory(s, (size_t)(m * features) * sizeof *sums);
  for (int64_t r = 0; r < p->n; r++)
    for (int64_t c = 0; c < p->k; c++) {
      const double w = fabs(p->effective->values[r * p->k + c]);
      for (int64_t i = 0; w != 0 && i < m; i++)
        sums[i * features + (dx ? c : r)] += w * fabs(o->values[cf_sample_at(p, o, i, dx ? r : c)]);
    }
  return sums;
}
