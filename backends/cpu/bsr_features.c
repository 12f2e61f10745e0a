/* Output features on the vector lanes, for blocks that fill vectors, or where there are too few
 * samples to: samples are read where they stand. Forward a line's blocks are packed, transposed;
 * backward they stand as they are needed. */
#include <config.h>

#include "backends/cpu/bsr.h"

enum { ROWS = 8 };   /* of a tile: more samples, some pages apart, evict each other from L1 */
enum { STAGE = 64 }; /* samples whose sums are collected, where something follows */

typedef struct job {
  const lo_bsr_product *p;
  int64_t panel, panels; /* features on the lanes, and how often a line has so many */
  int64_t row_cuts, line_cuts;
  int64_t list_floats, task_floats;
  float *scratch; /* of a task: sums, the lists of a line, packed blocks */
} job;

/* ---- A line ---- */

/* The list of each panel, one after the other; returns how many blocks a list has. */
static int64_t list_line(const job *t, int64_t line, float *packed, lo_segment *list) {
  const lo_bsr_product *p = t->p;
  const int32_t *start = lo_bsr_start(p);
  const int64_t row = p->w->width, longest = lo_bsr_longest(p);
  const float *in = (const float *)(const void *)p->in.base;
  int64_t count = 0;
  for (int64_t e = start[line]; !p->empty && e < start[line + 1]; e++) {
    lo_bsr_step step;
    if (!lo_bsr_step_of(p, e, &step)) continue;
    for (int64_t q = 0; q < t->panels; q++) {
      const float *w = p->values + step.place + q * t->panel;
      if (!p->backward) {
        p->isa->transpose(p->values + step.place + q * t->panel * row, row, packed, t->panel,
                          t->panel, row);
        w = packed;
        packed += row * t->panel;
      }
      list[q * longest + count] = (lo_segment){in + step.from, w, step.k};
    }
    count++;
  }
  return count;
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
               lo_bsr_split_of(rows, lo_least(mk->rows[vector], ROWS)), &tile);
  if (!p->plain) p->isa->finish(&p->finish, sums, t->panel, i, j, rows, columns);
}

static void run_line(const job *t, int64_t line, int64_t i, int64_t i_end, float *memory) {
  const lo_bsr_product *p = t->p;
  const int64_t longest = lo_bsr_longest(p), first = line * lo_bsr_width(p);
  const int64_t outputs = lo_bsr_outputs(p, line), stage = p->plain ? i_end - i : STAGE;
  lo_segment *list = (lo_segment *)(void *)(memory + STAGE * t->panel);
  const int64_t count = list_line(t, line, memory + STAGE * t->panel + t->list_floats, list);
  for (; i < i_end; i += stage)
    for (int64_t q = 0; q * t->panel < outputs; q++)
      run_panel(t, first + q * t->panel, lo_least(t->panel, outputs - q * t->panel), i,
                lo_least(stage, i_end - i), list + q * longest, count, memory);
}

/* ---- Tasks ---- */

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t part = task % t->line_cuts;
  const int64_t end = lo_bsr_first_line(t->p, part + 1, t->line_cuts);
  int64_t i, i_end;
  lo_share(t->p->m, t->row_cuts, task / t->line_cuts, &i, &i_end);
  for (int64_t line = lo_bsr_first_line(t->p, part, t->line_cuts); line < end; line++)
    run_line(t, line, i, i_end, t->scratch + task * t->task_floats);
}

/* By lines, which packs nothing twice, unless one of them is more than a part. */
static job cut(const lo_bsr_product *p) {
  const lo_microkernels *mk = p->isa->product;
  const int64_t width = lo_bsr_width(p), threads = lo_most(p->threads, 1);
  job t = {.p = p, .panel = lo_least(width, mk->lanes * mk->vectors)};
  t.panels = width / t.panel;
  t.line_cuts = lo_bsr_divides(p, threads) ? threads : 1;
  t.row_cuts = lo_least(threads / t.line_cuts, p->m);
  const int64_t blocks = lo_bsr_longest(p);
  t.list_floats = lo_bsr_list_floats(p, t.panels);
  t.task_floats = STAGE * t.panel + t.list_floats;
  if (!p->backward) t.task_floats += lo_round_up(blocks * p->w->height * p->w->width, 16);
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
