/* The passes of a step of training, each cut among tasks by units that stay with their task. */
#include <config.h>

#include <string.h>

#include "backends/cpu/train.h"

/* ---- Pieces ---- */

/* Panel q of n columns. */
typedef struct panel {
  int64_t q, first, columns, whole; /* in whole vectors */
  int vectors;
} panel;

static panel panel_at(const lo_train *t, int64_t n, int64_t q) {
  const int64_t lanes = t->isa->product->lanes;
  panel p = {.q = q, .first = q * t->panel};
  p.columns = lo_least(t->panel, n - p.first);
  p.vectors = (int)lo_cuts(p.columns, lanes);
  p.whole = p.vectors * lanes;
  return p;
}

/* A tile of any height, as tiles of nearly equal height that the microkernels have. */
static void run_tiles(const lo_train *t, int layout, int64_t rows, int vectors, lo_tile tile) {
  const lo_microkernels *mk = t->isa->product;
  const int64_t tiles = lo_cuts(rows, mk->rows[vectors - 1]), height = rows / tiles;
  const lo_microkernel *run = mk->run[layout][vectors - 1];
  tile.tiles = rows % tiles;
  if (tile.tiles) run[height](&tile);
  tile.tiles = tiles - rows % tiles;
  run[height - 1](&tile);
}

/* c[r][j] = row r of x times row j of w, for any number of both. */
static void run_dots(const lo_train *t, int64_t rows, int64_t columns, lo_dot_tile all) {
  const lo_microkernels *mk = t->isa->product;
  const int64_t groups = lo_cuts(columns, mk->dot_columns);
  for (int64_t g = 0; g < groups; g++) {
    int64_t j, j_end;
    lo_share(columns, groups, g, &j, &j_end);
    const lo_dot_kernel *run = mk->dot[j_end - j - 1];
    const int64_t tiles = lo_cuts(rows, mk->dot_rows[j_end - j - 1]);
    const int64_t least_rows = rows / tiles, taller = rows % tiles;
    lo_dot_tile tile = all;
    tile.w += j * all.w_row;
    tile.c += j;
    for (int64_t s = 0; s < tiles; s++) {
      const int64_t height = least_rows + (s < taller);
      run[height - 1](&tile);
      tile.x += height * tile.x_row;
      tile.c += height * tile.c_row;
    }
  }
}

/* ---- Forward ---- */

static void activate(const lo_train *t, const lo_train_layer *l, int64_t i, int64_t rows,
                     const panel *p) {
  const lo_epoch *e = t->epoch;
  const int64_t at = p->q * l->step + i * t->panel, count = rows * t->panel;
  t->isa->activate(e->activation, (float)e->slope, l->preact + at, l->y + at, count);
}

static void forward_tile(const lo_train *t, const lo_train_layer *l, const lo_train_batch *b,
                         int64_t i, int64_t rows, int64_t q) {
  const lo_microkernels *mk = t->isa->product;
  const panel p = panel_at(t, l->out, q);
  const layerops_activation kind = t->epoch->activation;
  const lo_segment segment = {b->x, l->w + q * l->next, l->in};
  lo_tile tile = {.list = &segment,
                  .count = 1,
                  .tiles = 1,
                  .x_rows = b->x_rows,
                  .x_first = t->scattered ? i : i * b->row,
                  .x_row = b->row,
                  .w_step = t->panel,
                  .c = l->preact + q * l->step + i * t->panel,
                  .c_row = t->panel,
                  .columns = p.whole,
                  .bias = l->bias + p.first,
                  .relu = kind == LAYEROPS_RELU};
  const int layout = t->scattered ? LO_SCATTERED : LO_ROW_MAJOR;
  mk->run[layout][p.vectors - 1][rows - 1](&tile);
  if (kind != LAYEROPS_RELU && kind != LAYEROPS_IDENTITY) activate(t, l, i, rows, &p);
}

/* As many panels as stay in L2 at a time; a slab of X stays in L1 while they pass. */
static void forward_panels(const lo_train *t, const lo_train_layer *l, const lo_train_batch *b,
                           int64_t task) {
  const int64_t size = l->in * t->panel * (int64_t)sizeof(float);
  const int64_t group = lo_most(1, t->caches.l2 / 2 / size);
  const int64_t tiles = lo_cuts(b->rows, t->isa->product->rows[t->vectors - 1]);
  int64_t begin, end;
  lo_share(l->panels, t->tasks, task, &begin, &end);
  for (; begin < end; begin += group)
    for (int64_t s = 0; s < tiles; s++) {
      int64_t i, i_end;
      lo_share(b->rows, tiles, s, &i, &i_end);
      for (int64_t q = begin; q < lo_least(begin + group, end); q++)
        forward_tile(t, l, b, i, i_end - i, q);
    }
}

static void forward_rows(const lo_train *t, const lo_train_layer *l, const lo_train_layer *below,
                         int64_t rows, int64_t task) {
  int64_t begin, end;
  lo_share(l->panels, t->tasks, task, &begin, &end);
  for (; begin < end; begin++) {
    const panel p = panel_at(t, l->out, begin);
    float *z = l->preact + begin * l->step;
    run_dots(t, rows, p.columns,
             (lo_dot_tile){.x = below->y,
                           .w = l->w + p.first * t->panel,
                           .x_row = t->panel,
                           .w_row = t->panel,
                           .k = l->in,
                           .part = t->panel,
                           .x_next = below->step,
                           .w_next = l->next,
                           .c = z,
                           .c_row = t->panel});
    for (int64_t r = 0; r < rows; r++) t->isa->add(l->bias + p.first, z + r * t->panel, p.columns);
    if (t->epoch->activation != LAYEROPS_IDENTITY) activate(t, l, 0, rows, &p);
  }
}

void lo_train_forward(const lo_train *t, int64_t i, const lo_train_batch *batch, int64_t task) {
  const lo_train_layer *l = &t->layer[i];
  if (i == 0)
    forward_panels(t, l, batch, task);
  else
    forward_rows(t, l, l - 1, batch->rows, task);
}

/* ---- Loss ---- */

/* What a layer multiplies: element (r, j) of panel q at x + r * row + q * next + j. */
typedef struct input {
  const float *x;
  int64_t row, next;
} input;

static input input_of(const lo_train *t, int64_t i) {
  const lo_train_layer *below = &t->layer[i - 1];
  if (i == 0) return (input){t->batch.x, t->batch.row, t->panel};
  return (input){below->y, t->panel, below->step};
}

void lo_train_loss(const lo_train *t, int64_t task) {
  const lo_train_layer *l = &t->layer[t->layers - 1];
  const input x = input_of(t, t->layers - 1);
  int64_t g, end;
  lo_share(lo_cuts(t->batch.rows, LO_TRAIN_GROUP), t->tasks, task, &g, &end);
  for (; g < end; g++) {
    const int64_t first = g * LO_TRAIN_GROUP;
    lo_softmax_loss s = {.z = l->d + g * l->step,
                         .classes = l->out,
                         .samples = lo_least(LO_TRAIN_GROUP, t->batch.rows - first),
                         .bias = l->bias,
                         .labels = t->batch.labels + first,
                         .scale = t->scale};
    run_dots(t, l->out, s.samples,
             (lo_dot_tile){.x = l->w,
                           .w = x.x + first * x.row,
                           .x_row = t->panel,
                           .w_row = x.row,
                           .k = l->in,
                           .part = t->panel,
                           .x_next = l->next,
                           .w_next = x.next,
                           .c = s.z,
                           .c_row = LO_TRAIN_GROUP});
    t->isa->softmax_loss(&s);
    t->sums[g] = (lo_train_sum){s.loss, s.correct};
  }
}

/* ---- Backward ---- */

enum { SEGMENTS = 16 };

/* A panel of D W, where D is in panels: so many of them at a time. */
static void below_panels(const lo_train *t, const lo_train_layer *l, const panel *p, float *d) {
  for (int64_t q = 0; q < l->panels; q += SEGMENTS) {
    lo_segment list[SEGMENTS];
    const int64_t count = lo_least(SEGMENTS, l->panels - q);
    for (int64_t s = 0; s < count; s++)
      list[s] = (lo_segment){l->d + (q + s) * l->step,
                             l->w + p->q * l->next + (q + s) * t->panel * t->panel,
                             lo_least(t->panel, l->out - (q + s) * t->panel)};
    run_tiles(t, LO_ROW_MAJOR, t->batch.rows, p->vectors,
              (lo_tile){.list = list,
                        .count = count,
                        .x_row = t->panel,
                        .w_step = t->panel,
                        .from = q ? d : NULL,
                        .from_row = t->panel,
                        .c = d,
                        .c_row = t->panel,
                        .columns = p->whole});
  }
}

/* The same of the last layer, whose D is in groups. */
static void below_groups(const lo_train *t, const lo_train_layer *l, const panel *p, float *d) {
  for (int64_t m = 0; m < t->batch.rows; m += LO_TRAIN_GROUP) {
    const lo_segment segment = {l->d + m / LO_TRAIN_GROUP * l->step, l->w + p->q * l->next, l->out};
    run_tiles(t, LO_K_MAJOR, lo_least(LO_TRAIN_GROUP, t->batch.rows - m), p->vectors,
              (lo_tile){.list = &segment,
                        .count = 1,
                        .x_step = LO_TRAIN_GROUP,
                        .w_step = t->panel,
                        .c = d + m * t->panel,
                        .c_row = t->panel,
                        .columns = p->whole});
  }
}

/* A panel of D below = (D W) act'. */
static void gradient_below(const lo_train *t, int64_t i, const panel *p) {
  const lo_train_layer *l = &t->layer[i], *below = l - 1;
  const lo_epoch *e = t->epoch;
  const int64_t at = p->q * below->step;
  float *d = below->d + at;
  const float *saved = layerops_activation_saves_input(e->activation) ? below->preact : below->y;
  if (i == t->layers - 1)
    below_groups(t, l, p, d);
  else
    below_panels(t, l, p, d);
  if (e->activation != LAYEROPS_IDENTITY)
    t->isa->derive(e->activation, (float)e->slope, d, saved + at, d, t->batch.rows * t->panel);
}

/* Rows of the batch that a sum over it takes before it goes to W. A constant: bits may not depend
 * on the size of a cache. */
enum { BLOCK = 128 };

/* The last layer's D, whose rows come in groups, times `count` rows of the input. */
static int64_t group_segments(const lo_train_layer *l, const float *x, int64_t row, int64_t m,
                              int64_t count, lo_segment *list) {
  int64_t s = 0;
  for (int64_t r = 0; r < count; r += LO_TRAIN_GROUP)
    list[s++] = (lo_segment){l->d + (m + r) / LO_TRAIN_GROUP * l->step, x + r * row,
                             lo_least(LO_TRAIN_GROUP, count - r)};
  return s;
}

/* A panel of inputs of W += D^T input. */
static void update_columns(const lo_train *t, int64_t i, const panel *p) {
  const lo_train_layer *l = &t->layer[i];
  const input in = input_of(t, i);
  const bool last = i == t->layers - 1;
  float *w = l->w + p->q * l->next;
  for (int64_t m = 0; m < t->batch.rows; m += BLOCK) {
    const int64_t count = lo_least(BLOCK, t->batch.rows - m);
    const float *x = in.x + m * in.row + p->q * in.next;
    lo_segment list[BLOCK / LO_TRAIN_GROUP];
    lo_tile tile = {.list = list,
                    .w_step = in.row,
                    .from_row = t->panel,
                    .c_row = t->panel,
                    .columns = p->columns,
                    .late = true};
    if (last) {
      tile.count = group_segments(l, x, in.row, m, count, list);
      tile.x_row = LO_TRAIN_GROUP;
      tile.from = tile.c = w;
      run_tiles(t, LO_ROW_MAJOR, l->out, p->vectors, tile);
      continue;
    }
    tile.count = 1;
    tile.x_step = t->panel;
    for (int64_t q = 0; q < l->panels; q++) {
      const int64_t first = q * t->panel;
      list[0] = (lo_segment){l->d + q * l->step + m * t->panel, x, count};
      tile.from = tile.c = w + first * t->panel;
      run_tiles(t, LO_K_MAJOR, lo_least(t->panel, l->out - first), p->vectors, tile);
    }
  }
}

/* `count` samples from m on times their D: scattered samples are segments of one k each. */
static int64_t sample_segments(const lo_train *t, const float *d, int64_t m, int64_t count,
                               lo_segment *list) {
  const lo_train_batch *b = &t->batch;
  d += m * t->panel;
  if (!t->scattered) {
    list[0] = (lo_segment){b->x + m * b->row, d, count};
    return 1;
  }
  for (int64_t r = 0; r < count; r++) list[r] = (lo_segment){b->x_rows[m + r], d + r * t->panel, 1};
  return count;
}

/* A panel of the first layer: W^T += X^T D. */
static void update_panel(const lo_train *t, const lo_train_layer *l, const panel *p) {
  float *w = l->w + p->q * l->next;
  lo_segment list[BLOCK];
  for (int64_t m = 0; m < t->batch.rows; m += BLOCK)
    run_tiles(t, LO_K_MAJOR, l->in, p->vectors,
              (lo_tile){.list = list,
                        .count = sample_segments(t, l->d + p->q * l->step, m,
                                                 lo_least(BLOCK, t->batch.rows - m), list),
                        .x_step = t->batch.row,
                        .w_step = t->panel,
                        .from = w,
                        .from_row = t->panel,
                        .c = w,
                        .c_row = t->panel,
                        .columns = p->whole,
                        .late = true});
}

/* bias += the columns of D: a row of ones times D; in groups, D transposed times ones. */
static void update_bias(const lo_train *t, const lo_train_layer *l, const panel *p, bool last) {
  float *bias = l->bias + p->first;
  if (last) {
    run_dots(t, p->columns, 1,
             (lo_dot_tile){.x = l->d + p->first * LO_TRAIN_GROUP,
                           .w = t->ones,
                           .x_row = LO_TRAIN_GROUP,
                           .k = t->batch.rows,
                           .part = LO_TRAIN_GROUP,
                           .x_next = l->step,
                           .w_next = LO_TRAIN_GROUP,
                           .c = t->column + p->first,
                           .c_row = 1});
    t->isa->add(t->column + p->first, bias, p->columns);
    return;
  }
  const lo_segment segment = {t->ones, l->d + p->q * l->step, t->batch.rows};
  run_tiles(t, LO_ROW_MAJOR, 1, p->vectors,
            (lo_tile){.list = &segment,
                      .count = 1,
                      .w_step = t->panel,
                      .from = bias,
                      .c = bias,
                      .columns = p->whole,
                      .late = true});
}

void lo_train_backward(const lo_train *t, int64_t i, int64_t task) {
  const lo_train_layer *l = &t->layer[i];
  const bool panels = i == 0 && t->layers > 1;
  int64_t q, end;
  lo_share(lo_cuts(l->in, t->panel), t->tasks, task, &q, &end);
  for (; q < end && !panels; q++) {
    const panel p = panel_at(t, l->in, q);
    if (i) gradient_below(t, i, &p);
    update_columns(t, i, &p);
  }
  lo_share(l->panels, t->tasks, task, &q, &end);
  for (; q < end; q++) {
    const panel p = panel_at(t, l->out, q);
    if (panels) update_panel(t, l, &p);
    update_bias(t, l, &p, i == t->layers - 1);
  }
}

/* ---- Samples ---- */

void lo_train_gather(const lo_train *t, int64_t task) {
  const lo_epoch *e = t->epoch;
  const lo_train_batch *b = &t->next;
  const int32_t *labels = lo_address(&e->labels);
  const int32_t *order = lo_present(&e->order) ? lo_address(&e->order) : NULL;
  int64_t r, end;
  lo_share(b->rows, t->tasks, task, &r, &end);
  for (; r < end; r++) {
    const int64_t from = order ? order[b->first + r] : b->first + r;
    const float *x = (const float *)lo_address(&e->x) + from * e->x.stride;
    b->labels[r] = labels[from];
    if (t->scattered) b->x_rows[r] = x;
    if (t->copies) memcpy((float *)b->x + r * b->row, x, (size_t)e->x.cols * sizeof *x);
  }
}
