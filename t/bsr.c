/* Block-sparse weights on every device: made in every way, of every type and shape of blocks, and
 * read back. The oracle is the dense matrix. */
#include <config.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "t/devices.h"
#include "t/is.h"

#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

static layerops_context *ctx;
static const char *device;
static uint64_t state;

static void works(layerops_status status, const char *what) {
  if (status) ok(0, "%s: %s: %s", device, what, layerops_last_error());
}
#define WORKS(call) works(call, #call)

static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)n);
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static void *memory(int64_t count, size_t size) {
  void *p = calloc(count ? (size_t)count : 1, size);
  if (!p) abort();
  return p;
}

/* ---- A dense matrix, and which of its blocks are kept ---- */

typedef struct matrix {
  int64_t rows, cols, height, width, block_rows, block_cols, count;
  uint8_t *mask;
  float *dense; /* integers, 0 outside of kept blocks; 127 is the largest in each */
} matrix;

static bool inside(const matrix *m, int64_t i, int64_t j) {
  return i < m->rows && j < m->cols;
}

static void make_values(matrix *m) {
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t j = 0; j < m->cols; j++)
      if (m->mask[i / m->height * m->block_cols + j / m->width]) {
        const bool first = i % m->height == 0 && j % m->width == 0;
        m->dense[i * m->cols + j] = first ? 127 : (float)(below(253) - 126);
      }
}

typedef int (*pattern)(const matrix *m, int64_t r, int64_t c);

static matrix make(int64_t rows, int64_t cols, int64_t height, int64_t width, pattern kept) {
  matrix m = {rows, cols, height, width, ceil_div(rows, height), ceil_div(cols, width), 0, 0, 0};
  m.mask = memory(m.block_rows * m.block_cols, 1);
  m.dense = memory(rows * cols, sizeof(float));
  for (int64_t i = 0; i < m.block_rows * m.block_cols; i++)
    m.count += m.mask[i] = kept(&m, i / m.block_cols, i % m.block_cols) != 0;
  make_values(&m);
  return m;
}

static void release(matrix *m) {
  free(m->mask);
  free(m->dense);
}

static int none(const matrix *m, int64_t r, int64_t c) {
  (void)m, (void)r, (void)c;
  return 0;
}
static int all(const matrix *m, int64_t r, int64_t c) {
  (void)m, (void)r, (void)c;
  return 1;
}
static int some(const matrix *m, int64_t r, int64_t c) {
  (void)m, (void)r, (void)c;
  return below(3) == 0;
}
static int rows_empty(const matrix *m, int64_t r, int64_t c) {
  (void)c;
  return r != 0 && r != m->block_rows - 1;
}
static int columns_empty(const matrix *m, int64_t r, int64_t c) {
  (void)r;
  return c != 0 && c != m->block_cols - 1;
}
static int last_row_and_column(const matrix *m, int64_t r, int64_t c) {
  return r == m->block_rows - 1 || c == m->block_cols - 1;
}
static int every_hundredth(const matrix *m, int64_t r, int64_t c) {
  const int64_t block = r * m->block_cols + c;
  return block % 100 == 99 || block == m->block_rows * m->block_cols - 1;
}

static const pattern patterns[] = {none, all, some, rows_empty, columns_empty, last_row_and_column};

/* The pattern as index arrays, and the values in blocks, with `outside` where they leave W. */
typedef struct arrays {
  int32_t *row_start, *column;
  float *values;
} arrays;

static arrays arrays_of(const matrix *m, float outside) {
  const int64_t area = m->height * m->width;
  arrays a = {memory(m->block_rows + 1, 4), memory(m->count, 4), memory(m->count * area, 4)};
  int32_t kept = 0;
  for (int64_t b = 0; b < m->block_rows * m->block_cols; b++) {
    const int64_t r = b / m->block_cols, c = b % m->block_cols;
    if (!m->mask[b]) continue;
    for (int64_t e = 0; e < area; e++) {
      const int64_t i = r * m->height + e / m->width, j = c * m->width + e % m->width;
      a.values[kept * area + e] = inside(m, i, j) ? m->dense[i * m->cols + j] : outside;
    }
    a.column[kept++] = (int32_t)c;
    a.row_start[r + 1] = kept;
  }
  for (int64_t r = 0; r < m->block_rows; r++)
    if (a.row_start[r + 1] < a.row_start[r]) a.row_start[r + 1] = a.row_start[r];
  return a;
}

static void release_arrays(arrays *a) {
  free(a->row_start);
  free(a->column);
  free(a->values);
}

/* ---- What an object should hold ---- */

static int same_index(const matrix *m, const layerops_bsr_info *info) {
  int64_t i = 0, at = 0;
  for (int64_t b = 0; b < m->block_rows * m->block_cols; b++) {
    if (b % m->block_cols == 0 && info->row_start[b / m->block_cols] != i) return 0;
    if (m->mask[b] && info->column[i++] != b % m->block_cols) return 0;
  }
  for (int64_t c = 0; c < m->block_cols; c++) {
    if (info->col_start[c] != at) return 0;
    for (int64_t r = 0; r < m->block_rows; r++) {
      if (!m->mask[r * m->block_cols + c]) continue;
      const int32_t place = info->place[at];
      if (info->row[at] != r || info->column[place] != c || place < info->row_start[r] ||
          place >= info->row_start[r + 1])
        return 0;
      at++;
    }
  }
  return i == m->count && at == m->count && info->row_start[m->block_rows] == m->count &&
         info->col_start[m->block_cols] == m->count;
}

static int same_pattern(const matrix *m, const layerops_bsr *w, layerops_type type) {
  layerops_bsr_info info;
  uint8_t *mask = memory(m->block_rows * m->block_cols, 1);
  int64_t elements = 0;
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t j = 0; j < m->cols; j++)
      elements += m->mask[i / m->height * m->block_cols + j / m->width];
  WORKS(layerops_bsr_describe(w, &info));
  WORKS(layerops_bsr_to_mask(w, mask));
  int good = info.rows == m->rows && info.cols == m->cols && info.height == m->height &&
             info.width == m->width && info.block_rows == m->block_rows &&
             info.block_cols == m->block_cols && info.count == m->count && info.type == type &&
             info.elements == elements && same_index(m, &info) &&
             !memcmp(mask, m->mask, (size_t)(m->block_rows * m->block_cols));
  free(mask);
  return good;
}

static int same_dense(const matrix *m, const layerops_bsr *w) {
  float *dense = memory(m->rows * m->cols, sizeof *dense);
  for (int64_t i = 0; i < m->rows * m->cols; i++) dense[i] = NAN;
  WORKS(layerops_bsr_to_dense(ctx, w, layerops_host_matrix(dense, LAYEROPS_F32, m->rows, m->cols)));
  int64_t i = 0;
  while (i < m->rows * m->cols && dense[i] == m->dense[i]) i++;
  if (i < m->rows * m->cols)
    diag("element %lld is %g, not %g", (long long)i, dense[i], m->dense[i]);
  free(dense);
  return i == m->rows * m->cols;
}

/* What the products read: whole blocks, 0 outside of W. */
static int same_blocks(const matrix *m, const layerops_bsr *w) {
  const int64_t count = m->count * m->height * m->width;
  arrays a = arrays_of(m, 0);
  float *values = memory(count, sizeof *values), *scales = memory(m->count, sizeof *scales);
  layerops_copy_args copy = {
      .x = layerops_bsr_values(w),
      .y = layerops_host_matrix(values, LAYEROPS_F32, m->count * m->height, m->width)};
  WORKS(layerops_copy(ctx, &copy));
  layerops_matrix of = layerops_bsr_scales(w);
  if (of.type) WORKS(layerops_buffer_read(ctx, of.buffer, scales, m->count * 4));
  int good = copy.x.rows == m->count * m->height && copy.x.cols == m->width;
  for (int64_t i = 0; i < count; i++) {
    const float scale = of.type ? scales[i / (m->height * m->width)] : 1;
    good = good && values[i] * scale == a.values[i];
  }
  release_arrays(&a);
  free(values);
  free(scales);
  return good;
}

static int holds(const matrix *m, const layerops_bsr *w, layerops_type type) {
  return w && same_pattern(m, w, type) && same_dense(m, w) && same_blocks(m, w);
}

/* ---- In every way ---- */

static const layerops_type types[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16, LAYEROPS_I8};

/* The host's values in another type. */
static void *cast(const float *from, layerops_type type, int64_t count) {
  void *to = memory(count, 4);
  layerops_copy_args copy = {.x = layerops_host_matrix(from, LAYEROPS_F32, 1, count),
                             .y = layerops_host_matrix(to, type, 1, count)};
  WORKS(layerops_copy(ctx, &copy));
  return to;
}

static layerops_bsr *from_dense(const matrix *m, layerops_type type, bool masked) {
  layerops_bsr *w = NULL;
  layerops_bsr_dense_args args = {
      .w = layerops_host_matrix(m->dense, LAYEROPS_F32, m->rows, m->cols),
      .block = m->height,
      .width = m->width,
      .mask = masked ? m->mask : NULL,
      .type = type};
  WORKS(layerops_bsr_from_dense(ctx, &args, &w));
  return w;
}

static layerops_bsr_args args_of(const matrix *m, layerops_type type) {
  return (layerops_bsr_args){.rows = m->rows,
                             .cols = m->cols,
                             .block = m->height,
                             .width = m->width,
                             .count = m->count,
                             .type = type};
}

static layerops_bsr *from_arrays(const matrix *m, layerops_type type, bool masked) {
  layerops_bsr *w = NULL;
  arrays a = arrays_of(m, 99);
  layerops_bsr_args args = args_of(m, type);
  void *values = cast(a.values, type, m->count * m->height * m->width);
  args.values = values;
  args.row_start = masked ? NULL : a.row_start;
  args.column = masked ? NULL : a.column;
  args.mask = masked ? m->mask : NULL;
  WORKS(layerops_bsr_create(ctx, &args, &w));
  memset(a.row_start, 0x77, (size_t)(m->block_rows + 1) * 4);
  memset(a.column, 0x77, (size_t)m->count * 4);
  memset(values, 0x77, (size_t)(m->count * m->height * m->width) * layerops_type_size(type));
  release_arrays(&a);
  free(values);
  return w;
}

/* A buffer with 3 other elements before. */
static layerops_matrix put(const void *data, layerops_type type, int64_t rows, int64_t cols) {
  const int64_t size = (int64_t)layerops_type_size(type), bytes = rows * cols * size;
  layerops_buffer *b = NULL;
  WORKS(layerops_buffer_create(ctx, bytes + 3 * size, &b));
  WORKS(layerops_buffer_write_at(ctx, b, 3 * size, data, bytes));
  layerops_matrix m = layerops_matrix_of(b, type, rows, cols);
  m.offset = 3;
  return m;
}

static void spoil(layerops_matrix m) {
  layerops_fill_args fill = {.y = m, .value = layerops_value(77)};
  WORKS(layerops_fill(ctx, &fill));
  WORKS(layerops_sync(ctx));
  layerops_buffer_destroy(m.buffer);
}

static layerops_bsr *from_device(const matrix *m, layerops_type type) {
  layerops_bsr *w = NULL;
  arrays a = arrays_of(m, 99);
  float *ones = memory(m->count, sizeof *ones);
  for (int64_t i = 0; i < m->count; i++) ones[i] = 1;
  void *values = cast(a.values, type, m->count * m->height * m->width);
  layerops_bsr_args args = args_of(m, type);
  args.device_row_start = put(a.row_start, LAYEROPS_I32, 1, m->block_rows + 1);
  args.device_column = put(a.column, LAYEROPS_I32, 1, m->count);
  args.device_values = put(values, type, m->count * m->height, m->width);
  if (type == LAYEROPS_I8) args.device_scales = put(ones, LAYEROPS_F32, 1, m->count);
  WORKS(layerops_bsr_create(ctx, &args, &w));
  spoil(args.device_row_start);
  spoil(args.device_column);
  spoil(args.device_values);
  if (type == LAYEROPS_I8) spoil(args.device_scales);
  release_arrays(&a);
  free(values);
  free(ones);
  return w;
}

/* Through CSR, and through COO in another order. */
static layerops_bsr *from_elements(const matrix *m, const layerops_bsr *w, layerops_type type,
                                   bool coo) {
  layerops_bsr *again = NULL;
  layerops_bsr_info info;
  WORKS(layerops_bsr_describe(w, &info));
  const int64_t count = info.elements;
  int64_t *row_start = memory(m->rows + 1, 8), *column = memory(count, 8), *row = memory(count, 8);
  float *values = memory(count, sizeof *values);
  WORKS(layerops_bsr_to_csr(ctx, w, row_start, column, values));
  for (int64_t i = 0; i < m->rows; i++)
    for (int64_t e = row_start[i]; e < row_start[i + 1]; e++) row[e] = i;
  for (int64_t e = count - 1; e > 0; e--) { /* shuffled, as CSR within its rows */
    const int64_t low = coo ? 0 : row_start[row[e]], f = low + below(e - low + 1);
    const int64_t c = column[e], r = row[e];
    const float v = values[e];
    column[e] = column[f], row[e] = row[f], values[e] = values[f];
    column[f] = c, row[f] = r, values[f] = v;
  }
  layerops_bsr_elements_args args = {.rows = m->rows,
                                     .cols = m->cols,
                                     .block = m->height,
                                     .width = m->width,
                                     .count = count,
                                     .row_start = coo ? NULL : row_start,
                                     .row = coo ? row : NULL,
                                     .column = column,
                                     .values = values,
                                     .type = type};
  WORKS(layerops_bsr_from_elements(ctx, &args, &again));
  free(row_start);
  free(column);
  free(row);
  free(values);
  return again;
}

enum { DENSE, DENSE_MASKED, ARRAYS, MASK, DEVICE, CSR, COO, WAYS };
static const char *const ways[WAYS] = {
    "dense", "dense and a mask", "index arrays", "a mask", "arrays on the device", "CSR", "COO"};

static layerops_bsr *in_way(int way, const matrix *m, layerops_type type) {
  layerops_bsr *w, *first;
  switch (way) {
  case DENSE:
  case DENSE_MASKED:
    return from_dense(m, type, way == DENSE_MASKED);
  case ARRAYS:
  case MASK:
    return from_arrays(m, type, way == MASK);
  case DEVICE:
    return from_device(m, type);
  default:
    first = from_arrays(m, LAYEROPS_F32, false);
    w = from_elements(m, first, type, way == COO);
    layerops_bsr_destroy(first);
    return w;
  }
}

static bool on_host(void) {
  return !strcmp(device, "cpu") || !strcmp(device, "reference");
}

static void test_ways(void) {
  static const int64_t shapes[][4] = {
      {48, 64, 16, 16}, {50, 70, 16, 16},    {33, 100, 32, 8}, {100, 33, 8, 32},  {13, 11, 4, 4},
      {7, 9, 4, 8},     {130, 300, 64, 128}, {1, 1, 16, 16},   {128, 1, 128, 64}, {65, 129, 8, 64},
      {0, 32, 16, 16},  {32, 0, 16, 16},     {0, 0, 32, 32},
  };
  for (int way = 0; way < WAYS; way++)
    for (int64_t t = 0; t < COUNT(types); t++) {
      int good = 1;
      for (int64_t s = 0; s < COUNT(shapes) && good; s++)
        for (int64_t p = 0; p < COUNT(patterns) && good; p++) {
          const int64_t *size = shapes[s];
          if (!on_host() && (size[2] == 4 || size[3] == 4)) continue;
          matrix m = make(size[0], size[1], size[2], size[3], patterns[p]);
          layerops_bsr *w = in_way(way, &m, types[t]);
          good = holds(&m, w, types[t]);
          if (!good)
            diag("%lld x %lld in %lld x %lld, pattern %lld", (long long)size[0], (long long)size[1],
                 (long long)size[2], (long long)size[3], (long long)p);
          layerops_bsr_destroy(w);
          release(&m);
        }
      ok(good, "%s: %s from %s, every shape and pattern", device, layerops_type_name(types[t]),
         ways[way]);
    }
}

static void test_sizes(void) {
  static const int64_t sides[] = {4, 8, 16, 32, 64, 128};
  int good = 1;
  for (int64_t i = on_host() ? 0 : 1; i < COUNT(sides); i++)
    for (int64_t j = on_host() ? 0 : 1; j < COUNT(sides); j++) {
      matrix m = make(2 * sides[i] + 1, 3 * sides[j] - 1, sides[i], sides[j], some);
      layerops_bsr *w = from_dense(&m, LAYEROPS_F32, true);
      good = good && holds(&m, w, LAYEROPS_F32);
      layerops_bsr_destroy(w);
      release(&m);
    }
  ok(good, "%s: every height with every width", device);
}

static void test_side_of_4(void) {
  layerops_bsr *w = NULL;
  layerops_bsr_args args = {.rows = 8,
                            .cols = 8,
                            .block = 8,
                            .width = 4,
                            .type = LAYEROPS_F32,
                            .mask = (uint8_t[]){1, 1}};
  const layerops_status status = layerops_bsr_create(ctx, &args, &w);
  ok(on_host() ? !status && w : status == LAYEROPS_ERROR_UNSUPPORTED && !w,
     "%s: a side of 4 is for processors alone", device);
  layerops_bsr_destroy(w);
}

static void test_long_axes(void) {
  for (int tall = 0; tall < 2; tall++) {
    const int64_t length = 65536 * 8 + 3;
    matrix m = make(tall ? length : 8, tall ? 16 : length, 8, 8, tall ? every_hundredth : all);
    for (int way = 0; way < WAYS; way++) {
      layerops_bsr *w = in_way(way, &m, LAYEROPS_F32);
      ok(holds(&m, w, LAYEROPS_F32), "%s: %lld x %lld blocks from %s", device,
         (long long)m.block_rows, (long long)m.block_cols, ways[way]);
      layerops_bsr_destroy(w);
    }
    release(&m);
  }
}

/* ---- Dense views ---- */

/* W within a larger matrix, of each type that it may have: nothing beside it is read or written. */
static void test_views(void) {
  static const layerops_type dense[] = {LAYEROPS_F32, LAYEROPS_F16, LAYEROPS_BF16, LAYEROPS_F8E4M3,
                                        LAYEROPS_F8E5M2};
  enum { ROWS = 21, COLS = 35, STRIDE = 40, ALL = (ROWS + 2) * STRIDE };
  for (int64_t t = 0; t < COUNT(dense); t++) {
    float host[ALL], back[ALL];
    for (int64_t i = 0; i < ALL; i++) host[i] = NAN;
    for (int64_t i = 0; i < ROWS; i++)
      for (int64_t j = 0; j < COLS; j++)
        host[(i + 1) * STRIDE + j + 2] = i / 16 == 0 && j / 16 == 2 ? 0 : (float)(below(3) + 1);
    void *data = cast(host, dense[t], ALL);
    layerops_matrix whole = put(data, dense[t], ROWS + 2, STRIDE);
    layerops_matrix w = layerops_slice(whole, 1, ROWS, 2, COLS);
    layerops_bsr_dense_args args = {.w = w, .block = 16, .type = LAYEROPS_F16};
    layerops_bsr *bsr = NULL;
    layerops_bsr_info info = {0};
    WORKS(layerops_bsr_from_dense(ctx, &args, &bsr));
    WORKS(layerops_bsr_describe(bsr, &info));
    layerops_fill_args fill = {.y = w, .value = layerops_value(5)};
    WORKS(layerops_fill(ctx, &fill));
    WORKS(layerops_bsr_to_dense(ctx, bsr, w));
    layerops_copy_args copy = {.x = whole,
                               .y = layerops_host_matrix(back, LAYEROPS_F32, ROWS + 2, STRIDE)};
    WORKS(layerops_copy(ctx, &copy));
    int good = info.count == 5;
    for (int64_t i = 0; i < ALL; i++)
      good = good && (isnan(host[i]) ? isnan(back[i]) : host[i] == back[i]);
    ok(good, "%s: a dense view of %s, there and back", device, layerops_type_name(dense[t]));
    layerops_bsr_destroy(bsr);
    layerops_buffer_destroy(whole.buffer);
    free(data);
  }
}

static void test_large_dense(void) { /* more than one strip */
  matrix m = make(1000, 9000, 64, 32, some);
  layerops_bsr *w = from_dense(&m, LAYEROPS_BF16, true);
  ok(holds(&m, w, LAYEROPS_BF16), "%s: a dense matrix of several strips", device);
  layerops_bsr_destroy(w);
  release(&m);
}

/* ---- Values ---- */

static layerops_bsr *of_values(const float *values, layerops_type type, int64_t rows,
                               int64_t cols) {
  layerops_bsr *w = NULL;
  layerops_bsr_dense_args args = {
      .w = layerops_host_matrix(values, LAYEROPS_F32, rows, cols), .block = 8, .type = type};
  WORKS(layerops_bsr_from_dense(ctx, &args, &w));
  return w;
}

static void to_dense(const layerops_bsr *w, float *values, int64_t rows, int64_t cols) {
  WORKS(layerops_bsr_to_dense(ctx, w, layerops_host_matrix(values, LAYEROPS_F32, rows, cols)));
}

/* 8 bits: half a scale at most, whatever the size of a block's elements. */
static void test_quantised(void) {
  enum { BLOCKS = 12, COLS = 8 * BLOCKS };
  static const float sizes[BLOCKS] = {1,      3,      1e-3f, 1e30f, 1e-30f, 1e-37f,
                                      1e-40f, 1e-44f, 3e38f, 0.1f,  127,    2e-38f};
  float values[8 * COLS], back[8 * COLS], scales[BLOCKS];
  for (int64_t i = 0; i < 8 * COLS; i++)
    values[i] = sizes[i % COLS / 8] * ((float)below(2001) / 1000 - 1);
  layerops_bsr *w = of_values(values, LAYEROPS_I8, 8, COLS);
  to_dense(w, back, 8, COLS);
  WORKS(layerops_buffer_read(ctx, layerops_bsr_scales(w).buffer, scales, sizeof scales));
  int good = 1;
  for (int64_t b = 0; b < BLOCKS; b++) {
    float most = 0;
    for (int64_t i = 0; i < 64; i++)
      most = fmaxf(most, fabsf(values[i / 8 * COLS + b * 8 + i % 8]));
    const float scale = fmaxf(most / 127, 0x1p-126f);
    good = good && scales[b] == scale;
    for (int64_t i = 0; i < 64; i++) {
      const int64_t at = i / 8 * COLS + b * 8 + i % 8;
      good = good && fabs((double)back[at] - (double)values[at]) <=
                         0.5 * (double)scale * (1 + 0x1p-20) + 0x1p-149;
    }
  }
  ok(good, "%s: i8 is off by half a scale at most", device);
  layerops_bsr_destroy(w);
}

static void test_special_values(void) {
  for (int64_t t = 0; t < COUNT(types); t++) {
    const bool whole = types[t] == LAYEROPS_I8; /* the block is lost */
    float values[8 * 32] = {0}, back[8 * 32];
    values[3] = NAN, values[8 + 3] = INFINITY, values[16 + 3] = -INFINITY, values[24 + 3] = -0.0f;
    layerops_bsr *w = of_values(values, types[t], 8, 32);
    layerops_bsr_info info = {0};
    WORKS(layerops_bsr_describe(w, &info));
    to_dense(w, back, 8, 32);
    ok(info.count == 3 && isnan(back[3]) && (whole ? isnan(back[11]) : back[11] == INFINITY) &&
           (whole ? isnan(back[19]) : back[19] == -INFINITY) && back[27] == 0 && back[31] == 0 &&
           (whole ? isnan(back[4]) : back[4] == 0),
       "%s: NaN and infinity are kept in %s", device, layerops_type_name(types[t]));
    layerops_bsr_destroy(w);
  }
}

/* Values and scales that are not given; scales of the host. */
static void test_defaults(void) {
  for (int64_t t = 0; t < COUNT(types); t++) {
    matrix m = make(20, 20, 8, 16, all);
    memset(m.dense, 0, 400 * sizeof *m.dense);
    layerops_bsr_args args = args_of(&m, types[t]);
    args.mask = m.mask;
    args.count = 0;
    layerops_bsr *w = NULL;
    WORKS(layerops_bsr_create(ctx, &args, &w));
    ok(holds(&m, w, types[t]), "%s: %s values are zeros where none are given", device,
       layerops_type_name(types[t]));
    layerops_bsr_destroy(w);
    release(&m);
  }
  int8_t values[128];
  float back[64 * 2], want[128];
  const float scales[] = {0.5f, -3};
  for (int i = 0; i < 128; i++) values[i] = (int8_t)(i - 64);
  for (int i = 0; i < 128; i++)
    want[i] = scales[i % 16 / 8] * (float)(i / 16 * 8 + i % 8 + i % 16 / 8 * 64 - 64);
  layerops_bsr_args args = {.rows = 8,
                            .cols = 16,
                            .block = 8,
                            .count = 2,
                            .values = values,
                            .type = LAYEROPS_I8,
                            .scales = scales,
                            .mask = (uint8_t[]){1, 255}};
  layerops_bsr *w = NULL;
  WORKS(layerops_bsr_create(ctx, &args, &w));
  to_dense(w, back, 8, 16);
  ok(!memcmp(back, want, sizeof back), "%s: i8 with scales of the host", device);
  layerops_bsr_destroy(w);
}

static void test_duplicates(void) {
  const int64_t row[] = {9, 0, 9, 9}, column[] = {17, 3, 17, 2};
  const float values[] = {1, 0, 2.5f, -4};
  float back[10 * 18];
  layerops_bsr_elements_args args = {.rows = 10,
                                     .cols = 18,
                                     .block = 8,
                                     .count = 4,
                                     .row = row,
                                     .column = column,
                                     .values = values,
                                     .type = LAYEROPS_F32};
  layerops_bsr *w = NULL;
  layerops_bsr_info info = {0};
  WORKS(layerops_bsr_from_elements(ctx, &args, &w));
  WORKS(layerops_bsr_describe(w, &info));
  to_dense(w, back, 10, 18);
  ok(info.count == 3 && back[9 * 18 + 17] == 3.5f && back[9 * 18 + 2] == -4 && back[3] == 0,
     "%s: elements of one place are added up, and a 0 keeps its block", device);
  layerops_bsr_destroy(w);
}

/* Of CSR any array may be left out. */
static void test_csr_parts(void) {
  matrix m = make(11, 21, 8, 8, all);
  layerops_bsr *w = from_dense(&m, LAYEROPS_F32, true);
  int64_t row_start[12], column[231];
  float values[231];
  WORKS(layerops_bsr_to_csr(ctx, w, row_start, NULL, NULL));
  WORKS(layerops_bsr_to_csr(ctx, w, NULL, column, NULL));
  WORKS(layerops_bsr_to_csr(ctx, w, NULL, NULL, values));
  int good = row_start[0] == 0;
  for (int i = 0; i < 11; i++) good = good && row_start[i + 1] == 21 * (i + 1);
  for (int i = 0; i < 231; i++) good = good && column[i] == i % 21 && values[i] == m.dense[i];
  ok(good, "%s: the arrays of CSR, one by one", device);
  layerops_bsr_destroy(w);
  release(&m);
}

static void run(layerops_context *context, const char *name) {
  ctx = context;
  device = name;
  state = 1;
  test_ways();
  test_sizes();
  test_side_of_4();
  test_long_axes();
  test_views();
  test_large_dense();
  test_quantised();
  test_special_values();
  test_defaults();
  test_duplicates();
  test_csr_parts();
}

int main(void) {
  on_each_device(run);
  return done();
}
