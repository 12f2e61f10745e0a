/* An epoch as one call: what is accepted, the memory, and the order of the passes. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/cpu/product.h"
#include "backends/cpu/train.h"

/* ---- What is accepted ---- */

static bool is_zero(const layerops_scalar *s) {
  return s->kind == 1 && s->value == 0;
}

static const char *refuses(layerops_context *ctx, const void *problem) {
  const lo_epoch *e = problem;
  (void)ctx;
  if (e->loss != LAYEROPS_LOSS_CROSS_ENTROPY) return "the loss is not cross-entropy";
  if (lo_present(&e->targets)) return "targets are probabilities";
  if (e->optimizer != LAYEROPS_OPTIMIZER_SGD) return "the optimizer is not SGD";
  if (!is_zero(&e->momentum)) return "momentum is not 0";
  if (!is_zero(&e->weight_decay)) return "weight_decay is not 0";
  return NULL;
}

static const lo_kernel kernels[] = {{"epoch", refuses}};

/* ---- Memory ---- */

/* Gives out floats one piece after the other; without memory it counts. */
typedef struct store {
  float *base;
  int64_t used; /* whole cache lines; -1: too many */
} store;

static float *take(store *s, int64_t rows, int64_t row) {
  int64_t floats;
  const int64_t at = s->used;
  if (at < 0 || __builtin_mul_overflow(rows, row, &floats) || floats > (int64_t)1 << 55) {
    s->used = -1;
    return NULL;
  }
  s->used = at + (floats + 15) / 16 * 16;
  if (s->used > (int64_t)1 << 56) s->used = -1;
  return s->base ? s->base + at : NULL;
}

/* Processors fetch ahead: pieces of two tasks are some lines apart. */
enum { GAP = 64 };

static float *take_panels(store *s, int64_t panels, int64_t rows, int64_t panel, int64_t *next) {
  *next = rows * panel + GAP;
  return take(s, panels, *next);
}

static void place_layer(const lo_train *t, lo_train_layer *l, int64_t i, int64_t rows, store *s) {
  const int64_t panel = t->panel, in_panels = (l->in + panel - 1) / panel;
  const int64_t groups = (rows + LO_TRAIN_GROUP - 1) / LO_TRAIN_GROUP;
  const bool first = i == 0 && t->layers > 1, last = i + 1 == t->layers;
  l->panels = (l->out + panel - 1) / panel;
  l->w = take_panels(s, first ? l->panels : in_panels, first ? l->in : l->out, panel, &l->next);
  l->bias = take(s, l->panels, panel);
  if (last) {
    l->step = l->out * LO_TRAIN_GROUP;
    l->d = take(s, groups, l->step);
    return;
  }
  l->d = take_panels(s, l->panels, rows, panel, &l->step);
  l->y = l->preact = take(s, l->panels, l->step);
  if (layerops_activation_saves_input(t->epoch->activation))
    l->preact = take(s, l->panels, l->step);
}

static void place(lo_train *t, int64_t rows, store *s) {
  const int64_t row = lo_copied_row(t->layer->in);
  for (int64_t i = 0; i < t->layers; i++) place_layer(t, &t->layer[i], i, rows, s);
  t->ones = take(s, 1, rows);
  t->column = take(s, 1, t->layer[t->layers - 1].out);
  t->sums = (lo_train_sum *)(void *)take(s, rows / LO_TRAIN_GROUP + 1, sizeof(lo_train_sum) / 4);
  for (int i = 0; i < 2; i++) {
    const int64_t kept = i < t->epoch->steps ? rows : 0;
    t->labels[i] = (int32_t *)(void *)take(s, 1, kept);
    if (t->copies) t->x[i] = take(s, kept, row);
    if (t->scattered) t->x_rows[i] = (const float **)(void *)take(s, kept, 2);
  }
}

/* ---- Choices ---- */

/* Rows a page apart fall into one set of the caches. A single layer reads rows at one distance, in
 * whole vectors. */
static void choose_place(lo_train *t) {
  const layerops_matrix *x = &t->epoch->x;
  const bool ordered = lo_present(&t->epoch->order), pages = x->stride % 1024 == 0;
  t->copies = pages || (t->layers == 1 && (ordered || x->cols % t->isa->product->lanes));
  t->scattered = ordered && !t->copies;
}

/* Panels as narrow as it takes to give each task some of the widest layer. */
static void choose_panel(lo_train *t) {
  const lo_microkernels *mk = t->isa->product;
  int64_t widest = 1;
  for (int64_t i = 0; i + 1 < t->layers; i++)
    if (t->layer[i].out > widest) widest = t->layer[i].out;
  if (t->layers == 1) widest = t->layer->in;
  const int64_t vectors = (widest + mk->lanes - 1) / mk->lanes;
  t->vectors = (vectors + t->tasks - 1) / t->tasks;
  if (t->vectors > mk->vectors) t->vectors = mk->vectors;
  t->panel = t->vectors * mk->lanes;
}

/* Small batches are bound by the weights, which are read twice and written once. An epoch is worth
 * waking threads for, but the least region of a step must be worth dividing: there are two, or more
 * where there are more layers. */
static void choose_tasks(layerops_context *ctx, lo_train *t, int64_t rows) {
  const double ns_per_weight = 0.1 + 4 * (double)rows / t->isa->product->flops_per_ns;
  double weights = 0;
  for (int64_t i = 0; i < t->layers; i++)
    weights += (double)t->layer[i].in * (double)t->layer[i].out;
  const double step = weights * ns_per_weight, most = step / (2 * lo_parallel_least(ctx));
  const int width = lo_parallel_width(ctx, step * (double)t->epoch->steps);
  t->tasks = most < 1 ? 1 : most < width ? (int64_t)most : width;
}

/* ---- The order of the passes ---- */

typedef struct phase {
  const lo_train *t;
  int64_t layer;
} phase;

static void enter(void *arg, int64_t task) {
  lo_train_enter(((const phase *)arg)->t, task);
}

static void leave(void *arg, int64_t task) {
  lo_train_leave(((const phase *)arg)->t, task);
}

static void gather(void *arg, int64_t task) {
  lo_train_gather(((const phase *)arg)->t, task);
}

static void forward(void *arg, int64_t task) {
  const phase *p = arg;
  lo_train_forward(p->t, p->layer, &p->t->batch, task);
}

static void loss(void *arg, int64_t task) {
  const lo_train *t = ((const phase *)arg)->t;
  lo_train_loss(t, task);
  lo_train_gather(t, task);
}

static void backward(void *arg, int64_t task) {
  const phase *p = arg;
  lo_train_backward(p->t, p->layer, task);
}

/* The end of a step and the beginning of the next touch nothing of another task's. */
static void turn(void *arg, int64_t task) {
  const lo_train *t = ((const phase *)arg)->t;
  if (t->layers > 1) lo_train_backward(t, 1, task);
  lo_train_backward(t, 0, task);
  if (t->layers > 1 && t->next.rows) lo_train_forward(t, 0, &t->next, task);
}

static void run(layerops_context *ctx, const lo_train *t, void (*body)(void *arg, int64_t task),
                int64_t layer) {
  phase p = {t, layer};
  lo_parallel(ctx, t->tasks, body, &p);
}

static lo_train_batch batch_of(const lo_train *t, int64_t step) {
  const lo_epoch *e = t->epoch;
  lo_train_batch b = {.first = e->first + step * e->batch};
  if (step < 0 || step >= e->steps) return b;
  b.rows = e->total - b.first < e->batch ? e->total - b.first : e->batch;
  b.labels = t->labels[step % 2];
  b.x_rows = t->x_rows[step % 2];
  b.x = t->copies ? t->x[step % 2] : (const float *)lo_address(&e->x) + b.first * e->x.stride;
  b.row = t->copies ? lo_copied_row(e->x.cols) : e->x.stride;
  return b;
}

static void go_to(lo_train *t, int64_t step) {
  t->batch = batch_of(t, step);
  t->next = batch_of(t, step + 1);
}

static void begin(layerops_context *ctx, lo_train *t) {
  go_to(t, -1);
  run(ctx, t, gather, 0);
  go_to(t, 0);
  run(ctx, t, enter, 0);
  if (t->layers > 1) run(ctx, t, forward, 0);
}

static void fill_slot(const lo_train *t, int64_t step) {
  const int64_t groups = (t->batch.rows + LO_TRAIN_GROUP - 1) / LO_TRAIN_GROUP;
  float *slot = (float *)lo_address(&t->epoch->slots) + 2 * step;
  lo_train_sum sum = {0, 0};
  for (int64_t g = 0; g < groups; g++) {
    sum.loss += t->sums[g].loss;
    sum.correct += t->sums[g].correct;
  }
  const float mean = (float)(sum.loss / (double)t->batch.rows);
  const int32_t correct = (int32_t)sum.correct;
  memcpy(slot, &mean, sizeof mean);
  memcpy(slot + 1, &correct, sizeof correct);
}

static void step(layerops_context *ctx, lo_train *t, int64_t number) {
  t->scale = (float)(-lo_scalar(&t->epoch->lr) / (double)t->batch.rows);
  for (int64_t i = 1; i + 1 < t->layers; i++) run(ctx, t, forward, i);
  run(ctx, t, loss, 0);
  fill_slot(t, number);
  for (int64_t i = t->layers - 1; i > 1; i--) run(ctx, t, backward, i);
  run(ctx, t, turn, 0);
  go_to(t, number + 1);
}

static void run_steps(layerops_context *ctx, lo_train *t, lo_epoch *e) {
  begin(ctx, t);
  while (e->done < e->steps && !e->stopped) {
    step(ctx, t, e->done++);
    if (e->progress) e->stopped = e->progress(e->progress_user, e->done, e->steps) != 0;
  }
  run(ctx, t, leave, 0);
}

static layerops_status run_epoch(layerops_context *ctx, lo_train *t, lo_epoch *e) {
  const int64_t left = e->total - e->first, rows = left < e->batch ? left : e->batch;
  for (int64_t i = 0; i < t->layers; i++) {
    t->layer[i].in = e->layer[i].w.cols;
    t->layer[i].out = e->layer[i].w.rows;
  }
  choose_tasks(ctx, t, rows);
  choose_panel(t);
  choose_place(t);
  store s = {NULL, 0};
  place(t, rows, &s);
  if (s.used < 0)
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "network_train: batches of %lld are too large",
                   (long long)rows);
  /* Not the context's workspace: `progress` may run other operations. */
  layerops_buffer *memory;
  const int64_t bytes = s.used * (int64_t)sizeof(float);
  LO_TRY(layerops_buffer_create(ctx, bytes + 63, &memory));
  s.base = (float *)(((uintptr_t)memory->native + 63) & ~(uintptr_t)63);
  memset(s.base, 0, (size_t)bytes); /* what pads rows and panels stays 0 */
  s.used = 0;
  place(t, rows, &s);
  for (int64_t r = 0; r < rows; r++) t->ones[r] = 1.0f;
  run_steps(ctx, t, e);
  layerops_buffer_destroy(memory);
  return LAYEROPS_OK;
}

layerops_status lo_cpu_train_epoch(layerops_context *ctx, lo_epoch *e) {
  if (!LO_SELECT(ctx, kernels, e)) return LAYEROPS_OK;
  e->taken = true;
  const lo_cpu *cpu = lo_cpu_of(ctx);
  lo_train t = {.epoch = e, .isa = cpu->isa, .caches = cpu->caches, .layers = e->layers};
  t.layer = calloc((size_t)e->layers, sizeof *t.layer);
  if (!t.layer) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "network_train: no memory");
  layerops_status status = run_epoch(ctx, &t, e);
  free(t.layer);
  return status;
}
