/* Few samples, forward: rows of W against rows of X, both as they stand, by dot tiles. Nothing is
 * packed, and no lane is idle; the order of additions is another one, which depends on the pattern
 * alone. */
#include <config.h>

#include "backends/cpu/bsr.h"

enum { SAMPLES = 8, OUTPUTS = 128 };

typedef struct job {
  const lo_bsr_product *p;
  int64_t cuts;
  int64_t task_floats;
  float *scratch; /* of a task: the list of a line */
} job;

/* The blocks of a line and what they meet. One sample takes the place of W in the tiles: these hold
 * several outputs then, which read more of a block at once. */
static int64_t list_line(const lo_bsr_product *p, int64_t line, lo_segment *list) {
  const int32_t *start = lo_bsr_start(p);
  const float *in = (const float *)(const void *)p->in.base;
  int64_t count = 0;
  for (int64_t e = start[line]; !p->empty && e < start[line + 1]; e++) {
    lo_bsr_step step;
    if (!lo_bsr_step_of(p, e, &step)) continue;
    const float *x = in + step.from, *w = p->values + step.place;
    list[count++] = p->m == 1 ? (lo_segment){w, x, step.k} : (lo_segment){x, w, step.k};
  }
  return count;
}

static void run_one(const lo_bsr_product *p, lo_dot_tile tile, int64_t outputs) {
  const lo_microkernels *mk = p->isa->product;
  const int64_t tiles = lo_cuts(outputs, mk->dot_rows[0]);
  float *sums = tile.c;
  tile.x_row = p->w->width;
  tile.c_row = 1;
  for (int64_t u = 0; u < tiles; u++) {
    int64_t begin, end;
    lo_share(outputs, tiles, u, &begin, &end);
    tile.x_first = begin * tile.x_row;
    tile.c = sums + begin;
    mk->dot[0][end - begin - 1](&tile);
  }
}

static void run_some(const lo_bsr_product *p, lo_dot_tile tile, int64_t outputs) {
  const lo_microkernels *mk = p->isa->product;
  const int64_t most = lo_least(mk->dot_columns, 4); /* sums of 4 are added up together */
  float *sums = tile.c;
  tile.x_row = p->in.stride;
  tile.w_row = p->w->width;
  tile.c_row = OUTPUTS;
  for (int64_t j = 0; j < outputs; j += most) {
    const int64_t columns = lo_least(most, outputs - j);
    const int64_t tiles = lo_cuts(p->m, mk->dot_rows[columns - 1]);
    for (int64_t u = 0; u < tiles; u++) {
      int64_t begin, end;
      lo_share(p->m, tiles, u, &begin, &end);
      tile.x_first = begin * tile.x_row;
      tile.w_first = j * tile.w_row;
      tile.c = sums + begin * OUTPUTS + j;
      mk->dot[columns - 1][end - begin - 1](&tile);
    }
  }
}

static void run_line(const lo_bsr_product *p, int64_t line, lo_segment *list) {
  const int64_t outputs = lo_bsr_outputs(p, line);
  float sums[SAMPLES * OUTPUTS] __attribute__((aligned(64)));
  const lo_dot_tile tile = {.list = list, .count = list_line(p, line, list), .c = sums};
  if (p->m == 1)
    run_one(p, tile, outputs);
  else
    run_some(p, tile, outputs);
  for (int64_t j = 0; j < outputs; j += LO_MAX_PANEL)
    p->isa->finish(&p->finish, sums + j, OUTPUTS, 0, line * p->w->height + j, p->m,
                   lo_least(LO_MAX_PANEL, outputs - j));
}

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t end = lo_bsr_first_line(t->p, task + 1, t->cuts);
  for (int64_t line = lo_bsr_first_line(t->p, task, t->cuts); line < end; line++)
    run_line(t->p, line, (lo_segment *)(void *)(t->scratch + task * t->task_floats));
}

static job cut(const lo_bsr_product *p) {
  return (job){.p = p, .cuts = lo_most(p->threads, 1), .task_floats = lo_bsr_list_floats(p, 1)};
}

static int64_t scratch(const lo_bsr_product *p) {
  const job t = cut(p);
  return t.cuts * t.task_floats;
}

static void run(layerops_context *ctx, const lo_bsr_product *p, float *memory) {
  job t = cut(p);
  t.scratch = memory;
  lo_parallel(ctx, t.cuts, run_task, &t);
}

static const char *refuses(layerops_context *ctx, const void *problem) {
  const lo_bsr_product *p = problem;
  (void)ctx;
  if (p->backward) return "backward, rows of w are not what is summed over";
  if (p->by_features) return "a row of the activations is a feature";
  if (p->in.type != LAYEROPS_F32) return "the input is not f32";
  if (p->invariant) return "the call asks for batch invariance";
  if (p->m > SAMPLES) return "so many samples fill vectors";
  return NULL;
}

const lo_bsr_way lo_bsr_dots = {{"bsr_dots", refuses}, false, scratch, run};
