/* Pruning: which blocks of a dense matrix are worth keeping. */
#include <config.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/bsr.h"
#include "common/door.h"

/* ---- Scores ---- */

static double add_l1(double score, double magnitude) {
  return score + magnitude;
}
static double add_l2(double score, double magnitude) {
  return score + magnitude * magnitude;
}
static double add_max(double score, double magnitude) {
  return magnitude > score ? magnitude : score;
}

static double (*const adders[])(double, double) = {
    [LAYEROPS_BSR_L1] = add_l1, [LAYEROPS_BSR_L2] = add_l2, [LAYEROPS_BSR_MAX] = add_max};
enum { SCORES = sizeof adders / sizeof *adders };

typedef struct scoring {
  const lo_bsr_shape *shape;
  double (*add)(double, double);
  double *scores;
} scoring;

static layerops_status score_strip(void *arg, const lo_bsr_strip *strip) {
  const scoring *s = arg;
  const int64_t cols = s->shape->cols, width = s->shape->width;
  for (int64_t i = 0; i < strip->row_count; i++) {
    const float *row = strip->rows + i * cols;
    double *scores = s->scores + (strip->row + i) / s->shape->height * s->shape->block_cols;
    for (int64_t j = 0; j < cols; j++)
      scores[j / width] =
          s->add(scores[j / width], isnan(row[j]) ? INFINITY : fabs((double)row[j]));
  }
  return LAYEROPS_OK;
}

layerops_status lo_bsr_scores(const char *function, layerops_context *ctx,
                              const lo_bsr_shape *shape, const layerops_matrix *w, int32_t score,
                              double *scores) {
  const struct lo_bsr_form *form = lo_bsr_form_of(ctx, w);
  scoring s = {shape, adders[score], scores};
  const int64_t blocks = shape->block_rows * shape->block_cols;
  if (blocks) memset(scores, 0, (size_t)blocks * sizeof *scores);
  LO_TRY(form ? form->scores(ctx, shape, w, score, scores)
              : lo_bsr_strips(function, ctx, shape, w, LO_BSR_READ, score_strip, &s));
  for (int64_t i = 0; score == LAYEROPS_BSR_L2 && i < blocks; i++) scores[i] = sqrt(scores[i]);
  return LAYEROPS_OK;
}

/* ---- Rules: of each run of `length` neighbours `keep` of the highest scores ---- */

typedef struct ranked {
  double score;
  int64_t block;
} ranked;

/* No two are equal, so the order does not depend on how they are sorted. */
static int by_rank(const void *left, const void *right) {
  const ranked *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->block < b->block ? -1 : 1;
}

static int64_t share(double density, int64_t blocks) {
  return (int64_t)floor(density * (double)blocks + 0.5);
}

static int64_t kept_of(const layerops_bsr_prune_args *a, int64_t length) {
  if (a->rule == LAYEROPS_BSR_N_OF_M) return a->n < length ? a->n : length;
  return share(a->density, length);
}

static void keep_best(const layerops_bsr_prune_args *a, const double *scores, int64_t begin,
                      int64_t end, ranked *list) {
  const int64_t length = end - begin, kept = kept_of(a, length);
  for (int64_t i = 0; i < length; i++) list[i] = (ranked){scores[begin + i], begin + i};
  qsort(list, (size_t)length, sizeof *list, by_rank);
  for (int64_t i = 0; i < kept; i++) a->mask[list[i].block] = 1;
}

/* Runs begin anew in each of `rows` lines of `cols` blocks. */
static layerops_status keep_runs(const layerops_bsr_prune_args *a, const double *scores,
                                 int64_t rows, int64_t cols, int64_t length) {
  if (length > cols) length = cols;
  ranked *list = lo_bsr_memory(length, sizeof *list);
  if (!list) return lo_bsr_no_memory("bsr_prune");
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c += length)
      keep_best(a, scores, r * cols + c, r * cols + (cols - c < length ? cols : c + length), list);
  free(list);
  return LAYEROPS_OK;
}

static layerops_status choose(const layerops_bsr_prune_args *a, const lo_bsr_shape *shape,
                              const double *scores) {
  const int64_t rows = shape->block_rows, cols = shape->block_cols, blocks = rows * cols;
  if (blocks) memset(a->mask, 0, (size_t)blocks);
  switch (a->rule) {
  case LAYEROPS_BSR_DENSITY:
    return keep_runs(a, scores, 1, blocks, blocks);
  case LAYEROPS_BSR_ROW_DENSITY:
    return keep_runs(a, scores, rows, cols, cols);
  case LAYEROPS_BSR_N_OF_M:
    return keep_runs(a, scores, rows, cols, a->m);
  default:
    for (int64_t i = 0; i < blocks; i++) a->mask[i] = scores[i] >= a->threshold;
    return LAYEROPS_OK;
  }
}

/* ---- The public function ---- */

static layerops_status check(lo_door *door, const layerops_bsr_prune_args *a) {
  static const char *const rules[] = {[LAYEROPS_BSR_DENSITY] = "DENSITY",
                                      [LAYEROPS_BSR_ROW_DENSITY] = "ROW_DENSITY",
                                      [LAYEROPS_BSR_N_OF_M] = "N_OF_M",
                                      [LAYEROPS_BSR_THRESHOLD] = "THRESHOLD"};
  LO_TRY(lo_door_one_of(door, "score", a->score, SCORES));
  LO_TRY(lo_door_one_of(door, "rule", a->rule, sizeof rules / sizeof *rules));
  const bool n_of_m = a->rule == LAYEROPS_BSR_N_OF_M, threshold = a->rule == LAYEROPS_BSR_THRESHOLD;
  const lo_bsr_number numbers[] = {
      {"density", !n_of_m && !threshold, a->density, 0, 1},
      {"threshold", threshold, a->threshold, 0, INFINITY},
      {"m", n_of_m, (double)a->m, 1, INT64_MAX},
      {"n", n_of_m, (double)a->n, 0, (double)a->m},
  };
  return lo_bsr_check_numbers(door->function, rules[a->rule], numbers,
                              sizeof numbers / sizeof *numbers);
}

layerops_status layerops_bsr_prune_(layerops_context *ctx, const layerops_bsr_prune_args *args,
                                    size_t size) {
  static const char name[] = "bsr_prune";
  lo_door door;
  layerops_bsr_prune_args a;
  lo_bsr_shape shape;
  LO_TRY(lo_door_enter(&door, ctx, name));
  LO_TRY(lo_not_recording(ctx, name));
  LO_TRY(lo_copy_args(name, &a, sizeof a, args, size));
  LO_TRY(lo_bsr_door_dense(&door, &a.w, LO_IN, a.block, a.width, &shape));
  LO_TRY(check(&door, &a));
  const int64_t blocks = shape.block_rows * shape.block_cols;
  if (!a.mask && blocks) return lo_door_refuse(&door, LAYEROPS_ERROR_INVALID, "mask is NULL");
  double *scores = lo_bsr_memory(blocks, sizeof *scores);
  if (!scores) return lo_bsr_no_memory(name);
  layerops_status status = lo_bsr_scores(name, ctx, &shape, &a.w, a.score, scores);
  if (status == LAYEROPS_OK) status = choose(&a, &shape, scores);
  free(scores);
  return status;
}
