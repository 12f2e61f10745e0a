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

static void run_line(const lo_bsr_product *p, int64_t line, float *gathered) {
  const lo_microkernels *mk = p->isa->product;
  const int32_t *start = lo_bsr_start(p);
  const int64_t width = p->w->width, area = p->w->height * width;
  const int64_t outputs = lo_bsr_outputs(p, line);
  const int64_t k = p->empty ? 0 : (start[line + 1] - start[line]) * width;
  float sums[SAMPLES * OUTPUTS] __attribute__((aligned(64)));
  if (k) gather(p, line, gathered);
  const int64_t most = lo_least(mk->dot_columns, 4); /* sums of 4 are added up together */
  for (int64_t j = 0; j < outputs; j += most) {
    const int64_t columns = lo_least(most, outputs - j);
    const int64_t tiles = lo_cuts(p->m, mk->dot_rows[columns - 1]);
    for (int64_t u = 0; u < tiles; u++) {
      int64_t begin, end;
      lo_share(p->m, tiles, u, &begin, &end);
      const lo_dot_tile tile = {.x = gathered + begin * k,
                                .w = p->values + start[line] * area + j * width,
                                .x_row = k,
                                .w_row = width,
                                .k = k,
                                .part = width,
                                .x_next = width,
                                .w_next = area,
                                .c = sums + begin * OUTPUTS + j,
                                .c_row = OUTPUTS};
      mk->dot[columns - 1][end - begin - 1](&tile);
    }
  }
  for (int64_t j = 0; j < outputs; j += LO_MAX_PANEL)
    p->isa->finish(&p->finish, sums + j, OUTPUTS, 0, line * p->w->height + j, p->m,
                   lo_least(LO_MAX_PANEL, outputs - j));
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

const lo_bsr_way lo_bsr_dots = {{"bsr_dots", refuses}, scratch, run};
