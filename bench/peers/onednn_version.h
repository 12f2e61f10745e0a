#ifndef BENCH_PEERS_ONEDNN_VERSION_H
#define BENCH_PEERS_ONEDNN_VERSION_H

/* What the adapter uses of oneDNN's interface of version 3; with version 2 the same calls, made of
   that version's. */

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

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
