/* Moving data: fill, copy with conversion, gather. */
#include <config.h>

#include <math.h>

#include "backends/cpu/grid.h"
#include "backends/cpu/product.h"
#include "backends/cpu/span.h"
#include "common/door.h"

static bool is_integer(layerops_type type) {
  return type == LAYEROPS_I32 || type == LAYEROPS_I8 || type == LAYEROPS_U8;
}

/* n elements from one type to the other, through f32 where they differ: exact there for 8 and 16
 * bits; i32 is rounded to odd where a second rounding follows. The same place may be both. */
static void convert(const lo_isa *isa, layerops_type from_type, const void *from,
                    layerops_type to_type, void *to, int64_t n) {
  float copy[LO_SPAN];
  if (from_type == to_type) {
    if (from != to) memcpy(to, from, (size_t)n * layerops_type_size(to_type));
  } else if (from_type == LAYEROPS_F32) {
    isa->store(to_type, from, to, n);
  } else {
    if (from_type == LAYEROPS_I32 && !is_integer(to_type) && to_type != LAYEROPS_F32)
      isa->load_odd(from, copy, n);
    else
      isa->load(from_type, from, copy, n);
    isa->store(to_type, copy, to, n);
  }
}

typedef struct job {
  const lo_isa *isa;
  lo_plane x, y;
  const int32_t *index; /* of gather, else NULL */
} job;

/* Of one type: as few calls of memcpy as there can be, which then knows what is too large for the
 * caches. */
typedef struct block {
  lo_plane x, y;
  int64_t rows, bytes, tasks; /* bytes of a row */
} block;

static void copy_task(void *arg, int64_t task) {
  const block *w = arg;
  const bool by_rows = w->rows > 1;
  int64_t begin, end;
  lo_share(by_rows ? w->rows : w->bytes, w->tasks, task, &begin, &end);
  if (!by_rows) {
    memcpy(w->y.base + begin, w->x.base + begin, (size_t)(end - begin));
    return;
  }
  for (int64_t i = begin; i < end; i++)
    memcpy(lo_element(&w->y, i, 0), lo_element(&w->x, i, 0), (size_t)w->bytes);
}

static void copy_block(layerops_context *ctx, const lo_grid *grid, const job *w, double ns) {
  const int64_t size = (int64_t)layerops_type_size(w->x.type);
  block b = {.x = w->x, .y = w->y, .rows = grid->rows, .bytes = grid->cols * size};
  if (b.x.base == b.y.base) return; /* the door lets no other overlap pass */
  b.tasks = lo_parallel_width(ctx, ns * (double)grid->rows * (double)grid->cols);
  if (b.rows > 1 && b.tasks > b.rows) b.tasks = b.rows;
  lo_parallel(ctx, b.tasks, copy_task, &b);
}

static void copy_unit(void *arg, const lo_unit *unit) {
  const job *w = arg;
  LO_FOR_SPANS(unit, i, j, n) {
    int64_t row = w->index ? w->index[i] : i;
    convert(w->isa, w->x.type, lo_element(&w->x, row, j), w->y.type, lo_element(&w->y, i, j), n);
  }
}

static double move_cost(const layerops_matrix *x, const layerops_matrix *y) {
  return 0.03 * (double)(layerops_type_size(x->type) + layerops_type_size(y->type)); /* ns */
}

layerops_status lo_cpu_copy(layerops_context *ctx, const layerops_copy_args *a) {
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){&a->x, &a->y}, 2);
  job w = {.isa = lo_cpu_of(ctx)->isa, .x = lo_plane_of(&a->x, 0), .y = lo_plane_of(&a->y, 0)};
  ctx->kernel = w.isa->name;
  if (a->x.type == a->y.type)
    copy_block(ctx, &grid, &w, move_cost(&a->x, &a->y));
  else
    lo_grid_run(ctx, &grid, move_cost(&a->x, &a->y), copy_unit, &w);
  return LAYEROPS_OK;
}

layerops_status lo_cpu_gather(layerops_context *ctx, const layerops_gather_args *a) {
  lo_grid grid = lo_grid_of_rows(a->y.rows, a->y.cols);
  job w = {.isa = lo_cpu_of(ctx)->isa,
           .x = lo_plane_of(&a->x, 0),
           .y = lo_plane_of(&a->y, 0),
           .index = lo_address(&a->index)};
  ctx->kernel = w.isa->name;
  LO_TRY(lo_check_labels("gather", "index", &a->index, a->x.rows, LO_NOTHING_IGNORED));
  lo_grid_run(ctx, &grid, move_cost(&a->x, &a->y), copy_unit, &w);
  return LAYEROPS_OK;
}

/* ---- fill ---- */

/* To f32, but to odd: what a second rounding to 16 bits needs. */
static float odd_float(double value) {
  float f = (float)value;
  if ((double)f == value || isnan(value)) return f;
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if (fabs((double)f) > fabs(value)) u--; /* towards 0 */
  u |= 1;
  memcpy(&f, &u, sizeof f);
  return f;
}

static double saturated(double value, double low, double high) {
  if (isnan(value)) return 0;
  return value < low ? low : value > high ? high : rint(value);
}

/* One element of the type. */
static void encode(const lo_isa *isa, layerops_type type, double value, void *to) {
  float f = type == LAYEROPS_F32 ? (float)value : odd_float(value);
  switch (type) {
  case LAYEROPS_I32:
    *(int32_t *)to = (int32_t)saturated(value, INT32_MIN, INT32_MAX);
    break;
  case LAYEROPS_I8:
    *(int8_t *)to = (int8_t)saturated(value, INT8_MIN, INT8_MAX);
    break;
  case LAYEROPS_U8:
    *(uint8_t *)to = (uint8_t)saturated(value, 0, UINT8_MAX);
    break;
  default:
    isa->store(type, &f, to, 1);
  }
}

enum { PATTERN = 8 };

typedef struct filling {
  lo_plane y;
  _Alignas(PATTERN) char pattern[PATTERN]; /* the element, repeated */
} filling;

static void fill_unit(void *arg, const lo_unit *unit) {
  const filling *w = arg;
  const size_t size = layerops_type_size(w->y.type);
  for (int64_t i = unit->i; i < unit->i + unit->rows; i++) {
    char *to = lo_element(&w->y, i, unit->j);
    size_t bytes = (size_t)unit->cols * size, b = 0;
    for (; b + PATTERN <= bytes; b += PATTERN) memcpy(to + b, w->pattern, PATTERN);
    memcpy(to + b, w->pattern, bytes - b);
  }
}

layerops_status lo_cpu_fill(layerops_context *ctx, const layerops_fill_args *a) {
  const lo_isa *isa = lo_cpu_of(ctx)->isa;
  const size_t size = layerops_type_size(a->y.type);
  lo_grid grid = lo_grid_of((const layerops_matrix *const[]){&a->y}, 1);
  filling w = {.y = lo_plane_of(&a->y, 0)};
  encode(isa, a->y.type, lo_scalar(&a->value), w.pattern);
  for (size_t b = size; b < PATTERN; b += size) memcpy(w.pattern + b, w.pattern, size);
  ctx->kernel = isa->name;
  lo_grid_run(ctx, &grid, 0.03 * (double)size, fill_unit, &w);
  return LAYEROPS_OK;
}
