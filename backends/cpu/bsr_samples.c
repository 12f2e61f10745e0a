/* Samples on the vector lanes: the input's panel is X^T of some vectors of samples, [features]
 * [samples], and blocks of W are broadcast as they stand, transposed or not. Nothing of W is
 * packed, lanes are full whatever the size of blocks, and any type and layout of activations is
 * served, since they are packed anyway. */
#include <config.h>

#include <string.h>

#include "backends/cpu/bsr.h"

/* Features whose sums are collected before they leave, since a sample's lie together where they
 * go and rows of samples may be pages apart; and those that are transposed for an epilogue. */
enum { STAGE = 256, TURN = LO_MAX_PANEL };

typedef struct job {
  const lo_bsr_product *p;
  int64_t panels, panel_cuts, line_cuts;
  int64_t task_floats;
  float *scratch;
} job;

/* Of a task: the panel, the sums, some of them transposed, the list. */
typedef struct place {
  float *panel, *sums, *turned;
  lo_segment *list;
} place;

static int64_t widest(const lo_bsr_product *p) {
  return p->isa->product->lanes * p->isa->product->vectors;
}

static int64_t task_floats(const lo_bsr_product *p) {
  return (p->in_features + STAGE + TURN) * widest(p) + lo_bsr_list_floats(p, 1);
}

static place place_of(const job *t, int64_t task) {
  const lo_bsr_product *p = t->p;
  place s;
  s.panel = t->scratch + task * t->task_floats;
  s.sums = s.panel + p->in_features * widest(p);
  s.turned = s.sums + STAGE * widest(p);
  s.list = (lo_segment *)(void *)(s.turned + TURN * widest(p));
  return s;
}

/* Samples of a panel: whole vectors, but for the last. */
typedef struct stripe {
  int64_t i, rows, width;
} stripe;

static stripe stripe_of(const job *t, int64_t panel) {
  const int64_t lanes = t->p->isa->product->lanes;
  int64_t begin, end;
  lo_share(lo_cuts(t->p->m, lanes), t->panels, panel, &begin, &end);
  return (stripe){begin * lanes, lo_least(end * lanes, t->p->m) - begin * lanes,
                  (end - begin) * lanes};
}

/* ---- Packing the input ---- */

static void pack_samples(const lo_bsr_product *p, stripe s, const place *to) {
  const lo_plane *in = &p->in;
  const int64_t size = (int64_t)lo_type_bytes(in->type);
  const char *from = in->base + s.i * in->stride * size;
  if (in->type == LAYEROPS_F32) {
    p->isa->transpose((const float *)(const void *)from, in->stride, to->panel, s.width, s.rows,
                      p->in_features);
    return;
  }
  for (int64_t j = 0; j < p->in_features; j += TURN) {
    const int64_t n = lo_least(TURN, p->in_features - j);
    p->isa->load_rows(in->type, from + j * size, in->stride, to->turned, TURN, s.rows, n);
    p->isa->transpose(to->turned, TURN, to->panel + j * s.width, s.width, s.rows, n);
  }
}

static void pack(const lo_bsr_product *p, stripe s, const place *to) {
  const lo_plane *in = &p->in;
  if (p->by_features)
    p->isa->load_rows(in->type, in->base + s.i * (int64_t)lo_type_bytes(in->type), in->stride,
                      to->panel, s.width, p->in_features, s.rows);
  else
    pack_samples(p, s, to);
  for (int64_t j = 0; s.rows < s.width && j < p->in_features; j++)
    memset(to->panel + j * s.width + s.rows, 0, (size_t)(s.width - s.rows) * sizeof(float));
}

/* ---- What follows the sums ---- */

/* The bias of features in rows, and what comes before it. */
static void add_bias(const lo_bsr_product *p, const stripe *s, float *sums, int64_t j,
                     int64_t features) {
  const lo_plane *bias = &p->finish.bias;
  float values[STAGE];
  if (bias->base)
    p->isa->load(bias->type, bias->base + j * (int64_t)lo_type_bytes(bias->type), values, features);
  for (int64_t r = 0; r < features; r++) {
    float *row = sums + r * s->width;
    if (p->finish.alpha != 1.0f) p->isa->scale(row, p->finish.alpha, row, s->width);
    if (bias->base) p->isa->shift(row, -values[r], 0, row, s->width);
  }
}

static void finish_features(const lo_bsr_product *p, const stripe *s, float *sums, int64_t j,
                            int64_t features) {
  lo_finish f = p->finish;
  if (f.bias.base || f.alpha != 1.0f) add_bias(p, s, sums, j, features);
  f.alpha = 1;
  f.bias.base = NULL;
  p->isa->finish(&f, sums, s->width, j, s->i, features, s->rows);
}

static void finish_samples(const lo_bsr_product *p, const stripe *s, const place *at, int64_t j,
                           int64_t features) {
  const lo_plane *c = &p->finish.c;
  if (p->plain) {
    p->isa->transpose(at->sums, s->width, (float *)(void *)c->base + s->i * c->stride + j,
                      c->stride, features, s->rows);
    return;
  }
  for (int64_t q = 0; q < features; q += TURN) {
    const int64_t n = lo_least(TURN, features - q);
    p->isa->transpose(at->sums + q * s->width, s->width, at->turned, TURN, n, s->rows);
    p->isa->finish(&p->finish, at->turned, TURN, s->i, j + q, s->rows, n);
  }
}

/* ---- Lines ---- */

/* Where the sums of a feature go, and from there to the next one's. */
typedef struct target {
  float *at;
  int64_t row, columns;
} target;

static int64_t list_line(const lo_bsr_product *p, int64_t line, const stripe *s, const place *at) {
  const int32_t *start = lo_bsr_start(p);
  int64_t count = 0;
  for (int64_t e = start[line]; !p->empty && e < start[line + 1]; e++) {
    lo_bsr_step step;
    if (lo_bsr_step_of(p, e, &step))
      at->list[count++] =
          (lo_segment){p->values + step.place, at->panel + step.from * s->width, step.k};
  }
  return count;
}

/* The sums of features [q, q + features) of a line. */
static void run_tiles(const lo_bsr_product *p, const stripe *s, const place *at, int64_t count,
                      int64_t q, int64_t features, target to) {
  const lo_microkernels *mk = p->isa->product;
  const int64_t vector = (s->width >> mk->lane_bits) - 1, row = p->w->width;
  lo_tile tile = {.list = at->list,
                  .count = count,
                  .x_first = p->backward ? q : q * row,
                  .x_row = row,
                  .x_step = row,
                  .w_step = s->width,
                  .c = to.at,
                  .c_row = to.row,
                  .columns = to.columns};
  lo_bsr_tiles(mk->run[p->backward ? LO_K_MAJOR : LO_ROW_MAJOR][vector],
               lo_bsr_split_of(features, mk->rows[vector]), &tile);
}

/* Features in rows that need nothing more go straight to the output. */
static void run_straight(const lo_bsr_product *p, const stripe *s, const place *at, int64_t begin,
                         int64_t end) {
  const lo_plane *c = &p->finish.c;
  for (int64_t line = begin; line < end; line++) {
    const target to = {(float *)(void *)c->base + line * lo_bsr_width(p) * c->stride + s->i,
                       c->stride, s->rows};
    run_tiles(p, s, at, list_line(p, line, s, at), 0, lo_bsr_outputs(p, line), to);
  }
}

/* Sums are collected over some lines, or come from a part of a wide one. */
static void run_staged(const lo_bsr_product *p, const stripe *s, const place *at, int64_t begin,
                       int64_t end) {
  int64_t filled = 0, from = begin * lo_bsr_width(p);
  for (int64_t line = begin; line < end; line++) {
    const int64_t features = lo_bsr_outputs(p, line), count = list_line(p, line, s, at);
    for (int64_t q = 0; q < features; q += STAGE) {
      const int64_t n = lo_least(STAGE, features - q);
      run_tiles(p, s, at, count, q, n, (target){at->sums + filled * s->width, s->width, s->width});
      filled += n;
      if (filled < STAGE && !(line == end - 1 && q + n == features)) continue;
      if (p->by_features)
        finish_features(p, s, at->sums, from, filled);
      else
        finish_samples(p, s, at, from, filled);
      from += filled;
      filled = 0;
    }
  }
}

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const lo_bsr_product *p = t->p;
  const place at = place_of(t, task);
  const int64_t part = task % t->line_cuts;
  const int64_t begin = lo_bsr_first_line(p, part, t->line_cuts);
  const int64_t end = lo_bsr_first_line(p, part + 1, t->line_cuts);
  int64_t first, last;
  lo_share(t->panels, t->panel_cuts, task / t->line_cuts, &first, &last);
  for (int64_t panel = first; panel < last; panel++) {
    const stripe s = stripe_of(t, panel);
    if (!p->empty) pack(p, s, &at);
    if (p->by_features && p->plain)
      run_straight(p, &s, &at, begin, end);
    else
      run_staged(p, &s, &at, begin, end);
  }
}

/* As many panels for each thread as for the others, of two vectors at least; where there are too
 * few for all threads, lines are divided too, and panels packed more than once. */
static job cut(const lo_bsr_product *p) {
  const lo_microkernels *mk = p->isa->product;
  const int64_t units = lo_cuts(p->m, mk->lanes), threads = lo_most(p->threads, 1);
  job t = {.p = p, .panels = lo_cuts(units, mk->vectors)};
  const int64_t even = lo_round_up(t.panels, threads);
  if (2 * even <= units) t.panels = even;
  t.panel_cuts = lo_least(t.panels, threads);
  t.line_cuts = lo_most(lo_least(threads / t.panel_cuts, lo_bsr_lines(p)), 1);
  t.task_floats = task_floats(p);
  return t;
}

static int64_t scratch(const lo_bsr_product *p) {
  const job t = cut(p);
  return t.panel_cuts * t.line_cuts * t.task_floats;
}

static void run(layerops_context *ctx, const lo_bsr_product *p, float *memory) {
  job t = cut(p);
  t.scratch = memory;
  lo_parallel(ctx, t.panel_cuts * t.line_cuts, run_task, &t);
}

const lo_bsr_way lo_bsr_samples = {{"bsr_samples", NULL}, false, scratch, run};
