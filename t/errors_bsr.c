/* What bad arguments of those who make block-sparse weights get. t/errors.c has bsr_create's index
 * arrays, and the layer. */
#include <config.h>

#include "t/errors.h"

static uint8_t mask[64];
static layerops_bsr *made;

/* A function that makes an object. */
#define MAKES(function, change, status, ...)                                                       \
  do {                                                                                             \
    layerops_bsr *w = (layerops_bsr *)in;                                                          \
    function##_args a = valid_##function();                                                        \
    change;                                                                                        \
    refused(#function ": " #change, #function, layerops_##function(ctx, &a, &w),                   \
            LAYEROPS_ERROR_##status, LIST(__VA_ARGS__));                                           \
    ok(!w, "  and gives no object");                                                               \
  } while (0)

#define VALID(function)                                                                            \
  do {                                                                                             \
    layerops_bsr *w = NULL;                                                                        \
    function##_args a = valid_##function();                                                        \
    ok(!layerops_##function(ctx, &a, &w) && w, #function ": what the refusals start from (%s)",    \
       layerops_last_error());                                                                     \
    layerops_bsr_destroy(w);                                                                       \
    GETS(layerops_##function(ctx, &a, NULL), INVALID, #function, "bsr is NULL");                   \
    GETS(layerops_##function(ctx, NULL, &w), INVALID, #function, "args is NULL");                  \
    GETS(layerops_##function(NULL, &a, &w), INVALID, #function, "context is NULL");                \
  } while (0)

/* ---- bsr_create: masks and views ---- */
typedef layerops_bsr_args bsr_create_args;

static layerops_matrix words(const int32_t *host, int64_t count) {
  return layerops_host_matrix(host, LAYEROPS_I32, 1, count);
}

static const int32_t start[] = {0, 1, 2}, column[] = {1, 0};

static bsr_create_args valid_bsr_create(void) {
  return (bsr_create_args){.rows = 30,
                           .cols = 20,
                           .block = 16,
                           .count = 2,
                           .device_row_start = words(start, 3),
                           .device_column = words(column, 2),
                           .device_values = view(in, 32, 16),
                           .type = LAYEROPS_F32};
}

static void test_create(void) {
  static const layerops_matrix none;
  VALID(bsr_create);
  MAKES(bsr_create, a.row_start = start, INVALID, "row_start", "device_", "both");
  MAKES(bsr_create, a.mask = mask, INVALID, "device_row_start", "mask", "both");
  MAKES(bsr_create, a.device_row_start = a.device_column = none; a.mask = mask;
        a.column = column, INVALID, "column", "mask", "both");
  MAKES(bsr_create, a.device_row_start = a.device_column = none;
        a.mask = mask, INVALID, "count is 2", "keeps 4");
  MAKES(bsr_create, a.values = in, INVALID, "values and device_values", "both");
  MAKES(bsr_create, a.device_row_start = none, INVALID, "device_row_start is needed");
  MAKES(bsr_create, a.device_column = none, INVALID, "device_column is needed");
  MAKES(bsr_create, a.device_row_start.cols = 2, INVALID, "device_row_start is 1 x 2", "1 x 3");
  MAKES(bsr_create, a.count = 1, INVALID, "device_column is 1 x 2", "1 x 1");
  MAKES(bsr_create, a.device_column.type = LAYEROPS_F32, UNSUPPORTED, "device_column is f32",
        "i32");
  MAKES(bsr_create, a.device_column.batch = 0, INVALID, "device_column", "batch 0");
  MAKES(bsr_create, a.device_values.rows = 31, INVALID, "device_values is 31 x 16", "32 x 16");
  MAKES(bsr_create, a.device_values.type = LAYEROPS_I32, UNSUPPORTED, "device_values is i32");
  MAKES(bsr_create, a.type = LAYEROPS_I8, UNSUPPORTED, "device_values is f32", "i8");
  MAKES(bsr_create, a.device_scales = view(in, 1, 2), INVALID, "scales is set", "f32");
  MAKES(bsr_create, a.type = LAYEROPS_I8; a.device_values = none;
        a.device_scales = view(in, 1, 3), INVALID, "device_scales is 1 x 3", "1 x 2");
  MAKES(bsr_create, a.type = LAYEROPS_I8; a.scales = in;
        a.device_scales = view(in, 1, 2), INVALID, "scales and device_scales", "both");
  MAKES(bsr_create, a.device_row_start.host = NULL;
        a.device_row_start.buffer = foreign, INVALID, "device_row_start", "reference", "cpu");
  MAKES(bsr_create, a.device_values.host = NULL;
        a.device_values.buffer = small, INVALID, "device_values", "64 bytes");
  MAKES(bsr_create, a.device_row_start = words((const int32_t[]){0, 3, 2}, 3), INVALID,
        "row_start[1] is 3");
  MAKES(bsr_create, a.device_column = words((const int32_t[]){1, 2}, 2), INVALID, "column[1] is 2",
        "[0, 2)");
}

/* ---- bsr_from_dense ---- */
typedef layerops_bsr_dense_args bsr_from_dense_args;

static bsr_from_dense_args valid_bsr_from_dense(void) {
  return (bsr_from_dense_args){
      .w = view(in, 30, 20), .block = 16, .mask = mask, .type = LAYEROPS_F32};
}

static void test_from_dense(void) {
  VALID(bsr_from_dense);
  MAKES(bsr_from_dense, a.w = (layerops_matrix){0}, INVALID, "w is needed");
  MAKES(bsr_from_dense, a.w.type = LAYEROPS_I8, UNSUPPORTED, "w is i8", "f32");
  MAKES(bsr_from_dense, a.w.stride = 19, INVALID, "w has stride 19");
  MAKES(bsr_from_dense, a.w.batch = 2; a.w.batch_stride = 600, INVALID, "batch 2");
  MAKES(bsr_from_dense, a.block = 5, UNSUPPORTED, "block is 5");
  MAKES(bsr_from_dense, a.block = 0, INVALID, "block is 0");
  MAKES(bsr_from_dense, a.width = 7, UNSUPPORTED, "width is 7");
  MAKES(bsr_from_dense, a.type = LAYEROPS_F8E4M3, UNSUPPORTED, "type is f8e4m3", "i8");
  MAKES(bsr_from_dense, a.type = 0, INVALID, "type");
  MAKES(bsr_from_dense, a.reserved = 1, UNSUPPORTED, "reserved is 1");
}

/* ---- bsr_from_elements ---- */
typedef layerops_bsr_elements_args bsr_from_elements_args;

static const int64_t starts[] = {0, 2, 2, 3}, rows[] = {0, 2, 0}, columns[] = {4, 0, 4};

static bsr_from_elements_args valid_bsr_from_elements(void) {
  return (bsr_from_elements_args){.rows = 3,
                                  .cols = 5,
                                  .block = 8,
                                  .count = 3,
                                  .row_start = starts,
                                  .column = columns,
                                  .values = in,
                                  .type = LAYEROPS_F32};
}

static void test_from_elements(void) {
  VALID(bsr_from_elements);
  MAKES(bsr_from_elements, a.row = rows, INVALID, "row_start and row", "both");
  MAKES(bsr_from_elements, a.row_start = NULL, INVALID, "row_start, or row");
  MAKES(bsr_from_elements, a.column = NULL, INVALID, "column is NULL");
  MAKES(bsr_from_elements, a.values = NULL, INVALID, "values is NULL");
  MAKES(bsr_from_elements, a.count = -1, INVALID, "count is -1");
  MAKES(bsr_from_elements, a.rows = -3, INVALID, "rows is -3");
  MAKES(bsr_from_elements, a.count = 2, INVALID, "ends with 3", "0 and 2");
  MAKES(bsr_from_elements, a.row_start = ((const int64_t[]){1, 1, 2, 3}), INVALID, "begins with 1");
  MAKES(bsr_from_elements, a.row_start = ((const int64_t[]){0, 2, 1, 3}), INVALID,
        "row_start[1] is 2 and row_start[2] is 1");
  MAKES(bsr_from_elements, a.row_start = ((const int64_t[]){0, (int64_t)1 << 40, 1, 3}), INVALID,
        "row_start[1] is 1099511627776");
  MAKES(bsr_from_elements, a.cols = 4, INVALID, "column[0] is 4", "[0, 4)");
  MAKES(bsr_from_elements, a.column = ((const int64_t[]){0, 0, INT64_MIN}), INVALID,
        "column[2] is -9223372036854775808");
  MAKES(bsr_from_elements, a.row_start = NULL; a.row = rows;
        a.rows = 2, INVALID, "row[1] is 2", "[0, 2)");
  MAKES(bsr_from_elements, a.reserved = 1, UNSUPPORTED, "reserved is 1");
  MAKES(bsr_from_elements, a.type = LAYEROPS_U8, UNSUPPORTED, "type is u8");
}

/* ---- Masks ---- */

static void test_prune(void) {
#define PRUNE(change, status, ...)                                                                 \
  do {                                                                                             \
    layerops_bsr_prune_args a = {.w = view(in, 30, 20), .block = 16, .mask = mask};                \
    change;                                                                                        \
    refused("bsr_prune: " #change, "bsr_prune", layerops_bsr_prune(ctx, &a),                       \
            LAYEROPS_ERROR_##status, LIST(__VA_ARGS__));                                           \
  } while (0)
  PRUNE(a.w.cols = 21, INVALID, "w has stride 20");
  PRUNE(a.score = 3, INVALID, "score is 3", "0 to 2");
  PRUNE(a.rule = -1, INVALID, "rule is -1", "0 to 3");
  PRUNE(a.density = 1.5, INVALID, "density is 1.5", "[0, 1]");
  PRUNE(a.density = NAN, INVALID, "density is nan", "[0, 1]");
  PRUNE(a.threshold = 2, INVALID, "threshold is 2", "DENSITY does not use it");
  PRUNE(a.rule = LAYEROPS_BSR_THRESHOLD; a.threshold = -1, INVALID, "threshold is -1");
  PRUNE(a.rule = LAYEROPS_BSR_THRESHOLD;
        a.density = 0.5, INVALID, "density is 0.5", "THRESHOLD does not use it");
  PRUNE(a.rule = LAYEROPS_BSR_N_OF_M, INVALID, "m is 0");
  PRUNE(a.rule = LAYEROPS_BSR_N_OF_M; a.m = 4; a.n = 5, INVALID, "n is 5", "[0, 4]");
  PRUNE(a.mask = NULL, INVALID, "mask is NULL");
  PRUNE(a.block = 3, UNSUPPORTED, "block is 3");
  GETS(layerops_bsr_prune(ctx, NULL), INVALID, "bsr_prune", "args is NULL");
}

static void test_pattern(void) {
#define PATTERN(change, status, ...)                                                               \
  do {                                                                                             \
    layerops_bsr_pattern_args a = {.block_rows = 4, .block_cols = 4, .mask = mask};                \
    change;                                                                                        \
    refused("bsr_pattern: " #change, "bsr_pattern", layerops_bsr_pattern(&a),                      \
            LAYEROPS_ERROR_##status, LIST(__VA_ARGS__));                                           \
  } while (0)
  PATTERN(a.pattern = LAYEROPS_BSR_PATTERN_COUNT, INVALID, "pattern is 10", "0 to 9");
  PATTERN(a.pattern = -1, INVALID, "pattern is -1");
  PATTERN(a.block_cols = -4, INVALID, "block_cols -4");
  PATTERN(a.block_rows = (int64_t)1 << 31, OVERFLOW, "block_rows 2147483648");
  PATTERN(a.density = 1.01, INVALID, "density is 1.01", "uniform", "[0, 1]");
  PATTERN(a.window = 3, INVALID, "window is 3", "uniform does not use it");
  PATTERN(a.pattern = LAYEROPS_BSR_BANDED; a.seed = 9, INVALID, "seed is 9", "banded");
  PATTERN(a.pattern = LAYEROPS_BSR_STRIDED, INVALID, "stride is 0", "strided");
  PATTERN(a.pattern = LAYEROPS_BSR_LONGFORMER, INVALID, "dilation is 0", "longformer");
  PATTERN(a.pattern = LAYEROPS_BSR_BLOCK_DIAGONAL, INVALID, "groups is 0", "block_diagonal");
  PATTERN(a.pattern = LAYEROPS_BSR_BARABASI_ALBERT, INVALID, "links is 0", "barabasi_albert");
  PATTERN(a.pattern = LAYEROPS_BSR_WATTS_STROGATZ; a.rewire = -0.1, INVALID, "rewire is -0.1");
  PATTERN(a.pattern = LAYEROPS_BSR_LOCAL; a.window = -1, INVALID, "window is -1");
  PATTERN(a.pattern = LAYEROPS_BSR_BUTTERFLY; a.levels = 32, INVALID, "levels is 32", "[0, 31]");
  PATTERN(a.mask = NULL, INVALID, "mask is NULL");
  PATTERN(a.reserved = 2, UNSUPPORTED, "reserved is 2");
  GETS(layerops_bsr_pattern(NULL), INVALID, "bsr_pattern", "args is NULL");
  is_str(layerops_bsr_pattern_name(10), "?", "an unknown pattern is ?");
  is_str(layerops_bsr_pattern_name(-1), "?", "also a negative one");
}

/* ---- Back ---- */

static void test_back(void) {
  layerops_bsr_info info;
  layerops_bsr_dense_args a = valid_bsr_from_dense();
  if (!ok(!layerops_bsr_from_dense(ctx, &a, &made), "an object")) return;
  layerops_matrix own = layerops_bsr_values(made);
  layerops_matrix w = layerops_matrix_f32(own.buffer, 30, 20);
  GETS(layerops_bsr_to_dense(ctx, NULL, view(out, 30, 20)), INVALID, "bsr_to_dense: bsr is NULL");
  GETS(layerops_bsr_to_dense(other, made, view(out, 30, 20)), INVALID, "bsr is on cpu",
       "reference");
  GETS(layerops_bsr_to_dense(ctx, made, view(out, 30, 21)), INVALID, "w is 30 x 21", "30 x 20");
  GETS(layerops_bsr_to_dense(ctx, made, layerops_host_matrix(out, LAYEROPS_I32, 30, 20)),
       UNSUPPORTED, "w is i32");
  GETS(layerops_bsr_to_dense(ctx, made, w), ALIAS, "w overlaps bsr's values");
  GETS(layerops_bsr_to_mask(NULL, mask), INVALID, "bsr_to_mask: bsr is NULL");
  GETS(layerops_bsr_to_mask(made, NULL), INVALID, "bsr_to_mask: mask is NULL");
  GETS(layerops_bsr_to_csr(ctx, NULL, NULL, NULL, NULL), INVALID, "bsr_to_csr: bsr is NULL");
  GETS(layerops_bsr_to_csr(other, made, NULL, NULL, NULL), INVALID, "bsr is on cpu", "reference");
  GETS(layerops_bsr_describe(NULL, &info), INVALID, "bsr_describe: bsr is NULL");
  GETS(layerops_bsr_describe(made, NULL), INVALID, "bsr_describe: info is NULL");
  ok(!layerops_bsr_values(NULL).type && !layerops_bsr_scales(NULL).type &&
         !layerops_bsr_scales(made).type,
     "what is not there is an absent view");
  layerops_bsr_destroy(NULL);
}

static void test_recording(void) {
  layerops_graph *graph = NULL;
  layerops_bsr *w = NULL;
  layerops_bsr_dense_args dense = valid_bsr_from_dense();
  layerops_bsr_elements_args elements = valid_bsr_from_elements();
  layerops_bsr_prune_args prune = {.w = view(in, 30, 20), .block = 16, .mask = mask};
  ok(!layerops_record_begin(ctx), "recording begins");
  GETS(layerops_bsr_from_dense(ctx, &dense, &w), STATE, "bsr_from_dense", "recording");
  GETS(layerops_bsr_from_elements(ctx, &elements, &w), STATE, "bsr_from_elements", "recording");
  GETS(layerops_bsr_prune(ctx, &prune), STATE, "bsr_prune", "recording");
  GETS(layerops_bsr_to_dense(ctx, made, view(out, 30, 20)), STATE, "bsr_to_dense", "recording");
  GETS(layerops_bsr_to_csr(ctx, made, NULL, NULL, NULL), STATE, "bsr_to_csr", "recording");
  ok(!layerops_record_end(ctx, &graph), "and ends");
  layerops_graph_destroy(graph);
}

int main(void) {
  if (!errors_begin()) return done();
  memset(mask, 1, sizeof mask);
  test_create();
  test_from_dense();
  test_from_elements();
  test_prune();
  test_pattern();
  test_back();
  test_recording();
  layerops_bsr_destroy(made);
  return errors_end();
}
