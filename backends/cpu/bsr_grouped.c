/* bf16 by a main loop that adds pairs of k: the kept blocks of a line, packed one behind the other,
 * are the panel of a dense product, whose X is put together from the slices of samples that the
 * blocks meet. */
#include <config.h>

#include <string.h>

#include "backends/cpu/bsr.h"
#include "backends/cpu/grouped_product.h"

enum { ELEMENT = 2, WORD = 4 }; /* bytes */

typedef struct job {
  const lo_bsr_product *p;
  int64_t panels; /* of a line */
  int64_t words;  /* of k at most */
  int64_t x_row;  /* words from sample to sample */
  int64_t row_cuts, line_cuts;
  int64_t panel_words, x_words, task_words; /* of scratch: a line's panels; the samples of a tile */
  uint32_t *scratch;
} job;

/* A line: what its blocks meet. */
typedef struct line_list {
  int64_t line, count, k; /* k: elements of all blocks */
  uint32_t *panels, *x;
} line_list;

/* ---- Packing ---- */

/* A panel holds `width` columns of each block; returns how many blocks count. */
static int64_t pack_panel(const job *t, int64_t line, int64_t q, uint32_t *to) {
  const lo_bsr_product *p = t->p;
  const layerops_matrix stored = layerops_bsr_values(p->w);
  const int32_t *start = lo_bsr_start(p);
  const int64_t width = p->w->width, depth = lo_bsr_depth(p), panel = p->dot->panel;
  const int64_t first = q * panel * (p->backward ? 1 : width), words = depth * ELEMENT / WORD;
  int64_t count = 0;
  for (int64_t e = start[line]; !p->empty && e < start[line + 1]; e++) {
    lo_bsr_step step;
    if (!lo_bsr_step_of(p, e, &step)) continue;
    const lo_grouped_words block = {.from = (const char *)lo_address(&stored) +
                                            (step.place + first) * ELEMENT,
                                    .type = LAYEROPS_BF16,
                                    .row = width,
                                    .k_major = p->backward,
                                    .change = LO_GROUPED_COPY,
                                    .size = ELEMENT};
    p->isa->grouped_panel(&block, panel, depth, words, panel, to);
    to += words * panel;
    count++;
  }
  return count;
}

/* Slices are short: a call for each would take as long as their products. */
static void copy_slice(char *to, const char *from, int64_t bytes, int64_t whole) {
  enum { CHUNK = 32 };
  int64_t b = 0;
  for (; b + CHUNK <= bytes; b += CHUNK) memcpy(to + b, from + b, CHUNK);
  for (; b < bytes; b += ELEMENT) memcpy(to + b, from + b, ELEMENT);
  for (; b < whole; b += ELEMENT) memset(to + b, 0, ELEMENT);
}

/* The slices of samples [i, i + rows); 0 beyond W, and for rows that only fill a unit. */
static void gather(const job *t, const line_list *l, int64_t i, int64_t rows, int64_t units) {
  const lo_bsr_product *p = t->p;
  const int32_t *start = lo_bsr_start(p);
  const int64_t bytes = lo_bsr_depth(p) * ELEMENT;
  const char *in = p->in.base + i * p->in.stride * ELEMENT;
  char *to = (char *)l->x;
  for (int64_t e = start[l->line]; l->count && e < start[l->line + 1]; e++) {
    lo_bsr_step step;
    if (!lo_bsr_step_of(p, e, &step)) continue;
    for (int64_t r = 0; r < rows; r++)
      copy_slice(to + r * t->x_row * WORD, in + (r * p->in.stride + step.from) * ELEMENT,
                 step.k * ELEMENT, bytes);
    to += bytes;
  }
  for (int64_t r = rows; r < units; r++)
    memset((char *)l->x + r * t->x_row * WORD, 0, (size_t)(l->k * ELEMENT));
}

/* ---- Tiles ---- */

/* The sums of a tile and what follows, in registers where the loop can. */
static void finish_tile(const lo_bsr_product *p, lo_grouped_tile *tile, int64_t i, int64_t j) {
  float bias[LO_GROUPED_PANEL];
  lo_grouped_out out;
  if (tile->k && lo_grouped_finishes(p->dot, &p->finish)) {
    out = lo_grouped_out_of(p->isa, &p->finish, i, j, tile->columns, bias);
    tile->out = &out;
    p->dot->run(tile);
    return;
  }
  if (tile->k)
    p->dot->run(tile);
  else
    memset(tile->c, 0, sizeof(float) * (size_t)(tile->rows * tile->c_row));
  p->isa->finish(&p->finish, tile->c, tile->c_row, i, j, tile->rows, tile->columns);
}

static void run_tile(const job *t, const line_list *l, int64_t i, int64_t rows, int64_t units) {
  const lo_bsr_product *p = t->p;
  const int64_t panel = p->dot->panel, outputs = lo_bsr_outputs(p, l->line);
  float sums[LO_GROUPED_ROWS * LO_GROUPED_PANEL] __attribute__((aligned(64)));
  gather(t, l, i, rows, units);
  for (int64_t q = 0; q * panel < outputs; q++) {
    const int64_t columns = lo_least(panel, outputs - q * panel);
    lo_grouped_tile tile = {.x = (const char *)l->x,
                            .x_row = t->x_row * WORD,
                            .w = l->panels + q * t->words * panel,
                            .k = l->k,
                            .c = sums,
                            .c_row = panel,
                            .rows = (int)rows,
                            .columns = (int)columns};
    finish_tile(p, &tile, i, l->line * lo_bsr_width(p) + q * panel);
  }
}

static void run_line(const job *t, line_list *l, int64_t i, int64_t i_end) {
  const lo_bsr_product *p = t->p;
  const int64_t tiles = lo_cuts(i_end - i, p->dot->rows);
  for (int64_t q = 0; q < t->panels; q++)
    l->count = pack_panel(t, l->line, q, l->panels + q * t->words * p->dot->panel);
  l->k = l->count * lo_bsr_depth(p);
  for (int64_t u = 0; u < tiles; u++) {
    int64_t begin, end;
    lo_share(i_end - i, tiles, u, &begin, &end);
    run_tile(t, l, i + begin, end - begin, lo_round_up(end - begin, p->dot->row_unit));
  }
}

static void run_task(void *arg, int64_t task) {
  const job *t = arg;
  const lo_bsr_product *p = t->p;
  const int64_t part = task % t->line_cuts, end = lo_bsr_first_line(p, part + 1, t->line_cuts);
  line_list l = {.panels = t->scratch + task * t->task_words};
  int64_t i, i_end;
  l.x = l.panels + t->panel_words;
  lo_share(p->m, t->row_cuts, task / t->line_cuts, &i, &i_end);
  if (p->dot->begin) p->dot->begin();
  for (l.line = lo_bsr_first_line(p, part, t->line_cuts); l.line < end; l.line++)
    run_line(t, &l, i, i_end);
  if (p->dot->end) p->dot->end();
}

/* As features on the lanes of f32 are: by lines, unless one of them is more than a part. */
static job cut(const lo_bsr_product *p) {
  const int64_t threads = lo_most(p->threads, 1);
  job t = {.p = p, .panels = lo_bsr_width(p) / p->dot->panel};
  t.line_cuts = lo_bsr_divides(p, threads) ? threads : 1;
  t.row_cuts = lo_least(threads / t.line_cuts, p->m);
  t.words = lo_bsr_longest(p) * lo_bsr_depth(p) * ELEMENT / WORD;
  t.x_row = lo_copied_row(t.words);
  t.panel_words = lo_round_up(t.panels * t.words * p->dot->panel, 16);
  t.x_words = lo_round_up(p->dot->rows, p->dot->row_unit) * t.x_row;
  t.task_words = t.panel_words + lo_round_up(t.x_words, 16);
  return t;
}

static int64_t scratch(const lo_bsr_product *p) {
  const job t = cut(p);
  return t.row_cuts * t.line_cuts * t.task_words;
}

static void run(layerops_context *ctx, const lo_bsr_product *p, float *memory) {
  job t = cut(p);
  t.scratch = (uint32_t *)(void *)memory;
  lo_parallel(ctx, t.row_cuts * t.line_cuts, run_task, &t);
}

static const char *refuses(layerops_context *ctx, const void *problem) {
  const lo_bsr_product *p = problem;
  (void)ctx;
  if (!p->dot) return "no loop for both operands";
  if (p->by_features) return "a row of the activations is a feature";
  if (p->gate) return "blocks have gates";
  if (lo_bsr_width(p) % p->dot->panel) return "a block does not fill a panel";
  if (lo_bsr_depth(p) % p->dot->depth) return "a block ends within a step of the loop";
  return NULL;
}

const lo_bsr_way lo_bsr_grouped = {{"bsr_grouped", refuses}, true, scratch, run};
