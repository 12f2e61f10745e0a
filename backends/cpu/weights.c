/* Packed weights on the CPU: W in the panels that microkernels read, over the whole k, in f32
 * whatever its type, but for the forward pass of a type with a main loop of its own; for dgrad once
 * more, as the operand [n][k] of dX = dZ W. */
#include <config.h>

#include <stdlib.h>
#include <sys/mman.h>

#include "backends/cpu/grouped_product.h"
#include "common/door.h"

/* weights->state */
typedef struct lo_cpu_weights {
  const lo_instructions *instructions;
  const lo_isa *isa;
  const lo_grouped *loop; /* the type's own, or NULL; `forward` is then its panels */
  lo_grouped_packed packed;
  layerops_buffer *memory;
  float *forward, *backward; /* panels; backward may be NULL */
  float *rows;               /* of f32: the last rows of W as they are, for dot tiles */
  int64_t dots;              /* how many */
} lo_cpu_weights;

static int64_t panel_of(const lo_isa *isa) {
  return isa->product->vectors * isa->product->lanes;
}

/* Floats of panels of `columns` columns over `depth`, whole cache lines; false: too many. */
static bool panel_floats(const lo_isa *isa, int64_t columns, int64_t depth, int64_t *floats) {
  const int64_t panel = panel_of(isa), whole = (columns + panel - 1) / panel * panel;
  return !__builtin_mul_overflow(whole, (depth + 15) / 16 * 16, floats) && *floats < INT64_MAX / 16;
}

/* ---- Memory ---- */

enum { HUGE_PAGE = 2 << 20 };

/* Panels are walked from end to end by every call: of huge pages where there is enough of them. */
static layerops_status allocate(layerops_context *ctx, int64_t bytes, layerops_buffer **memory,
                                float **at) {
  const int64_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
  LO_TRY(layerops_buffer_create(ctx, bytes + align - 1, memory));
  const uintptr_t mask = (uintptr_t)align - 1;
  *at = (float *)(((uintptr_t)(*memory)->native + mask) & ~mask);
#ifdef MADV_HUGEPAGE
  if (align == HUGE_PAGE) /* advice: without huge pages all is as well, but slower */
    (void)madvise(*at, (size_t)bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  return LAYEROPS_OK;
}

static void release(layerops_weights *weights) {
  lo_cpu_weights *own = weights->state;
  if (!own) return;
  layerops_buffer_destroy(own->memory);
  free(own);
}

static layerops_status create(layerops_context *ctx, layerops_weights *weights) {
  const layerops_matrix *w = &weights->shape;
  const lo_isa *isa = lo_cpu_of(ctx)->isa;
  int64_t forward, backward = 0;
  if (!panel_floats(isa, w->rows, w->cols, &forward) ||
      (weights->backward && !panel_floats(isa, w->cols, w->rows, &backward)))
    return lo_fail(LAYEROPS_ERROR_OVERFLOW,
                   "weights_pack: w is %lld x %lld: too large to be packed", (long long)w->rows,
                   (long long)w->cols);
  lo_cpu_weights *own = weights->state = calloc(1, sizeof *own);
  if (!own) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "weights_pack: no memory");
  own->isa = isa;
  own->instructions = lo_cpu_of(ctx)->instructions;
  own->loop = lo_grouped_choose(ctx, w->type, w->type, w->rows, w->cols);
  if (own->loop) /* elements of 2 bytes: less than the floats that were found to be few enough */
    forward = (lo_grouped_pack_bytes(own->loop, w->rows, w->cols) + 63) / 64 * 16;
  if (w->type == LAYEROPS_F32) own->dots = lo_dot_columns(isa->product, w->rows, w->cols);
  const int64_t floats = forward + backward + own->dots * lo_copied_row(w->cols);
  LO_TRY(allocate(ctx, floats * (int64_t)sizeof(float), &own->memory, &own->forward));
  own->rows = own->forward + forward + backward;
  if (weights->backward) own->backward = own->forward + forward;
  return LAYEROPS_OK;
}

/* ---- Values ---- */

enum { STRETCH = 64 }; /* of k, that is unpacked at a time */

/* One operand [depth][columns] and its panels; a task moves some of them. */
typedef struct job {
  const lo_isa *isa;
  const layerops_matrix *w;
  bool k_major; /* the view holds rows of `columns` */
  int64_t depth, columns, panels, tasks;
  float *to;
} job;

static job forward_job(const lo_cpu_weights *own, const layerops_matrix *w) {
  return (job){own->isa, w, false, w->cols, w->rows, 0, 0, own->forward};
}

static job backward_job(const lo_cpu_weights *own, const layerops_matrix *w) {
  return (job){own->isa, w, true, w->rows, w->cols, 0, 0, own->backward};
}

static void pack_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t panel = panel_of(t->isa), size = (int64_t)layerops_type_size(t->w->type);
  int64_t begin, end;
  lo_share(t->panels, t->tasks, task, &begin, &end);
  const int64_t first = begin * panel, last = end * panel < t->columns ? end * panel : t->columns;
  const char *base = lo_address(t->w);
  lo_pack pack = {.isa = t->isa,
                  .from = base + first * (t->k_major ? 1 : t->w->stride) * size,
                  .type = t->w->type,
                  .row = t->w->stride,
                  .k_major = t->k_major,
                  .panel = panel};
  lo_pack_panels(&pack, t->depth, last - first, t->to + first * t->depth);
}

/* f32 to the type that they were packed from: exact, so that e5m2, whose stores saturate, keeps its
 * infinities: it is the upper half of f16. */
static void restore(const lo_isa *isa, layerops_type type, const float *from, char *to, int64_t n) {
  if (type != LAYEROPS_F8E5M2) {
    isa->store(type, from, to, n);
    return;
  }
  uint16_t halves[STRETCH];
  isa->store(LAYEROPS_F16, from, halves, n);
  for (int64_t j = 0; j < n; j++) to[j] = (char)(halves[j] >> 8);
}

/* Back to rows of W: each panel is transposed, a stretch of k at a time. */
static void unpack_panel(const job *t, int64_t first, int64_t columns) {
  float rows[LO_MAX_PANEL * STRETCH];
  const int64_t panel = panel_of(t->isa), size = (int64_t)layerops_type_size(t->w->type);
  const float *from = t->to + first * t->depth;
  char *to = (char *)lo_address(t->w) + first * t->w->stride * size;
  for (int64_t k = 0; k < t->depth; k += STRETCH) {
    const int64_t length = t->depth - k < STRETCH ? t->depth - k : STRETCH;
    t->isa->transpose(from + k * panel, panel, rows, STRETCH, length, columns);
    for (int64_t j = 0; j < columns; j++)
      restore(t->isa, t->w->type, rows + j * STRETCH, to + (j * t->w->stride + k) * size, length);
  }
}

static void unpack_task(void *arg, int64_t task) {
  const job *t = arg;
  const int64_t panel = panel_of(t->isa);
  int64_t begin, end;
  lo_share(t->panels, t->tasks, task, &begin, &end);
  for (int64_t j = begin * panel; j < end * panel; j += panel)
    unpack_panel(t, j, t->columns - j < panel ? t->columns - j : panel);
}

static void move(layerops_context *ctx, job t, void (*body)(void *arg, int64_t task)) {
  const double ns_per_element = 0.25; /* transposed, from L3 */
  if (!t.depth || !t.columns) return;
  t.panels = (t.columns + panel_of(t.isa) - 1) / panel_of(t.isa);
  t.tasks = lo_parallel_width(ctx, ns_per_element * (double)t.depth * (double)t.columns);
  if (t.tasks > t.panels) t.tasks = t.panels;
  lo_parallel(ctx, t.tasks, body, &t);
}

static layerops_status update(layerops_context *ctx, layerops_weights *weights,
                              const layerops_matrix *w) {
  lo_cpu_weights *own = weights->state;
  if (own->loop)
    lo_grouped_pack(ctx, own->loop, w, false, own->forward, &own->packed);
  else
    move(ctx, forward_job(own, w), pack_task);
  if (own->dots)
    lo_cpu_of(ctx)->isa->load_rows(
        LAYEROPS_F32, (float *)lo_address(w) + (w->rows - own->dots) * w->stride, w->stride,
        own->rows, lo_copied_row(w->cols), own->dots, w->cols);
  if (own->backward) move(ctx, backward_job(own, w), pack_task);
  return LAYEROPS_OK;
}

static layerops_status unpack(layerops_context *ctx, const layerops_weights *weights,
                              const layerops_matrix *w) {
  const lo_cpu_weights *own = weights->state;
  if (own->loop)
    lo_grouped_unpack(own->isa, &own->packed, w);
  else
    move(ctx, forward_job(own, w), unpack_task);
  return LAYEROPS_OK;
}

/* ---- In use ---- */

static const char *refuses(layerops_context *ctx, const layerops_weights *weights) {
  const lo_cpu_weights *own = weights->state;
  return own->instructions == lo_cpu_of(ctx)->instructions
             ? NULL
             : "was packed for another LAYEROPS_CPU_ISA";
}

/* f32 panels serve every X, those of a main loop its own types. */
static const char *refuses_x(const layerops_weights *weights, layerops_type x) {
  return weights->shape.type == LAYEROPS_I8 && LO_FLOAT & LO_BIT(x)
             ? "is laid out for an x of i8 or u8: give w in its place"
             : NULL;
}

const lo_grouped_packed *lo_grouped_packed_of(const lo_product *p) {
  const lo_cpu_weights *own = p->packed ? p->packed->state : NULL;
  return own && own->loop && p->trans_b ? &own->packed : NULL;
}

lo_packed lo_packed_of(const lo_product *p) {
  const lo_cpu_weights *own = p->packed ? p->packed->state : NULL;
  if (!own) return (lo_packed){NULL, NULL};
  return (lo_packed){p->trans_b ? own->forward : own->backward, own->rows};
}

const struct lo_weights_form lo_cpu_weights_form = {create, release, update,
                                                    unpack, refuses, refuses_x};
