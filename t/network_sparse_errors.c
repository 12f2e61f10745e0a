/* What pruning refuses, and which files of block-sparse networks, with which status and words. On
 * the CPU: what is judged here is judged before any device. */
#include <config.h>

#include <math.h>

#include "network/safetensors.h"
#include "t/is.h"
#include "t/network.h"
#include "t/scratch.h"

static layerops_context *ctx;

/* The call fails with this status, and its message has these words. */
static void fails(layerops_status got, layerops_status want, const char *words) {
  const char *text = layerops_last_error();
  if (!ok(got == want && strstr(text, words), "%s: %s", layerops_status_name(want), words))
    diag("got %s: %s", layerops_status_name(got), text);
}
#define INVALID(call, words) fails(call, LAYEROPS_ERROR_INVALID, words)

/* 9 x 10 in blocks of 4 x 8, all of which are kept: row_start 0, 2, 4, 6; and 3 x 9. */
static const int64_t widths[] = {10, 9, 3};
static const layerops_network_prune_args all = {.count = 2, .block = 4, .width = 8, .density = 1};

static layerops_network *make(int64_t count) {
  layerops_network_args args = {.widths = widths, .count = count, .activation = LAYEROPS_RELU};
  layerops_network *net = NULL;
  fine(layerops_network_create(ctx, &args, &net), "a network");
  return net;
}

/* ---- Arguments ---- */

static void pruning(void) {
  layerops_network *net = make(3), *single = make(2);
  layerops_network_prune_args args = all;
  const layerops_bsr *sparse;
#define PRUNE() layerops_network_prune(net, &args)
  INVALID(layerops_network_prune(NULL, &args), "network_prune: network is NULL");
  INVALID(layerops_network_prune(net, NULL), "network_prune: args is NULL");
  args.first = 2;
  INVALID(PRUNE(), "network_prune: first is 2, but must lie in [0, 2)");
  args.first = -1;
  INVALID(PRUNE(), "first is -1");
  args = all, args.first = 1;
  INVALID(PRUNE(), "count is 2, but there are 1 layers from 1 on");
  args.count = 0;
  INVALID(PRUNE(), "layer 1 is the last, which stays dense where count is 0");
  args = all, args.count = 0;
  INVALID(layerops_network_prune(single, &args), "layer 0 is the last");
  args = all, args.count = -1;
  INVALID(PRUNE(), "count is -1");
  args = all, args.block = 0;
  INVALID(PRUNE(), "network_prune: block is 0");
  args = all, args.width = 12;
  fails(PRUNE(), LAYEROPS_ERROR_UNSUPPORTED, "network_prune: width is 12; supported: 4, 8");
  args = all, args.density = 1.5;
  INVALID(PRUNE(), "density is 1.5, but for DENSITY must lie in [0, 1]");
  args = all, args.score = 3;
  INVALID(PRUNE(), "score is 3");
  args = all, args.rule = 4;
  INVALID(PRUNE(), "rule is 4");
  args = all, args.threshold = 1;
  INVALID(PRUNE(), "threshold is 1, but DENSITY does not use it");
  INVALID(layerops_network_sparse(NULL, 0, &sparse), "network_sparse: network is NULL");
  INVALID(layerops_network_sparse(net, 0, NULL), "network_sparse: sparse is NULL");
  INVALID(layerops_network_sparse(net, 2, &sparse), "network_sparse: i is 2");
  ok(!layerops_network_sparse(net, 0, &sparse) && !sparse, "after all that the network is dense");
  layerops_network_destroy(net);
  layerops_network_destroy(single);
}

/* ---- Files ---- */

static layerops_status load(const char *name) {
  layerops_network *net = NULL;
  layerops_status status = layerops_network_load(ctx, scratch_path(name), &net);
  layerops_network_destroy(net);
  return status;
}

/* A tensor of the good file, to be changed; close_bad writes the file "bad" and is done with it. */
static lo_safetensors file;

static lo_tensor *open_good(const char *name) {
  static lo_tensor none;
  if (lo_safetensors_read(scratch_path("good"), &file)) diag("%s", layerops_last_error());
  lo_tensor *t = (lo_tensor *)lo_safetensors_find(&file, name);
  if (!t) ok(0, "the file has %s", name);
  return t ? t : &none;
}

static void close_bad(void) {
  if (lo_safetensors_write(scratch_path("bad"), &file)) diag("%s", layerops_last_error());
  lo_safetensors_free(&file);
}

/* Element i of an array of I32 or I64 is another. */
static void number(const char *name, int64_t i, int64_t value, layerops_status want,
                   const char *words) {
  lo_tensor *t = open_good(name);
  const int wide = t->dtype && !strcmp(t->dtype, "I64");
  char *at = (char *)(uintptr_t)t->data + i * (wide ? 8 : 4);
  if (t->data) memcpy(at, wide ? (void *)&value : (void *)&(int32_t){(int32_t)value}, wide ? 8 : 4);
  close_bad();
  fails(load("bad"), want, words);
}

/* A dimension is another, with as many bytes as that takes. */
static void dimension(const char *name, int i, int64_t size, layerops_status want,
                      const char *words) {
  static const char bytes[8192];
  lo_tensor *t = open_good(name);
  t->shape[i] = size;
  t->data = bytes;
  close_bad();
  fails(load("bad"), want, words);
}

static void type(const char *name, const char *dtype, const char *words) {
  open_good(name)->dtype = dtype;
  close_bad();
  fails(load("bad"), LAYEROPS_ERROR_FORMAT, words);
}

static void rename_tensor(const char *name, const char *other, const char *words) {
  open_good(name)->name = other;
  close_bad();
  fails(load("bad"), LAYEROPS_ERROR_FORMAT, words);
}

static void indices(void) {
  static const char starts[] = "layers.0.weight.row_start", columns[] = "layers.0.weight.column";
  const layerops_status format = LAYEROPS_ERROR_FORMAT;
  number(starts, 0, 1, format,
         "layers.0.weight: bsr_create: row_start begins with 1 and ends with 6");
  number(starts, 3, 5, format, "row_start begins with 0 and ends with 5, but must with 0 and 6");
  number(starts, 1, 5, format, "column[2] is 0 after 1: columns must ascend within row 0");
  number(starts, 2, 1, format, "row_start[1] is 2 and row_start[2] is 1");
  number(starts, 1, -1, format, "row_start[0] is 0 and row_start[1] is -1");
  number(starts, 2, INT32_MAX, format, "row_start[2] is 2147483647");
  number(columns, 1, 0, format, "column[1] is 0 after 0: columns must ascend within row 0");
  number(columns, 0, 1, format, "column[1] is 1 after 1");
  number(columns, 5, 2, format, "column[5] is 2, but must lie in [0, 2)");
  number(columns, 0, -1, format, "column[0] is -1, but must lie in [0, 2)");
  type(starts, "F32", "row_start is F32 with 1 dimensions, but must be I32 with 1");
  type(columns, "U32", "column is U32");
  rename_tensor(starts, "x", "layers.0.weight.row_start is missing");
  rename_tensor(columns, "x", "layers.0.weight.column is missing");
  dimension(columns, 0, 7, format, "column has 7 elements, but must have 6");
  dimension(starts, 0, 3, format, "row_start has 3 elements, but must have 4");
}

static void sizes(void) {
  static const char size[] = "layers.0.weight.size", values[] = "layers.0.weight.values";
  const layerops_status format = LAYEROPS_ERROR_FORMAT;
  number(size, 0, 0, format, "layers.0.weight is empty");
  number(size, 1, -1, format, "layers.0.weight is empty");
  number(size, 0, 13, format, "row_start has 4 elements, but must have 5");
  number(size, 0, 12, format,
         "layers.1.weight takes 9 inputs, but the layer before has 12 outputs");
  number(size, 1, 8, format, "column[1] is 1, but must lie in [0, 1)");
  number(size, 1, (int64_t)1 << 62, format, "indices are 32 bits wide");
  number(size, 1, (int64_t)1 << 30, format, "at most 16777216 are read");
  number(size, 0, INT64_MAX, format, "indices are 32 bits wide");
  dimension(size, 0, 3, format, "size has 3 elements, but must have 2");
  type(size, "F64", "size is F64");
  rename_tensor(size, "x", "layers.0.weight is missing: not a network");
  dimension(values, 0, 5, format, "column has 6 elements, but must have 5");
  dimension(values, 1, 0, format, "layers.0.weight: network_load: block is 0");
  dimension(values, 2, 0, format, "layers.0.weight.values has a width of 0");
  dimension(values, 1, 5, format, "block is 5; supported: 4, 8");
  dimension(values, 1, 8, format, "row_start has 4 elements, but must have 3");
  type(values, "I32", "values is I32 with 3 dimensions, but must be F32 with 3");
  rename_tensor(values, "x", "layers.0.weight.values is missing");
  rename_tensor("layers.1.weight.values", "layers.0.weight", "layers.1.weight.values is missing");
  dimension("layers.0.bias", 0, 8, format, "layers.0.bias does not have the shape of its layer, 9");
  dimension("optimizer.v.layers.0.weight.values", 2, 4, format,
            "optimizer.v.layers.0.weight.values does not have the shape of its layer, 6 x 4 x 8");
  rename_tensor("optimizer.m.layers.1.weight.values", "x",
                "optimizer.m.layers.1.weight.values is missing");
}

/* What a file has beyond W's edges is left out, in the optimizer's state too: all is finite. */
static void beyond_edges(void) {
  static const char *const names[] = {"layers.0.weight.values",
                                      "optimizer.m.layers.0.weight.values",
                                      "optimizer.v.layers.0.weight.values"};
  for (int i = 0; i < 3; i++) {
    const float nan = NAN;
    layerops_network *net = NULL;
    lo_tensor *t = open_good(names[i]);
    /* Block 1, columns 8 to 15, of which W has two; block 4, rows 8 to 11, of which it has one. */
    memcpy((char *)(uintptr_t)t->data + (1 * 32 + 7) * 4, &nan, sizeof nan);
    memcpy((char *)(uintptr_t)t->data + (4 * 32 + 8) * 4, &nan, sizeof nan);
    close_bad();
    if (!fine(layerops_network_load(ctx, scratch_path("bad"), &net), names[i])) continue;
    fine(layerops_network_save(net, scratch_path("again")), "  is loaded and saved");
    size_t a = 0, b = 0;
    unsigned char *good = scratch_read("good", &a), *again = scratch_read("again", &b);
    ok(good && again && a == b && !memcmp(good, again, a), "  without what is beyond the edges");
    free(good);
    free(again);
    layerops_network_destroy(net);
  }
}

static void truncated(void) {
  size_t size, wrong = 0;
  unsigned char *whole = scratch_read("good", &size);
  for (size_t n = 0; n < size; n += n < 16 ? 1 : 13) {
    scratch_write("cut", whole, n);
    wrong += load("cut") != LAYEROPS_ERROR_FORMAT;
  }
  is_int(wrong, 0, "every truncated file is refused");
  free(whole);
}

static int make_good(void) {
  small_data data;
  make_small_data(&data);
  layerops_network *net = make(3);
  layerops_network_train_args args = {.x = layerops_host_matrix(data.x, LAYEROPS_F32, 18, 10),
                                      .labels =
                                          layerops_host_matrix(data.labels, LAYEROPS_I32, 1, 18),
                                      .batch = 6,
                                      .optimizer = LAYEROPS_OPTIMIZER_ADAM};
  int good = fine(layerops_network_prune(net, &all), "is pruned") &&
             fine(layerops_network_train(net, &args, NULL), "trained") &&
             fine(layerops_network_save(net, scratch_path("good")), "saved") &&
             fine(load("good"), "and loaded");
  layerops_network_destroy(net);
  return good;
}

int main(void) {
  scratch_begin();
  if (!fine(layerops_open("cpu", &ctx), "cpu opens")) return done();
  pruning();
  if (make_good()) {
    indices();
    sizes();
    beyond_edges();
    truncated();
  }
  layerops_close(ctx);
  return done();
}
