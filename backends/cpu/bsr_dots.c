/* Few samples, forward: rows of W as they stand against samples whose blocks are copied together,
 * by dot tiles. Nothing of W is packed, and no lane is idle; the order of additions is another one,
 * which depends on the pattern alone. */
#include <config.h>

#include <string.h>

#include "backends/cpu/bsr.h"

enum { SAMPLES = 8, OUTPUTS = 128 };

typedef struct job {
  const lo_bsr_product *p;
  int64_t cuts;
  int64_t task_floats;
  float *scratch;
} job;

/* The input of a line's blocks, [sample][block][width]; 0 where a gate is, and outside of W. */
static void gather(const lo_bsr_product *p, int64_t line, float *to) {
  const int32_t *start = lo_bsr_start(p);
  const int64_t width = p->w->width, row = (start[line + 1] - start[line]) * width;
  const float *in = (const float *)(const void *)p->in.base;
  for (int64_t e = start[line]; e < start[line + 1]; e++, to += width) {
    lo_bsr_step step;
    const int64_t k = lo_bsr_step_of(p, e, &step) ? step.k : 0;
    for (int64_t i = 0; i < p->m; i++) {
      memcpy(to + i * row, in + i * p->in.stride + step.from, (size_t)k * sizeof *to);
      if (k < width) memset(to + i * row + k, 0, (size_t)(width - k) * sizeof *to);
    }
  }
}

/* A line: its values, and the samples that were gathered for it, rows of k. */
typedef struct line_dots {
  const float *w, *x;
  int64_t outputs, k, width, area;
  float *sums; /* [sample][OUTPUTS] */
} line_dots;

/* One sample: tiles of outputs, which read more of a block at once. */
static void run_one(const lo_microkernels *mk, const line_dots *l) {
  const int64_t tiles = lo_cuts(l->outputs, mk->dot_rows[0]);
  for (int64_t u = 0; u < tiles; u++) {
    int64_t begin, end;
    lo_share(l->outputs, tiles, u, &begin, &end);
    const lo_dot_tile tile = {.x = l->w + begin * l->width,
                              .w = l->x,
                              .x_row = l->width,
                              .w_row = l->k,
                              .k = l->k,
                              .part = l->width,
                              .x_next = l->area,
                              .w_next = l->width,
                              .c = l->sums + begin,
                              .c_row = 1};
    mk->dot[0][end - begin - 1](&tile);
  }
}

static void run_some(const lo_microkernels *mk, const line_dots *l, int64_t samples) {
  const int64_t most = lo_least(mk->dot_columns, 4); /* sums of 4 are added up together */
  for (int64_t j = 0; j < l->outputs; j += most) {
    const int64_t columns = lo_least(most, l->outputs - j);
    const int64_t tiles = lo_cuts(samples, mk->dot_rows[columns - 1]);
    for (int64_t u = 0; u < tiles; u++) {
      int64_t begin, end;
      lo_share(samples, tiles, u, &begin, &end);
      const lo_dot_tile tile = {.x = l->x + begin * l->k,
                                .w = l->w + j * l->width,
                                .x_row = l->k,
                                .w_row = l->width,
                                .k = l->k,
                                .part = l->width,
                                .x_next = l->width,
                                .w_next = l->area,
                                .c = l->sums + begin * OUTPUTS + j,
                                .c_row = OUTPUTS};
      mk->dot[columns - 1][end - begin - 1](&tile);
    }
  }
}

static void run_line(const lo_bsr_product *p, int64_t line, float *gathered) {
  const int32_t *start = lo_bsr_start(p);
  const int64_t width = p->w->width, area = p->w->height * width;
  float sums[SAMPLES * OUTPUTS] __attribute__((aligned(64)));
  const line_dots l = {.w = p->values + start[line] * area,
                       .x = gathered,
                       .outputs = lo_bsr_outputs(p, line),
                       .k = p->empty ? 0 : (start[line + 1] - start[line]) * width,
                       .width = width,
                       .area = area,
                       .sums = sums};
  if (l.k) gather(p, line, gathered);
  if (p->m == 1)
    run_one(p->isa->product, &l);
  else
    run_some(p->isa->product, &l, p->m);
  for (int64_t j = 0; j < l.outputs; j += LO_MAX_PANEL)
    p->isa->finish(&p->finish, sums + j, OUTPUTS, 0, line * p->w->height + j, p->m,
                   lo_least(LO_MAX_PANEL, l.outputs - j));
}

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t end = lo_bsr_first_line(t->p, task + 1, t->cuts);
  for (int64_t line = lo_bsr_first_line(t->p, task, t->cuts); line < end; line++)
    run_line(t->p, line, t->scratch + task * t->task_floats);
}

static job cut(const lo_bsr_product *p) {
  return (job){.p = p,
               .cuts = lo_most(p->threads, 1),
               .task_floats = lo_round_up(p->m * lo_bsr_longest(p) * p->w->width, 16)};
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
