/* oneDNN: matmul and inner product, bias and activation fused, the faster of the two; weights as
   they are, or packed into the layout that the primitive asks for. Of block-sparse rows the dense
   product, by matmul. Built once for version 2 and once for version 3, as they are found. */
#define _GNU_SOURCE
#include <config.h>

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/dense.h"
#include "bench/peers/onednn_version.h"

enum { MATMUL, INNER_PRODUCT, WAYS };

/* Elements of X, W, and of bias and Y. */
struct types {
  const char *name;
  dnnl_data_type_t x, w, y;
  size_t size; /* of a block-sparse row's */
};

static const struct types types[] = {{"f32", dnnl_f32, dnnl_f32, dnnl_f32, 4},
                                     {"bf16", dnnl_bf16, dnnl_bf16, dnnl_bf16, 2},
                                     {"int8", dnnl_u8, dnnl_s8, dnnl_f32, 0},
                                     {0}};

/* How a primitive sees the layer. matmul's weights are [k,n], so the suite's [n,k] is the tag ba.
   bias is NULL where there is none. */
struct layouts {
  layout x, bias, y, plain, wanted;
};

struct way {
  struct layouts layouts;
  dnnl_primitive_t primitive;
  dnnl_primitive_t reorder; /* plain weights into packed ones; NULL: used as they are */
  dnnl_memory_t x, bias, y, plain, packed;
  struct scaling scaling;
};

struct state {
  int threads, fastest;
  struct bench_layer layer;
  size_t size;
  struct bench_dense dense;
  float *bias; /* of int8: as the version adds it */
  dnnl_engine_t engine;
  dnnl_stream_t stream;
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

static layout matrix(int64_t rows, int64_t cols, dnnl_data_type_t type, dnnl_format_tag_t tag) {
  return layout_create(2, (dnnl_dims_t){rows, cols}, type, tag);
}

static layout vector(int64_t size, dnnl_data_type_t type) {
  return layout_create(1, (dnnl_dims_t){size}, type, dnnl_a);
}

static bool describe(const struct bench_layer *layer, const struct bench_dense *d,
                     const struct types *type, int way, struct layouts *l) {
  const bool matmul = way == MATMUL;
  const int64_t rows = matmul ? d->depth : d->cols, cols = matmul ? d->cols : d->depth;
  const dnnl_format_tag_t plain = matmul && d->transpose_b ? dnnl_ba : dnnl_ab;
  l->x = matrix(d->rows, d->depth, type->x, d->transpose_a ? dnnl_ba : dnnl_ab);
  l->y = matrix(d->rows, d->cols, type->y, dnnl_ab);
  l->plain = matrix(rows, cols, type->w, plain);
  l->wanted = matrix(rows, cols, type->w, layer->packed ? dnnl_format_tag_any : plain);
  if (layer->bias)
    l->bias = matmul ? matrix(1, d->cols, type->y, dnnl_ab) : vector(d->cols, type->y);
  return l->x && l->y && l->plain && l->wanted && (l->bias || !layer->bias);
}

static dnnl_primitive_attr_t make_attributes(const struct bench_layer *layer, int way) {
  const int activation = layer->row->activation;
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_post_ops_t ops = NULL;
  if (dnnl_primitive_attr_create(&attributes)) return NULL;
  if (layer->scale_w) ask_for_scales(attributes, layer, way == MATMUL);
  if (eltwises[activation].algorithm == dnnl_alg_kind_undef) return attributes;
  if (!dnnl_post_ops_create(&ops)) {
    append_eltwise(ops, eltwises[activation].algorithm, eltwises[activation].alpha);
    dnnl_primitive_attr_set_post_ops(attributes, ops);
    dnnl_post_ops_destroy(ops);
  }
  return attributes;
}

static dnnl_primitive_desc_t make_desc(const struct state *s, const struct layouts *l,
                                       const struct bench_layer *layer, int way) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_attr_t attributes = make_attributes(layer, way);
  if (!attributes) return NULL;
  if (way == MATMUL)
    dnnl_matmul_primitive_desc_create(&desc, s->engine, l->x, l->wanted, l->bias, l->y, attributes);
  else
    dnnl_inner_product_forward_primitive_desc_create(&desc, s->engine, dnnl_forward_inference, l->x,
                                                     l->wanted, l->bias, l->y, attributes);
  dnnl_primitive_attr_destroy(attributes);
  return desc;
}

static bool hold(const struct state *s, const_layout l, const void *data, dnnl_memory_t *memory) {
  return !dnnl_memory_create(memory, l, s->engine, (void *)(uintptr_t)data);
}

static bool pack_way(const struct state *s, const struct way *w) {
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, w->plain}, {DNNL_ARG_TO, w->packed}};
  return !dnnl_primitive_execute(w->reorder, s->stream, 2, args) && !dnnl_stream_wait(s->stream);
}

static bool make_reorder(const struct state *s, dnnl_primitive_desc_t desc, struct way *w) {
  const_layout wanted = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  dnnl_primitive_desc_t reorder = NULL;
  if (!hold(s, wanted, DNNL_MEMORY_ALLOCATE, &w->packed) ||
      dnnl_reorder_primitive_desc_create(&reorder, w->layouts.plain, s->engine, wanted, s->engine,
                                         NULL))
    return false;
  bool good = !dnnl_primitive_create(&w->reorder, reorder);
  dnnl_primitive_desc_destroy(reorder);
  return good && pack_way(s, w);
}

static bool make_way(struct state *s, const struct bench_layer *layer, const struct types *type,
                     int way) {
  const void *bias = s->bias ? s->bias : layer->bias;
  struct way *w = &s->ways[way];
  const struct layouts *l = &w->layouts;
  if (way != MATMUL && layer->product != BENCH_FORWARD) return false;
  if (!describe(layer, &s->dense, type, way, &w->layouts)) return false;
  dnnl_primitive_desc_t desc = make_desc(s, l, layer, way);
  if (!desc) return false;
  bool good = hold(s, l->x, s->dense.a, &w->x) && (!bias || hold(s, l->bias, bias, &w->bias)) &&
              hold(s, l->y, s->dense.c, &w->y) && hold(s, l->plain, s->dense.b, &w->plain) &&
              (!layer->packed || make_reorder(s, desc, w)) &&
              (!layer->scale_w || hold_scales(s->engine, layer, &w->scaling)) &&
              !dnnl_primitive_create(&w->primitive, desc);
  dnnl_primitive_desc_destroy(desc);
  return good;
}

static bool run_way(void *state, int way, int64_t calls) {
  struct state *s = state;
  const struct way *w = &s->ways[way];
  dnnl_exec_arg_t args[6] = {{DNNL_ARG_SRC, w->x},
                             {DNNL_ARG_WEIGHTS, w->packed ? w->packed : w->plain},
                             {DNNL_ARG_DST, w->y},
                             {DNNL_ARG_BIAS, w->bias}};
  const int count = add_scales(args, w->bias ? 4 : 3, &w->scaling);
  if (!w->primitive) return false;
  omp_set_num_threads(s->threads);
  for (int64_t i = 0; i < calls; i++)
    if (dnnl_primitive_execute(w->primitive, s->stream, count, args)) return false;
  return dnnl_stream_wait(s->stream) == dnnl_success;
}

static bool run(void *state, int64_t calls) {
  return run_way(state, ((struct state *)state)->fastest, calls);
}

static bool fetch(void *state) {
  const struct state *s = state;
  bench_dense_gather(&s->layer, s->size, &s->dense);
  return true;
}

static bool pack(void *state) {
  struct state *s = state;
  omp_set_num_threads(s->threads);
  return pack_way(s, &s->ways[s->fastest]);
}

static void close_way(struct way *w) {
  dnnl_memory_t memories[] = {w->x, w->bias, w->y, w->plain, w->packed};
  layout layouts[] = {w->layouts.x, w->layouts.bias, w->layouts.y, w->layouts.plain,
                      w->layouts.wanted};
  if (w->primitive) dnnl_primitive_destroy(w->primitive);
  if (w->reorder) dnnl_primitive_destroy(w->reorder);
  drop_scales(&w->scaling);
  for (int i = 0; i < 5; i++) {
    if (memories[i]) dnnl_memory_destroy(memories[i]);
    if (layouts[i]) layout_destroy(layouts[i]);
  }
}

static void close_state(void *state) {
  struct state *s = state;
  for (int way = 0; way < WAYS; way++) close_way(&s->ways[way]);
  if (s->stream) dnnl_stream_destroy(s->stream);
  if (s->engine) dnnl_engine_destroy(s->engine);
  bench_dense_free(&s->dense);
  free(s->bias);
  free(s);
}

/* Version 2 scales the bias too. */
static bool make_bias(struct state *s, const struct bench_layer *layer) {
  const float *bias = layer->bias;
  if (!layer->scale_w || !BIAS_IS_SCALED) return true;
  s->bias = malloc((size_t)layer->row->n * sizeof *s->bias);
  for (int64_t j = 0; s->bias && j < layer->row->n; j++)
    s->bias[j] = bias[j] / (layer->scale_x * layer->scale_w[j]);
  return s->bias != NULL;
}

static bool build(struct state *s, const struct bench_layer *layer, const struct types *type) {
  s->threads = layer->threads;
  s->layer = *layer;
  s->size = type->size;
  if (!bench_dense_make(layer, type->size, &s->dense) || !make_bias(s, layer)) return false;
  omp_set_num_threads(layer->threads);
  if (dnnl_engine_create(&s->engine, dnnl_cpu, 0) ||
      dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags))
    return false;
  for (int way = 0; way < WAYS; way++)
    if (!make_way(s, layer, type, way)) {
      close_way(&s->ways[way]);
      s->ways[way] = (struct way){0};
    }
  s->fastest = bench_pick(s, run_way, WAYS);
  return s->fastest >= 0;
}

/* A build on TBB or SYCL takes every processor that the process may use. */
static bool threads_fit(int threads, char *why, size_t why_size) {
  cpu_set_t set;
  if (dnnl_version()->cpu_runtime == DNNL_RUNTIME_OMP || sched_getaffinity(0, sizeof set, &set) ||
      CPU_COUNT(&set) == threads)
    return true;
  snprintf(why, why_size,
           "it runs on its own threads, one for each of the %d processors that the process may "
           "use, not on %d: run this under taskset",
           CPU_COUNT(&set), threads);
  return false;
}

static const char *runtime_name(void) {
  unsigned runtime = dnnl_version()->cpu_runtime;
  return runtime == DNNL_RUNTIME_OMP ? "" : runtime == DNNL_RUNTIME_TBB ? "-tbb" : "-sycl";
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  static const char *const way_names[] = {"matmul", "inner-product"};
  const struct types *type = types;
  while (type->name && strcmp(type->name, layer->dtype)) type++;
  if (!type->name || (layer->pattern && !type->size)) {
    snprintf(why, why_size, "its product is dense, of f32, bf16 or int8");
    return false;
  }
  if (layer->packed && layer->product == BENCH_WGRAD) {
    snprintf(why, why_size, "of wgrad there are no weights to pack");
    return false;
  }
  if (!threads_fit(layer->threads, why, why_size)) return false;
  struct state *s = calloc(1, sizeof *s);
  if (!s || !build(s, layer, type)) {
    snprintf(why, why_size,
             !s           ? "out of memory"
             : !s->engine ? "it has no engine for the CPU (a SYCL build needs an "
                            "OpenCL runtime for it)"
                          : "it has no primitive for this layer");
    if (s) close_state(s);
    return false;
  }
  const dnnl_version_t *version = dnnl_version();
  snprintf(label, label_size, "onednn-%d.%d.%d%s:%s%s%s", version->major, version->minor,
           version->patch, runtime_name(), layer->pattern ? "dense-" : "", way_names[s->fastest],
           layer->packed ? "-packed" : "");
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,
                                               .name = "onednn",
                                               .weights = BENCH_PLAIN | BENCH_PACKED,
                                               .setup = setup,
                                               .run = run,
                                               .fetch = fetch,
                                               .pack = pack,
                                               .close = close_state};
