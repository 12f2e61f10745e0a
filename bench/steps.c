#include <config.h>

#include "bench/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bound.h"

#define COLD_BYTES 0x1p28 /* that the sets have together */
#define MOST_SETS  100
#define BACK_SEED  2
#define TRY(call)                                                                                  \
  do {                                                                                             \
    layerops_status status_ = (call);                                                              \
    if (status_ != LAYEROPS_OK) return status_;                                                    \
  } while (0)

const char *const bench_residencies[] = {"warm", "cold", NULL};
const char *const bench_ways[] = {"graph", "chain", "alone", NULL};

layerops_type bench_element(const struct bench_type *type) {
  for (layerops_type t = 1; t < LAYEROPS_TYPE_COUNT; t++)
    if (!strcmp(layerops_type_name(t), type->element)) return t;
  return LAYEROPS_NONE_TYPE;
}

/* ---- the buffer ----
   All operands lie in one, since many allocations would take longer than what is measured. They are
   placed twice: first to count the bytes, without a buffer. */

#define BORDER 256 /* of each operand, in bytes */

static int64_t bytes_of(const struct bench_type *type, int64_t rows, int64_t cols) {
  return rows * cols * (int64_t)type->size;
}

/* A tight matrix with this content (NULL: undefined). */
static layerops_status place(struct bench_steps *s, const struct bench_type *type, const void *host,
                             int64_t rows, int64_t cols, layerops_matrix *matrix) {
  const int64_t at = s->used, bytes = bytes_of(type, rows, cols);
  s->used += (bytes + BORDER - 1) / BORDER * BORDER;
  if (!s->buffer) return LAYEROPS_OK;
  *matrix = layerops_matrix_of(s->buffer, bench_element(type), rows, cols);
  matrix->offset = at / (int64_t)type->size;
  return host ? layerops_buffer_write_at(s->ctx, s->buffer, at, host, bytes) : LAYEROPS_OK;
}

static const struct bench_type f32 = {.element = "f32", .size = sizeof(float)};

static layerops_status place_blocks(struct bench_steps *s, const struct bench_operands *o,
                                    layerops_bsr **bsr) {
  if (!s->buffer) return LAYEROPS_OK;
  layerops_bsr_args args = {.rows = o->row->n,
                            .cols = o->row->k,
                            .block = o->row->block,
                            .count = bench_pattern_kept(&o->pattern),
                            .row_start = o->pattern.row_start,
                            .column = o->pattern.col,
                            .values = o->product == BENCH_WGRAD ? NULL : o->w,
                            .scales = o->scale_w,
                            .type = bench_element(bench_type_w(o->type))};
  return layerops_bsr_create(s->ctx, &args, bsr);
}

static layerops_status place_sparse(struct bench_steps *s, const struct bench_operands *o,
                                    struct bench_set *set) {
  const int64_t b = o->row->block;
  TRY(place_blocks(s, o, &set->bsr));
  if (o->product == BENCH_WGRAD) return place(s, o->type, NULL, o->w_count / b, b, &set->w);
  if (set->bsr) set->w = layerops_bsr_values(set->bsr);
  return LAYEROPS_OK;
}

static layerops_status place_dense(struct bench_steps *s, const struct bench_operands *o,
                                   struct bench_set *set) {
  const struct bench_row *row = o->row;
  const void *w = o->product == BENCH_WGRAD ? NULL : o->w;
  TRY(place(s, bench_type_w(o->type), w, row->n, row->k, &set->w));
  if (o->bias) TRY(place(s, bench_type_bias(o->type), o->bias, 1, row->n, &set->bias));
  return o->scale_w ? place(s, &f32, o->scale_w, 1, row->n, &set->scale_w) : LAYEROPS_OK;
}

static layerops_status place_set(struct bench_steps *s, const struct bench_operands *o,
                                 struct bench_set *set) {
  const struct bench_row *row = o->row;
  const void *x = o->product == BENCH_DGRAD ? NULL : o->x;
  const void *y = o->product == BENCH_FORWARD ? NULL : o->y;
  TRY(row->block ? place_sparse(s, o, set) : place_dense(s, o, set));
  if (s->way == BENCH_CHAIN) return LAYEROPS_OK;
  TRY(place(s, o->type, x, row->m, row->k, &set->x));
  return place(s, bench_type_y(o->type), y, row->m, row->n, &set->y);
}

/* Even places are as wide as k, odd ones as n. */
static layerops_status place_ring(struct bench_steps *s, const struct bench_operands *o) {
  const struct bench_row *row = o->row;
  for (int i = 0; i < BENCH_RING; i++)
    TRY(place(s, o->type, i ? NULL : o->x, row->m, i % 2 ? row->n : row->k, &s->ring[i]));
  return LAYEROPS_OK;
}

static layerops_status place_scales(struct bench_steps *s, const struct bench_operands *o) {
  if (o->scale_x > 0) TRY(place(s, &f32, &o->scale_x, 1, 1, &s->scale_x));
  if (o->scale_y > 0) TRY(place(s, &f32, &o->scale_y, 1, 1, &s->scale_y));
  return LAYEROPS_OK;
}

static layerops_status place_all(struct bench_steps *s) {
  const struct bench_operands *o = s->layers[0];
  s->used = 0;
  TRY(place_scales(s, o));
  if (s->way == BENCH_CHAIN) TRY(place_ring(s, o));
  for (int64_t i = 0; i < s->set_count; i++)
    TRY(place_set(s, s->layers[i % s->layer_count], &s->sets[i]));
  return LAYEROPS_OK;
}

/* ---- the list ---- */

static layerops_status refuse(struct bench_steps *s, const char *why) {
  s->why = why;
  return LAYEROPS_ERROR_UNSUPPORTED;
}

static layerops_status check_backward(struct bench_steps *s, const struct bench_operands *o) {
  if (o->bias) return refuse(s, "dgrad and wgrad are those of block-sparse rows");
  if (o->type->w || o->type->y) return refuse(s, "dgrad and wgrad have operands of one type");
  return s->way == BENCH_CHAIN ? refuse(s, "no chain: of dgrad and wgrad") : LAYEROPS_OK;
}

static layerops_status find_layers(struct bench_steps *s, const struct bench_operands *o) {
  const struct bench_row *row = o->row;
  s->layers[0] = o;
  s->layer_count = 1;
  if (o->product != BENCH_FORWARD) TRY(check_backward(s, o));
  if (s->way != BENCH_CHAIN) return LAYEROPS_OK;
  if (strcmp(bench_type_y(o->type)->element, o->type->element))
    return refuse(s, "no chain: Y is of another type than X");
  if (row->n == row->k) return LAYEROPS_OK;
  if (row->block) return refuse(s, "no chain: block-sparse weights that are not square");
  s->back_row = *row;
  s->back_row.n = row->k;
  s->back_row.k = row->n;
  if (!bench_operands_make(&s->back_row, o->type, BENCH_FORWARD, BACK_SEED, &s->back))
    return refuse(s, "no memory for the data of the way back");
  bench_operands_damp(&s->back);
  s->layers[1] = &s->back;
  s->layer_count = 2;
  return LAYEROPS_OK;
}

double bench_steps_bytes(const struct bench_operands *o) {
  double flops, bytes;
  bench_work(o->row, o->row->block ? &o->pattern : NULL, o->type, &flops, &bytes);
  return bytes;
}

static int64_t sets_of(const struct bench_steps *s, enum bench_residency residency) {
  const struct bench_operands *o = s->layers[0];
  if (residency == BENCH_WARM || s->way == BENCH_ALONE) return s->layer_count;
  double weights = (double)o->w_count * (double)bench_type_w(o->type)->size;
  double sets = ceil(COLD_BYTES / (s->way == BENCH_CHAIN ? weights : bench_steps_bytes(o)));
  int64_t count = sets < MOST_SETS ? (int64_t)sets : MOST_SETS;
  return (count + s->layer_count - 1) / s->layer_count * s->layer_count;
}

layerops_status bench_steps_make(layerops_context *ctx, const struct bench_operands *operands,
                                 enum bench_residency residency, enum bench_way way,
                                 struct bench_steps *s) {
  *s = (struct bench_steps){.ctx = ctx, .way = way, .count = BENCH_FEW_CALLS};
  if (way == BENCH_ALONE) s->count = 1;
  TRY(find_layers(s, operands));
  s->set_count = sets_of(s, residency);
  s->sets = calloc((size_t)s->set_count, sizeof *s->sets);
  if (!s->sets) return LAYEROPS_ERROR_OUT_OF_MEMORY;
  TRY(place_all(s));
  TRY(layerops_buffer_create(ctx, s->used, &s->buffer));
  return place_all(s);
}

void bench_steps_free(struct bench_steps *s) {
  for (int64_t i = 0; s->sets && i < s->set_count; i++) layerops_bsr_destroy(s->sets[i].bsr);
  layerops_buffer_destroy(s->buffer);
  if (s->layer_count == 2) bench_operands_free(&s->back);
  free(s->sets);
  *s = (struct bench_steps){0};
}

struct bench_call_operands bench_steps_at(const struct bench_steps *s, int64_t call) {
  int64_t set = call % s->set_count;
  struct bench_call_operands at = {
      .views = s->sets[set], .host = s->layers[call % s->layer_count], .set = set};
  if (s->way != BENCH_CHAIN) return at;
  at.views.x = s->ring[call % BENCH_RING];
  at.views.y = s->ring[(call + 1) % BENCH_RING];
  return at;
}

/* NULL for an absent one. */
static void *native(const layerops_matrix *m) {
  char *base = layerops_buffer_native(m->buffer);
  return base ? base + m->offset * (int64_t)layerops_type_size(m->type) : NULL;
}

struct bench_step *bench_steps_list(const struct bench_steps *s) {
  struct bench_step *list = calloc((size_t)s->count, sizeof *list);
  for (int64_t i = 0; list && i < s->count; i++) {
    struct bench_set v = bench_steps_at(s, i).views;
    list[i] = (struct bench_step){.layer = (int)(i % s->layer_count),
                                  .x = native(&v.x),
                                  .w = native(&v.w),
                                  .bias = native(&v.bias),
                                  .y = native(&v.y),
                                  .scale_w = native(&v.scale_w)};
  }
  return list;
}

/* ---- right or wrong ---- */

static int64_t matrix_bytes(const layerops_matrix *m) {
  return m->rows * m->cols * (int64_t)layerops_type_size(m->type);
}

static int64_t matrix_at(const layerops_matrix *m) {
  return m->offset * (int64_t)layerops_type_size(m->type);
}

static layerops_status write_matrix(const struct bench_steps *s, const layerops_matrix *m,
                                    const void *host) {
  return layerops_buffer_write_at(s->ctx, m->buffer, matrix_at(m), host, matrix_bytes(m));
}

static layerops_status read_matrix(const struct bench_steps *s, const layerops_matrix *m,
                                   void *host) {
  return layerops_buffer_read_at(s->ctx, m->buffer, matrix_at(m), host, matrix_bytes(m));
}

/* What a call makes. */
static const layerops_matrix *output_of(const struct bench_call_operands *o) {
  const struct bench_set *v = &o->views;
  return o->host->product == BENCH_FORWARD ? &v->y
         : o->host->product == BENCH_DGRAD ? &v->x
                                           : &v->w;
}

/* The last call of a layer. */
static struct bench_call_operands last_of(const struct bench_steps *s, int layer) {
  return bench_steps_at(s, s->count - s->layer_count + layer);
}

layerops_status bench_steps_poison(const struct bench_steps *s) {
  for (int layer = 0; layer < s->layer_count; layer++) {
    struct bench_call_operands last = last_of(s, layer);
    struct bench_operands o = *last.host;
    bench_operands_poison(&o);
    TRY(write_matrix(s, output_of(&last), bench_operands_output(&o).data));
  }
  return s->way == BENCH_CHAIN ? write_matrix(s, &s->ring[0], s->layers[0]->x) : LAYEROPS_OK;
}

static layerops_status check_layer(const struct bench_steps *s, int layer,
                                   struct bench_latitude latitude, void *x,
                                   struct bench_check *check) {
  struct bench_call_operands last = last_of(s, layer);
  struct bench_operands o = *last.host;
  if (x) {
    TRY(read_matrix(s, &last.views.x, x));
    o.x = x;
  }
  TRY(read_matrix(s, output_of(&last), bench_operands_output(&o).data));
  struct bench_check found = bench_operands_check_as(&o, latitude);
  if (!layer || found.wrong > check->wrong ||
      (found.wrong == check->wrong && found.max_rel_err > check->max_rel_err))
    *check = found;
  return LAYEROPS_OK;
}

layerops_status bench_steps_check(const struct bench_steps *s, struct bench_latitude latitude,
                                  struct bench_check *check) {
  const struct bench_row *row = s->layers[0]->row;
  int64_t widest = row->n > row->k ? row->n : row->k;
  void *x = NULL;
  if (s->way == BENCH_CHAIN) {
    x = malloc((size_t)(row->m * widest) * s->layers[0]->type->size);
    if (!x) return LAYEROPS_ERROR_OUT_OF_MEMORY;
  }
  layerops_status status = LAYEROPS_OK;
  for (int layer = 0; status == LAYEROPS_OK && layer < s->layer_count; layer++)
    status = check_layer(s, layer, latitude, x, check);
  free(x);
  return status;
}
