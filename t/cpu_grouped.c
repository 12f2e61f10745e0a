/* Main loops of bf16 and of 8-bit integers inside the CPU backend: packed weights give the bits of
 * plain ones, and the driver serves a loop that takes whole tiles only, as AMX does. */
#include <config.h>

#include <stdlib.h>

#include "backends/cpu/grouped_product.h"
#include "t/cpu_work.h"
#include "t/tap.h"

static layerops_context *ctx;

/* ---- A loop of whole tiles in plain C: u8 by i8, 16 rows and 64 k at a time ---- */

static void run_whole(const lo_grouped_tile *t) {
  const int rows = t->rows > 16 ? 32 : 16, columns = t->columns > 16 ? 32 : 16;
  int32_t *c = t->c;
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < columns; j++) {
      int32_t sum = t->load ? c[r * t->c_row + j] : 0;
      for (int64_t k = 0; k < (t->k + 63) / 64 * 64; k++) {
        const uint8_t x = (uint8_t)t->x[r * t->x_row + k];
        sum += x * ((const int8_t *)t->w)[(k / 4 * LO_GROUPED_PANEL + j) * 4 + k % 4];
      }
      c[r * t->c_row + j] = sum;
    }
}

static int begun, ended;
static void begin(void) {
  __atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
}
static void end(void) {
  __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
}

static const lo_grouped whole = {.type = LAYEROPS_U8,
                                 .size = 1,
                                 .depth = 64,
                                 .rows = 32,
                                 .row_unit = 16,
                                 .panel = LO_GROUPED_PANEL,
                                 .flops_per_ns = 1,
                                 .run = run_whole,
                                 .begin = begin,
                                 .end = end};

/* ---- Packed and plain ---- */

typedef struct sizes {
  int64_t m, n, k;
} sizes;

/* Few rows and many, k in one block and in several, X in place and copied, in stripes too. */
static const sizes shapes[] = {{1, 1, 1},      {3, 70, 129},   {16, 32, 64},    {17, 33, 65},
                               {33, 45, 1000}, {50, 40, 9001}, {300, 65, 2048}, {90, 31, 5003}};

static layerops_matrix filled(work *w, layerops_type type, int64_t rows, int64_t cols) {
  layerops_matrix m = work_output(w, type, rows, cols);
  if (type == LAYEROPS_BF16) return work_cast(ctx, w, type, work_f32(w, rows, cols));
  for (int64_t i = 0; i < rows * cols; i++)
    ((uint8_t *)m.host)[i] = (uint8_t)(int)(work_number(w) * 128);
  return m;
}

/* The layer by packed weights: 0 where it could not be computed. */
static int run_packed(const layerops_linear_args *args, const lo_grouped *dot) {
  const int64_t n = args->w.rows, k = args->w.cols;
  void *memory = aligned_alloc(64, (size_t)(lo_grouped_pack_bytes(dot, n, k) + 63) / 64 * 64);
  lo_grouped_packed packed;
  lo_grouped_plan plan;
  lo_product p;
  float *scratch;
  if (!memory) return 0;
  lo_product_linear(args, &p);
  lo_grouped_pack(ctx, dot, &args->w, false, memory, &packed);
  int good = lo_grouped_plan_product(ctx, &p, &packed, &plan) &&
             lo_scratch(ctx, lo_grouped_plan_scratch(&plan), &scratch) == LAYEROPS_OK;
  if (good) lo_grouped_run(ctx, &plan, scratch);
  free(memory);
  return good;
}

static void test_packed(layerops_type type, const sizes *s, const lo_grouped *dot,
                        const char *isa) {
  work w = work_new();
  layerops_linear_args args = {.x = filled(&w, type, s->m, s->k),
                               .w =
                                   filled(&w, type == LAYEROPS_U8 ? LAYEROPS_I8 : type, s->n, s->k),
                               .bias = work_f32(&w, 1, s->n),
                               .activation = LAYEROPS_RELU,
                               .flags = LAYEROPS_BATCH_INVARIANT,
                               .alpha = layerops_value(1)};
  if (type != LAYEROPS_BF16) args.scale_x = work_f32(&w, 1, s->m);
  args.y = work_output(&w, LAYEROPS_F32, s->m, s->n);
  int good = layerops_linear_forward(ctx, &args) == LAYEROPS_OK;
  const float *plain = args.y.host;
  args.y = work_output(&w, LAYEROPS_F32, s->m, s->n);
  good = good && run_packed(&args, dot);
  ok(good && !memcmp(plain, args.y.host, (size_t)(s->m * s->n) * sizeof(float)),
     "%s: %s, %d x %d x %d: packed weights%s give the same bits", isa, layerops_type_name(type),
     (int)s->m, (int)s->n, (int)s->k, dot == &whole ? " of whole tiles" : "");
  work_free(&w);
}

static void test_isa(const char *isa) {
  static const layerops_type types[] = {LAYEROPS_BF16, LAYEROPS_U8, LAYEROPS_I8};
  for (int t = 0; t < 3; t++) {
    const bool bf16 = types[t] == LAYEROPS_BF16;
    const layerops_type type = bf16 ? LAYEROPS_BF16 : LAYEROPS_I8;
    const lo_grouped *dot = NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      dot = lo_grouped_choose(ctx, types[t], type, shapes[i].n, shapes[i].k);
      if (dot) test_packed(types[t], &shapes[i], dot, isa);
      if (!bf16) test_packed(types[t], &shapes[i], &whole, isa);
    }
    if (!dot) ok(bf16, "%s: bf16 is converted to f32", isa);
  }
}

int main(void) {
  char list[128];
  lo_isa_list(list, sizeof list);
  char *save, *isa = strtok_r(list, " ", &save);
  for (; isa; isa = strtok_r(NULL, " ", &save))
    for (int threads = 1; threads <= 3; threads += 2) {
      layerops_open_args args = {.device = "cpu", .threads = threads};
      setenv("LAYEROPS_CPU_ISA", isa, 1);
      if (!ok(layerops_open_with(&args, &ctx) == LAYEROPS_OK, "%s opens", isa)) continue;
      test_isa(isa);
      layerops_close(ctx);
    }
  ok(begun > 0 && begun == ended, "each task begins and ends its loop");
  return done();
}
