#ifndef BENCH_PEERS_ONEDNN_VERSION_H
#define BENCH_PEERS_ONEDNN_VERSION_H

/* What the adapter uses of oneDNN's interface of version 3; with version 2 the same calls, made of
   that version's. */

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#include "bench/peer.h"

/* int8: Y = act(scales (X W^T + bias)) in version 2, with the scales fixed; act(scales X W^T +
   bias) in version 3, with the scales an operand. */
struct scaling {
  dnnl_memory_t x, w;
};

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t const_layout;

static inline layout layout_create(int count, const dnnl_dims_t dims, dnnl_data_type_t type,
                                   dnnl_format_tag_t tag) {
  layout made = NULL;
  return dnnl_memory_desc_create_with_tag(&made, count, dims, type, tag) ? NULL : made;
}

static inline void layout_destroy(layout l) {
  if (l) dnnl_memory_desc_destroy(l);
}

static inline void append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t algorithm, float alpha) {
  dnnl_post_ops_append_eltwise(ops, algorithm, alpha, 0);
}

#define BIAS_IS_SCALED 0

static inline void ask_for_scales(dnnl_primitive_attr_t attributes, const struct bench_layer *layer,
                                  bool matmul) {
  (void)layer;
  dnnl_primitive_attr_set_scales_mask(attributes, DNNL_ARG_SRC, 0);
  dnnl_primitive_attr_set_scales_mask(attributes, DNNL_ARG_WEIGHTS, matmul ? 2 : 1);
}

static inline bool hold_scales(dnnl_engine_t engine, const struct bench_layer *layer,
                               struct scaling *s) {
  layout one = layout_create(1, (dnnl_dims_t){1}, dnnl_f32, dnnl_a);
  layout each = layout_create(1, (dnnl_dims_t){layer->row->n}, dnnl_f32, dnnl_a);
  bool good = one && each &&
              !dnnl_memory_create(&s->x, one, engine, (void *)(uintptr_t)&layer->scale_x) &&
              !dnnl_memory_create(&s->w, each, engine, (void *)(uintptr_t)layer->scale_w);
  layout_destroy(one);
  layout_destroy(each);
  return good;
}

static inline int add_scales(dnnl_exec_arg_t *args, int count, const struct scaling *s) {
  if (!s->x) return count;
  args[count] = (dnnl_exec_arg_t){DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, s->x};
  args[count + 1] = (dnnl_exec_arg_t){DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, s->w};
  return count + 2;
}

static inline void drop_scales(struct scaling *s) {
  if (s->x) dnnl_memory_destroy(s->x);
  if (s->w) dnnl_memory_destroy(s->w);
}

#else

typedef dnnl_memory_desc_t *layout;
typedef const dnnl_memory_desc_t *const_layout;

static inline layout layout_create(int count, const dnnl_dims_t dims, dnnl_data_type_t type,
                                   dnnl_format_tag_t tag) {
  layout made = calloc(1, sizeof *made);
  if (!made || !dnnl_memory_desc_init_by_tag(made, count, dims, type, tag)) return made;
  free(made);
  return NULL;
}

static inline void layout_destroy(layout l) {
  free(l);
}

static inline void append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t algorithm, float alpha) {
  dnnl_post_ops_append_eltwise(ops, 1, algorithm, alpha, 0);
}

#define BIAS_IS_SCALED 1

static inline void ask_for_scales(dnnl_primitive_attr_t attributes, const struct bench_layer *layer,
                                  bool matmul) {
  const int64_t n = layer->row->n;
  float *scales = malloc((size_t)n * sizeof *scales);
  (void)matmul;
  for (int64_t j = 0; scales && j < n; j++) scales[j] = layer->scale_x * layer->scale_w[j];
  if (scales) dnnl_primitive_attr_set_output_scales(attributes, n, 1 << 1, scales);
  free(scales);
}

static inline bool hold_scales(dnnl_engine_t engine, const struct bench_layer *layer,
                               struct scaling *s) {
  (void)engine, (void)layer, (void)s;
  return true;
}

static inline int add_scales(dnnl_exec_arg_t *args, int count, const struct scaling *s) {
  (void)args, (void)s;
  return count;
}

static inline void drop_scales(struct scaling *s) {
  (void)s;
}

static inline dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *desc,
                                                              dnnl_engine_t engine, layout x,
                                                              layout w, layout bias, layout y,
                                                              dnnl_primitive_attr_t attributes) {
  dnnl_matmul_desc_t op;
  dnnl_status_t status = dnnl_matmul_desc_init(&op, x, w, bias, y);
  return status ? status : dnnl_primitive_desc_create(desc, &op, attributes, engine, NULL);
}

static inline dnnl_status_t dnnl_inner_product_forward_primitive_desc_create(
    dnnl_primitive_desc_t *desc, dnnl_engine_t engine, dnnl_prop_kind_t kind, layout x, layout w,
    layout bias, layout y, dnnl_primitive_attr_t attributes) {
  dnnl_inner_product_desc_t op;
  dnnl_status_t status = dnnl_inner_product_forward_desc_init(&op, kind, x, w, bias, y);
  return status ? status : dnnl_primitive_desc_create(desc, &op, attributes, engine, NULL);
}

#endif

#endif
