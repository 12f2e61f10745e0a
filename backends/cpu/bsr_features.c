/* Output features on the vector lanes, for blocks that fill vectors, or where there are too few
 * samples to: samples are read where they stand. Forward a line's blocks are packed, transposed;
 * backward they stand as they are needed. */
#include <config.h>

#include "backends/cpu/bsr.h"

enum { STRIPE = 64 };       /* samples that all lines of a group pass over in turn */
enum { GROUP = 1 << 16 };   /* floats of a group's blocks, which stay in L2 meanwhile */
enum { LINES = 32 };        /* of a group at most */
enum { SAME_SET_ROWS = 8 }; /* more rows, pages apart, evict each other from L1 */

typedef struct job {
  const lo_bsr_product *p;
  int64_t panel, panels; /* features on the lanes, and how often a line has so many */
  int64_t rows;          /* of a tile at most */
  int64_t blocks;        /* of a group at most */
  int64_t row_cuts, line_cuts;
  int64_t list_floats, task_floats;
  float *scratch; /* of a task: sums, the lists of a group, packed blocks */
} job;

/* Lines one after the other. A line has a list for each of its panels. */
typedef struct group {
  int64_t first, end;
  lo_segment *lists[LINES];
  int64_t counts[LINES]; /* segments of a list */
} group;

/* ---- A group ---- */

/* The panels of a block: forward they are packed, at *packed. */
static void list_block(const job *t, const lo_bsr_step *step, lo_segment *list, int64_t longest,
                       float **packed) {
  const lo_bsr_product *p = t->p;
  const int64_t row = p->w->width;
  const float *in = (const float *)(const void *)p->in.base;
  for (int64_t q = 0; q < t->panels; q++) {
    const float *w = p->values + step->place + q * t->panel;
    if (!p->backward) {
      p->isa->transpose(p->values + step->place + q * t->panel * row, row, *packed, t->panel,
                        t->panel, row);
      w = *packed;
      *packed += row * t->panel;
    }
    list[q * longest] = (lo_segment){in + step->from, w, step->k};
  }
}

/* As many lines from g->first as have room. */
static void list_group(const job *t, int64_t end, lo_segment *list, float *packed, group *g) {
  const lo_bsr_product *p = t->p;
  const int32_t *start = lo_bsr_start(p);
  const int64_t most = start[g->first] + t->blocks;
  for (g->end = g->first; g->end < end && g->end - g->first < LINES; g->end++) {
    const int64_t line = g->end, longest = start[line + 1] - start[line];
    int64_t count = 0;
    if (start[line + 1] > most) return;
    for (int64_t e = start[line]; !p->empty && e < start[line + 1]; e++) {
      lo_bsr_step step;
      if (lo_bsr_step_of(p, e, &step)) list_block(t, &step, list + count++, longest, &packed);
    }
    g->lists[line - g->first] = list;
    g->counts[line - g->first] = count;
    list += t->panels * longest;
  }
}

/* Samples [i, i + rows) of a panel. */
static void run_panel(const job *t, int64_t j, int64_t columns, int64_t i, int64_t rows,
                      const lo_segment *list, int64_t count, float *sums) {
  const lo_bsr_product *p = t->p;
  const lo_microkernels *mk = p->isa->product;
  const lo_plane *c = &p->finish.c;
  const int64_t vector = (columns - 1) >> mk->lane_bits;
  lo_tile tile = {.list = list,
                  .count = count,
                  .x_first = i * p->in.stride,
                  .x_row = p->in.stride,
                  .w_step = p->backward ? p->w->width : t->panel,
                  .c = p->plain ? (float *)(void *)c->base + i * c->stride + j : sums,
                  .c_row = p->plain ? c->stride : t->panel,
                  .columns = columns};
  lo_bsr_tiles(mk->run[LO_ROW_MAJOR][vector],
               lo_bsr_split_of(rows, lo_least(mk->rows[vector], t->rows)), &tile);
  if (!p->plain) p->isa->finish(&p->finish, sums, t->panel, i, j, rows, columns);
}

static void run_line(const job *t, const group *g, int64_t line, int64_t i, int64_t rows,
                     float *sums) {
  const lo_bsr_product *p = t->p;
  const int32_t *start = lo_bsr_start(p);
  const int64_t outputs = lo_bsr_outputs(p, line), longest = start[line + 1] - start[line];
  for (int64_t q = 0; q * t->panel < outputs; q++)
    run_panel(t, line * lo_bsr_width(p) + q * t->panel, lo_least(t->panel, outputs - q * t->panel),
              i, rows, g->lists[line - g->first] + q * longest, g->counts[line - g->first], sums);
}

static void run_group(const job *t, const group *g, int64_t i, int64_t i_end, float *sums) {
  for (; i < i_end; i += STRIPE)
    for (int64_t line = g->first; line < g->end; line++)
      run_line(t, g, line, i, lo_least(STRIPE, i_end - i), sums);
}

/* ---- Tasks ---- */

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t part = task % t->line_cuts;
  const int64_t end = lo_bsr_first_line(t->p, part + 1, t->line_cuts);
  float *sums = t->scratch + task * t->task_floats, *list = sums + STRIPE * t->panel;
  group g;
  int64_t i, i_end;
  lo_share(t->p->m, t->row_cuts, task / t->line_cuts, &i, &i_end);
  for (g.first = lo_bsr_first_line(t->p, part, t->line_cuts); g.first < end; g.first = g.end) {
    list_group(t, end, (lo_segment *)(void *)list, list + t->list_floats, &g);
    run_group(t, &g, i, i_end, sums);
  }
}

static int64_t rows_of(const lo_bsr_product *p) {
  enum { PAGE = 1024 }; /* floats */
  return p->in.stride % PAGE ? LO_MAX_TILE_ROWS : SAME_SET_ROWS;
}

/* By lines, which packs nothing twice, unless one of them is more than a part. */
static job cut(const lo_bsr_product *p) {
  const lo_microkernels *mk = p->isa->product;
  const int64_t width = lo_bsr_width(p), threads = lo_most(p->threads, 1);
  const int64_t area = p->w->height * p->w->width;
  job t = {.p = p, .panel = lo_least(width, mk->lanes * mk->vectors), .rows = rows_of(p)};
  t.panels = width / t.panel;
  t.line_cuts = lo_bsr_divides(p, threads) ? threads : 1;
  t.row_cuts = lo_least(threads / t.line_cuts, p->m);
  t.blocks = lo_most(lo_bsr_longest(p), GROUP / area);
  t.list_floats =
      lo_round_up(t.panels * t.blocks * (int64_t)sizeof(lo_segment), 64) / (int64_t)sizeof(float);
  t.task_floats = STRIPE * t.panel + t.list_floats;
  if (!p->backward) t.task_floats += lo_round_up(t.blocks * area, 16);
  return t;
}

static int64_t scratch(const lo_bsr_product *p) {
  const job t = cut(p);
  return t.row_cuts * t.line_cuts * t.task_floats;
}

static void run(layerops_context *ctx, const lo_bsr_product *p, float *memory) {
  job t = cut(p);
  t.scratch = memory;
  lo_parallel(ctx, t.row_cuts * t.line_cuts, run_task, &t);
}

static const char *refuses(layerops_context *ctx, const void *problem) {
  const lo_bsr_product *p = problem;
  const int64_t lanes = p->isa->product->lanes;
  (void)ctx;
  if (p->by_features) return "a row of the activations is a feature";
  if (p->in.type != LAYEROPS_F32) return "the input is not f32";
  if (lo_bsr_width(p) < lanes) return "a block does not fill a vector";
  if (lo_bsr_width(p) < 2 * lanes && p->m >= lanes)
    return "blocks of one vector: samples are better on the lanes";
  return NULL;
}

const lo_bsr_way lo_bsr_features = {{"bsr_features", refuses}, false, scratch, run};
