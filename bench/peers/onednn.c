/* oneDNN (its interface of version 2): matmul and inner product, bias and activation fused, weights
   in the layout that the primitive asks for; the faster of the two counts. */
#include <config.h>

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/common.h"

#if DNNL_VERSION_MAJOR == 2

enum { MATMUL, INNER_PRODUCT, WAYS };

struct way {
  dnnl_primitive_t primitive;
  dnnl_memory_t weights; /* packed */
};

struct state {
  int threads, fastest;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_memory_t x, bias[WAYS], y;
  struct way ways[WAYS];
};

static const struct {
  const char *name;
  dnnl_alg_kind_t algorithm;
  float alpha;
} eltwises[] = {{"none", dnnl_alg_kind_undef, 0},         {"relu", dnnl_eltwise_relu, 0},
                {"leaky_relu", dnnl_eltwise_relu, 0.01f}, {"gelu", dnnl_eltwise_gelu_erf, 0},
                {"gelu_tanh", dnnl_eltwise_gelu_tanh, 0}, {"silu", dnnl_eltwise_swish, 1},
                {"sigmoid", dnnl_eltwise_logistic, 0},    {"tanh", dnnl_eltwise_tanh, 0}};

/* What a layer looks like to oneDNN. */
struct shapes {
  dnnl_memory_desc_t x, bias, y, plain, any;
};

static bool describe(dnnl_memory_desc_t *desc, dnnl_data_type_t type, int64_t rows, int64_t cols,
                     dnnl_format_tag_t tag) {
  dnnl_dims_t dims = {rows, cols};
  return dnnl_memory_desc_init_by_tag(desc, 2, dims, type, tag) == dnnl_success;
}

/* matmul's weights are [k,n], so the suite's [n,k] is the tag ba; its bias is [1,n]. */
static bool describe_all(const struct bench_row *row, dnnl_data_type_t type, int way,
                         struct shapes *s) {
  bool matmul = way == MATMUL;
  int64_t rows = matmul ? row->k : row->n, cols = matmul ? row->n : row->k;
  dnnl_dims_t matmul_bias = {1, row->n}, product_bias = {row->n};
  return describe(&s->x, type, row->m, row->k, dnnl_ab) &&
         describe(&s->y, type, row->m, row->n, dnnl_ab) &&
         describe(&s->plain, type, rows, cols, matmul ? dnnl_ba : dnnl_ab) &&
         describe(&s->any, type, rows, cols, dnnl_format_tag_any) &&
         dnnl_memory_desc_init_by_tag(&s->bias, matmul ? 2 : 1, matmul ? matmul_bias : product_bias,
                                      type, matmul ? dnnl_ab : dnnl_a) == dnnl_success;
}

static dnnl_primitive_attr_t make_attributes(int activation) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_post_ops_t ops = NULL;
  if (dnnl_primitive_attr_create(&attributes)) return NULL;
  if (eltwises[activation].algorithm == dnnl_alg_kind_undef) return attributes;
  if (!dnnl_post_ops_create(&ops)) {
    dnnl_post_ops_append_eltwise(ops, 1, eltwises[activation].algorithm, eltwises[activation].alpha,
                                 0);
    dnnl_primitive_attr_set_post_ops(attributes, ops);
    dnnl_post_ops_destroy(ops);
  }
  return attributes;
}

static dnnl_primitive_desc_t make_desc(const struct state *s, const struct shapes *shapes, int way,
                                       int activation) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_matmul_desc_t matmul;
  dnnl_inner_product_desc_t product;
  dnnl_status_t status =
      way == MATMUL
          ? dnnl_matmul_desc_init(&matmul, &shapes->x, &shapes->any, &shapes->bias, &shapes->y)
          : dnnl_inner_product_forward_desc_init(&product, dnnl_forward_inference, &shapes->x,
                                                 &shapes->any, &shapes->bias, &shapes->y);
  const_dnnl_op_desc_t op = way == MATMUL ? (const_dnnl_op_desc_t)&matmul : &product;
  dnnl_primitive_attr_t attributes = make_attributes(activation);
  if (!status && attributes) dnnl_primitive_desc_create(&desc, op, attributes, s->engine, NULL);
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  return desc;
}

static bool execute(const struct state *s, dnnl_primitive_t primitive, int count,
                    const dnnl_exec_arg_t *args) {
  return !dnnl_primitive_execute(primitive, s->stream, count, args) && !dnnl_stream_wait(s->stream);
}

/* Reorders the plain weights into those that the primitive wants. */
static bool pack(struct state *s, const struct shapes *shapes, dnnl_primitive_desc_t desc,
                 const void *w, dnnl_memory_t *packed) {
  const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  dnnl_memory_t plain = NULL;
  dnnl_primitive_desc_t reorder_desc = NULL;
  dnnl_primitive_t reorder = NULL;
  bool good =
      !dnnl_memory_create(&plain, &shapes->plain, s->engine, (void *)(uintptr_t)w) &&
      !dnnl_memory_create(packed, wanted, s->engine, DNNL_MEMORY_ALLOCATE) &&
      !dnnl_reorder_primitive_desc_create(&reorder_desc, &shapes->plain, s->engine, wanted,
                                          s->engine, NULL) &&
      !dnnl_primitive_create(&reorder, reorder_desc) &&
      execute(s, reorder, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, *packed}});
  if (reorder) dnnl_primitive_destroy(reorder);
  if (reorder_desc) dnnl_primitive_desc_destroy(reorder_desc);
  if (plain) dnnl_memory_destroy(plain);
  return good;
}

static bool make_way(struct state *s, const struct bench_layer *layer, dnnl_data_type_t type,
                     int way) {
  struct shapes shapes;
  struct way *made = &s->ways[way];
  if (!describe_all(layer->row, type, way, &shapes)) return false;
  dnnl_primitive_desc_t desc = make_desc(s, &shapes, way, layer->row->activation);
  if (!desc) return false;
  bool good =
      !dnnl_primitive_create(&made->primitive, desc) &&
      pack(s, &shapes, desc, layer->w, &made->weights) &&
      !dnnl_memory_create(&s->bias[way], &shapes.bias, s->engine, (void *)(uintptr_t)layer->bias);
  if (good && !s->x)
    good = !dnnl_memory_create(&s->x, &shapes.x, s->engine, (void *)(uintptr_t)layer->x) &&
           !dnnl_memory_create(&s->y, &shapes.y, s->engine, layer->y);
  dnnl_primitive_desc_destroy(desc);
  return good;
}

static bool run_way(void *state, int way, int64_t calls) {
  struct state *s = state;
  dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->x},
                            {DNNL_ARG_WEIGHTS, s->ways[way].weights},
                            {DNNL_ARG_BIAS, s->bias[way]},
                            {DNNL_ARG_DST, s->y}};
  if (!s->ways[way].primitive || !s->bias[way]) return false;
  omp_set_num_threads(s->threads);
  for (int64_t i = 0; i < calls; i++)
    if (dnnl_primitive_execute(s->ways[way].primitive, s->stream, 4, args)) return false;
  return dnnl_stream_wait(s->stream) == dnnl_success;
}

static bool run(void *state, int64_t calls) {
  return run_way(state, ((struct state *)state)->fastest, calls);
}

static bool fetch(void *state) {
  (void)state;
  return true; /* run writes the layer's y */
}

static void close_state(void *state) {
  struct state *s = state;
  for (int way = 0; way < WAYS; way++) {
    if (s->ways[way].primitive) dnnl_primitive_destroy(s->ways[way].primitive);
    if (s->ways[way].weights) dnnl_memory_destroy(s->ways[way].weights);
    if (s->bias[way]) dnnl_memory_destroy(s->bias[way]);
  }
  if (s->x) dnnl_memory_destroy(s->x);
  if (s->y) dnnl_memory_destroy(s->y);
  if (s->stream) dnnl_stream_destroy(s->stream);
  if (s->engine) dnnl_engine_destroy(s->engine);
  free(s);
}

static bool build(struct state *s, const struct bench_layer *layer, dnnl_data_type_t type) {
  s->threads = layer->threads;
  omp_set_num_threads(layer->threads);
  if (dnnl_engine_create(&s->engine, dnnl_cpu, 0) ||
      dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags))
    return false;
  for (int way = 0; way < WAYS; way++) make_way(s, layer, type, way);
  s->fastest = bench_pick(s, run_way, WAYS);
  return s->fastest >= 0;
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  static const char *const way_names[] = {"matmul", "inner-product"};
  bool f32 = !strcmp(layer->dtype, "f32"), bf16 = !strcmp(layer->dtype, "bf16");
  if (layer->pattern || !(f32 || bf16)) {
    snprintf(why, why_size, "its product is dense f32 or bf16");
    return false;
  }
  struct state *s = calloc(1, sizeof *s);
  if (!s || !build(s, layer, f32 ? dnnl_f32 : dnnl_bf16)) {
    snprintf(why, why_size, s ? "it has no primitive for this layer" : "out of memory");
    if (s) close_state(s);
    return false;
  }
  const dnnl_version_t *version = dnnl_version();
  snprintf(label, label_size, "onednn-%d.%d.%d:%s-packed", version->major, version->minor,
           version->patch, way_names[s->fastest]);
  *state = s;
  return true;
}

#else

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  (void)layer, (void)state, (void)label, (void)label_size;
  snprintf(why, why_size, "the adapter speaks oneDNN 2, and was built with oneDNN %d",
           DNNL_VERSION_MAJOR);
  return false;
}

static bool run(void *state, int64_t calls) {
  return state && calls < 0;
}
static bool fetch(void *state) {
  return state != NULL;
}
static void close_state(void *state) {
  free(state);
}

#endif

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {BENCH_PEER_ABI, "onednn",   setup, run,
                                               fetch,          close_state};
