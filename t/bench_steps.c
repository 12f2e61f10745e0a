/* The calls of a graph: their operands, how they are recorded, checked and timed. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "bench/call.h"
#include "bench/clock.h"
#include "t/tap.h"

static char name[] = "layer";
static const struct bench_row oblong = {.id = name, .m = 6, .n = 16, .k = 24, .activation = 1};
static const struct bench_row square = {.id = name, .m = 6, .n = 16, .k = 16};
static const struct bench_row large = {.id = name, .m = 512, .n = 2048, .k = 2048};

struct case_ {
  const struct bench_row *row;
  enum bench_residency residency;
  enum bench_way way;
  int64_t count, sets;
  int layers;
};

/* large: 24 MiB of operands a call, 16 MiB of weights; 256 MiB are 11 and 16 sets */
static const struct case_ cases[] = {
    {&oblong, BENCH_WARM, BENCH_GRAPH, 20, 1, 1}, {&oblong, BENCH_COLD, BENCH_GRAPH, 20, 100, 1},
    {&oblong, BENCH_WARM, BENCH_CHAIN, 20, 2, 2}, {&oblong, BENCH_COLD, BENCH_CHAIN, 20, 100, 2},
    {&square, BENCH_WARM, BENCH_CHAIN, 20, 1, 1}, {&square, BENCH_COLD, BENCH_CHAIN, 20, 100, 1},
    {&oblong, BENCH_WARM, BENCH_ALONE, 1, 1, 1},  {&oblong, BENCH_COLD, BENCH_ALONE, 1, 1, 1},
    {&large, BENCH_COLD, BENCH_GRAPH, 20, 11, 1}, {&large, BENCH_COLD, BENCH_CHAIN, 20, 16, 1},
};

static bool same(const layerops_matrix *a, const layerops_matrix *b) {
  return a->buffer == b->buffer && a->offset == b->offset;
}

static bool is_view(const layerops_matrix *m, int64_t rows, int64_t cols) {
  return m->buffer && m->rows == rows && m->cols == cols;
}

/* Whether each call takes what the row says and, in a chain, what the one before made. */
static int wrong_operands(const struct bench_steps *s, const struct case_ *c) {
  const struct bench_row *r = c->row;
  int wrong = 0;
  for (int64_t i = 0; i < s->count; i++) {
    struct bench_set v = bench_steps_at(s, i).views, next = bench_steps_at(s, i + 1).views;
    bool back = c->layers == 2 && i % 2;
    int64_t n = back ? r->k : r->n, k = back ? r->n : r->k;
    wrong += !is_view(&v.x, r->m, k) || !is_view(&v.w, n, k) || !is_view(&v.bias, 1, n) ||
             !is_view(&v.y, r->m, n) || same(&v.x, &v.y);
    wrong += (c->way == BENCH_CHAIN) != same(&v.y, &next.x);
    struct bench_set later = bench_steps_at(s, i + c->layers).views;
    wrong += (c->sets > c->layers) == same(&v.w, &later.w);
  }
  return wrong;
}

static const void *place(const layerops_matrix *m) {
  return (const float *)layerops_buffer_native(m->buffer) + m->offset;
}

static int wrong_list(const struct bench_steps *s, const struct case_ *c) {
  struct bench_step *list = bench_steps_list(s);
  int wrong = !list;
  for (int64_t i = 0; list && i < s->count; i++) {
    struct bench_set v = bench_steps_at(s, i).views;
    wrong += list[i].x != place(&v.x) || list[i].y != place(&v.y) || list[i].w != place(&v.w) ||
             list[i].bias != place(&v.bias) || list[i].layer != (c->layers == 2 ? i % 2 : 0);
  }
  free(list);
  return wrong;
}

static struct bench_latitude latitude_of(const struct bench_steps *s) {
  return (struct bench_latitude){.activation = s->layers[0]->row->activation};
}

static void spoil(const struct bench_steps *s, int64_t call, const char *what) {
  struct bench_check check = {0};
  struct bench_set v = bench_steps_at(s, call).views;
  float old, other;
  int64_t at = (int64_t)sizeof old * (v.y.offset + v.y.rows * v.y.cols - 1);
  if (layerops_buffer_read_at(s->ctx, v.y.buffer, at, &old, sizeof old)) return;
  other = old + 0.25f;
  layerops_buffer_write_at(s->ctx, v.y.buffer, at, &other, sizeof other);
  ok(bench_steps_check(s, latitude_of(s), &check) == LAYEROPS_OK && check.wrong,
     "an entry of %s that is wrong is found", what);
  layerops_buffer_write_at(s->ctx, v.y.buffer, at, &old, sizeof old);
}

static void test_calls(const struct bench_steps *s) {
  struct bench_call call;
  struct bench_check check = {0};
  layerops_status status = bench_call_steps(s, false, &call);
  if (status == LAYEROPS_OK) status = bench_call_record(&call);
  ok(status == LAYEROPS_OK && bench_steps_poison(s) == LAYEROPS_OK, "the list is recorded");
  ok(bench_steps_check(s, latitude_of(s), &check) == LAYEROPS_OK && check.wrong,
     "nothing was computed yet");
  bool good = bench_call_replay(&call) &&
              bench_steps_check(s, latitude_of(s), &check) == LAYEROPS_OK && !check.wrong;
  ok(good, "the replay is right: %g", check.max_rel_err);
  spoil(s, s->count - 1, "the last result");
  if (s->layer_count == 2) spoil(s, s->count - 2, "the one before");
  bench_call_free(&call);
}

static void test_case(layerops_context *ctx, const struct case_ *c) {
  struct bench_operands o;
  struct bench_steps s;
  if (!bench_operands_make(c->row, bench_types, BENCH_FORWARD, 1, &o)) return;
  if (c->way == BENCH_CHAIN) bench_operands_damp(&o);
  layerops_status status = bench_steps_make(ctx, &o, c->residency, c->way, &s);
  ok(status == LAYEROPS_OK && s.count == c->count && s.set_count == c->sets &&
         s.layer_count == c->layers,
     "%s, %s, [%lld,%lld]: %lld sets for %lld calls", bench_residencies[c->residency],
     bench_ways[c->way], (long long)c->row->n, (long long)c->row->k, (long long)s.set_count,
     (long long)s.count);
  ok(status == LAYEROPS_OK && !wrong_operands(&s, c) && !wrong_list(&s, c),
     "each call has its operands, and peers see them");
  if (status == LAYEROPS_OK && c->row != &large) test_calls(&s);
  bench_steps_free(&s);
  bench_operands_free(&o);
}

/* Of a block-sparse row each product, in sets of its own where cold; what is spoilt is found. */
static void test_product(layerops_context *ctx, enum bench_product product,
                         enum bench_residency residency) {
  struct bench_row row = square;
  struct bench_operands o;
  struct bench_steps s;
  struct bench_call call;
  struct bench_check check = {0};
  row.block = 8;
  row.density = 0.7;
  if (!bench_operands_make(&row, bench_types, product, 1, &o)) return;
  const int64_t kept = bench_pattern_kept(&o.pattern);
  layerops_status status = bench_steps_make(ctx, &o, residency, BENCH_GRAPH, &s);
  struct bench_set first = bench_steps_at(&s, 0).views, second = bench_steps_at(&s, 1).views;
  ok(status == LAYEROPS_OK && is_view(&first.x, row.m, row.k) && is_view(&first.y, row.m, row.n) &&
         is_view(&first.w, kept * row.block, row.block) &&
         same(&first.w, &second.w) == (residency == BENCH_WARM),
     "%s of blocks, %s: its operands", bench_products[product], bench_residencies[residency]);
  struct bench_step *list = bench_steps_list(&s);
  ok(list && list[0].w == place(&first.w) && list[0].x == place(&first.x) &&
         list[0].y == place(&first.y),
     "peers see them");
  free(list);
  status = bench_call_steps(&s, false, &call);
  if (status == LAYEROPS_OK) status = bench_call_record(&call);
  const struct bench_latitude own = {0};
  ok(status == LAYEROPS_OK &&
         call.op == (product == BENCH_FORWARD ? LAYEROPS_OP_bsr_linear_forward
                                              : LAYEROPS_OP_bsr_linear_backward),
     "it is recorded");
  ok(bench_steps_poison(&s) == LAYEROPS_OK && bench_steps_check(&s, own, &check) == LAYEROPS_OK &&
         check.wrong,
     "nothing was computed yet");
  ok(bench_call_replay(&call) && bench_steps_check(&s, own, &check) == LAYEROPS_OK && !check.wrong,
     "the replay is right: %g", check.max_rel_err);
  bench_call_free(&call);
  bench_steps_free(&s);
  bench_operands_free(&o);
}

static void refuses(layerops_context *ctx, struct bench_row row, const char *type,
                    enum bench_product product, enum bench_way way, const char *why) {
  struct bench_operands o;
  struct bench_steps s;
  if (!bench_operands_make(&row, bench_type_find(type), product, 1, &o)) return;
  ok(bench_steps_make(ctx, &o, BENCH_WARM, way, &s) == LAYEROPS_ERROR_UNSUPPORTED && s.why &&
         strstr(s.why, why),
     "refused: %s", why);
  bench_steps_free(&s);
  bench_operands_free(&o);
}

static void test_refusals(layerops_context *ctx) {
  struct bench_row blocks = oblong;
  blocks.block = 8;
  blocks.density = 0.5;
  refuses(ctx, oblong, "int8", BENCH_FORWARD, BENCH_CHAIN, "another type");
  refuses(ctx, blocks, "f32", BENCH_FORWARD, BENCH_CHAIN, "not square");
  refuses(ctx, blocks, "f32", BENCH_DGRAD, BENCH_CHAIN, "no chain: of dgrad and wgrad");
  refuses(ctx, blocks, "f16:i8", BENCH_WGRAD, BENCH_GRAPH, "operands of one type");
  refuses(ctx, oblong, "f32", BENCH_DGRAD, BENCH_GRAPH, "of block-sparse rows");
}

static bool refuse(void *state) {
  ++*(int *)state;
  return false;
}

static bool enqueue(void *state) {
  ++*(int *)state;
  return true;
}

static void test_clock(layerops_context *ctx) {
  struct bench_clock clock;
  int calls = 0;
  if (!ok(bench_clock_make(ctx, NULL, &clock) == LAYEROPS_OK, "a clock")) return;
  ok(bench_clock_time(&clock, enqueue, &calls) >= 0 && calls == 1, "it times what it is given");
  ok(bench_clock_time(&clock, refuse, &calls) < 0 && calls == 2, "and tells that this failed");
  ok(bench_clock_set(&clock, true) == LAYEROPS_OK && clock.filler &&
         layerops_buffer_bytes(clock.filler) >= 128 << 20,
     "a cold one has other data for the caches");
  ok(bench_clock_time(&clock, enqueue, &calls) >= 0 && calls == 3, "and times as well");
  ok(bench_clock_set(&clock, false) == LAYEROPS_OK && !clock.cold, "it becomes a warm one");
  bench_clock_free(&clock);
}

int main(void) {
  layerops_context *ctx;
  if (!ok(layerops_open("cpu", &ctx) == LAYEROPS_OK, "the CPU opens")) return done();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) test_case(ctx, &cases[i]);
  for (int p = 0; p < BENCH_PRODUCTS; p++)
    for (int r = 0; r < BENCH_RESIDENCIES; r++)
      test_product(ctx, (enum bench_product)p, (enum bench_residency)r);
  test_refusals(ctx);
  test_clock(ctx);
  layerops_close(ctx);
  return done();
}
