#include <config.h>

#include "bench/operands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tolerance.h"

#define MAX_SAMPLES 1024

enum { F32, F16, BF16, U8, I8, E4M3, E5M2 };

static const struct bench_type i8 = {.name = "i8", .element = "i8", .size = 1, .format = I8};

/* Bytes whose Y is of another type, which says how storing rounds; and pairs of X and W. */
#define F8(name, element, format, fast)                                                            \
  { name, element, 1, 0x1p-8, 0x1p-133, format, NULL, &bench_types[BF16], NULL, 0, fast }
#define F32_WITH(name, w)                                                                          \
  { name, "f32", 4, 0x1p-24, 0x1p-149, F32, w, &bench_types[F32], NULL, 0, false }
#define F16_WITH(name, w)                                                                          \
  { name, "f16", 2, 0x1p-11, 0x1p-25, F16, w, &bench_types[F16], NULL, 0, false }
#define BF16_WITH(name, w)                                                                         \
  { name, "bf16", 2, 0x1p-8, 0x1p-133, BF16, w, &bench_types[BF16], NULL, 0, false }
static const struct bench_type e4m3 = {
    .name = "f8e4m3", .element = "f8e4m3", .size = 1, .format = E4M3};
static const struct bench_type e5m2 = {
    .name = "f8e5m2", .element = "f8e5m2", .size = 1, .format = E5M2};

const struct bench_type bench_types[] = {
    {"f32", "f32", 4, 0x1p-24, 0x1p-149, F32, NULL, NULL, NULL, 0, false},
    {"f16", "f16", 2, 0x1p-11, 0x1p-25, F16, NULL, NULL, NULL, 0, false},
    {"bf16", "bf16", 2, 0x1p-8, 0x1p-133, BF16, NULL, NULL, NULL, 0, false},
    {"int8", "u8", 1, 0x1p-24, 0x1p-149, U8, &i8, &bench_types[F32], NULL, 0, false},
    /* hardware may cut TF32's ten bits of fraction off instead of rounding to them */
    {"tf32", "f32", 4, 0x1p-24, 0x1p-149, F32, NULL, NULL, NULL, 0x1p-10, false},
    F8("f8e4m3", "f8e4m3", E4M3, false),
    F8("f8e5m2", "f8e5m2", E5M2, false),
    F8("f8e4m3:fast", "f8e4m3", E4M3, true),
    F8("f8e5m2:fast", "f8e5m2", E5M2, true),
    F32_WITH("f32:i8", &i8),
    F16_WITH("f16:i8", &i8),
    F16_WITH("f16:f8e4m3", &e4m3),
    F16_WITH("f16:f8e5m2", &e5m2),
    BF16_WITH("bf16:i8", &i8),
    BF16_WITH("bf16:f8e4m3", &e4m3),
    BF16_WITH("bf16:f8e5m2", &e5m2),
    {NULL, NULL, 0, 0, 0, 0, NULL, NULL, NULL, 0, false}};

static const struct bench_type int8_of_gpus = {
    "int8", "i8", 1, 0x1p-24, 0x1p-149, I8, &i8, &i8, &bench_types[F32], 0, false};

const struct bench_type *bench_type_find(const char *name) {
  for (const struct bench_type *t = bench_types; t->name; t++)
    if (!strcmp(t->name, name)) return t;
  return NULL;
}

const struct bench_type *bench_type_on(const struct bench_type *type, const char *kind) {
  return type->format == U8 && !strcmp(kind, "cuda") ? &int8_of_gpus : type;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Through double: the value as a multiple of the spacing of f16 at its size, rounded to even. */
static uint16_t to_f16(float value) {
  uint16_t sign = (uint16_t)(bits_of(value) >> 16 & 0x8000);
  double size = fabs((double)value);
  int exponent;
  if (isnan(value)) return 0x7e00;
  if (size == 0) return sign;
  if (size >= 65520) return sign | 0x7c00;
  frexp(size, &exponent);
  if (exponent < -13) exponent = -13; /* subnormals share one spacing */
  long steps = lrint(ldexp(size, 11 - exponent));
  return sign | (uint16_t)(((exponent + 13) << 10) + steps);
}

static double from_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                : exponent == 0 ? ldexp(fraction, -24)
                                : ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

static uint16_t to_bf16(float value) {
  uint32_t bits = bits_of(value);
  if (isnan(value)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* 8-bit floats: the same as f16, with less digits, and saturated. */
static const struct {
  int digits, least; /* of fraction; frexp's exponent of the smallest normal number */
  unsigned largest;  /* its code */
  double most;
} f8[] = {[E4M3] = {3, -5, 0x7e, 448}, [E5M2] = {2, -13, 0x7b, 57344}};

static uint8_t to_f8(int format, float value) {
  uint8_t sign = (uint8_t)(bits_of(value) >> 24 & 0x80);
  double size = fmin(fabs((double)value), f8[format].most);
  int exponent;
  if (isnan(value)) return 0x7f;
  frexp(size, &exponent);
  if (exponent < f8[format].least || size == 0) exponent = f8[format].least;
  long steps = lrint(ldexp(size, f8[format].digits + 1 - exponent));
  return (uint8_t)(sign | (((exponent - f8[format].least) << f8[format].digits) + steps));
}

static double from_f8(int format, uint8_t bits) {
  int digits = f8[format].digits, code = bits & 0x7f, exponent = code >> digits;
  int fraction = code & ((1 << digits) - 1), one = exponent ? 1 << digits : 0;
  double size =
      ldexp(one + fraction, f8[format].least - 1 - digits + (exponent ? exponent - 1 : 0));
  if (code > (int)f8[format].largest) size = fraction || format == E4M3 ? NAN : INFINITY;
  return bits & 0x80 ? -size : size;
}

static long to_integer(float value, float low, float high) {
  return lrintf(fminf(fmaxf(value, low), high));
}

double bench_load(const struct bench_type *type, const void *array, int64_t index) {
  switch (type->format) {
  case F32:
    return ((const float *)array)[index];
  case F16:
    return from_f16(((const uint16_t *)array)[index]);
  case U8:
    return ((const uint8_t *)array)[index];
  case I8:
    return ((const int8_t *)array)[index];
  case E4M3:
  case E5M2:
    return from_f8(type->format, ((const uint8_t *)array)[index]);
  default:
    return from_bf16(((const uint16_t *)array)[index]);
  }
}

void bench_store(const struct bench_type *type, void *array, int64_t index, float value) {
  switch (type->format) {
  case F32:
    ((float *)array)[index] = value;
    break;
  case F16:
    ((uint16_t *)array)[index] = to_f16(value);
    break;
  case U8:
    ((uint8_t *)array)[index] = (uint8_t)to_integer(value, 0, 255);
    break;
  case I8:
    ((int8_t *)array)[index] = (int8_t)to_integer(value, -128, 127);
    break;
  case E4M3:
  case E5M2:
    ((uint8_t *)array)[index] = to_f8(type->format, value);
    break;
  default:
    ((uint16_t *)array)[index] = to_bf16(value);
  }
}

/* Two uniform numbers give two normal ones (Box and Muller). Pairs are drawn by their index, so
   that threads can share the work. */
static void normal_pair(uint64_t state, float *a, float *b) {
  uint64_t bits = bench_splitmix64(&state);
  float u = (float)((bits >> 40) + 1) * 0x1p-24f, v = (float)(bits & 0xffffff) * 0x1p-24f;
  float radius = sqrtf(-2 * logf(u)), angle = 6.2831853f * v;
  *a = radius * cosf(angle);
  *b = radius * sinf(angle);
}

void bench_normal(const struct bench_type *type, void *array, int64_t count, double scale,
                  uint64_t seed, uint64_t stream) {
  uint64_t state = seed ^ stream << 56;
  uint64_t base = bench_splitmix64(&state);
#pragma omp parallel for schedule(static) if (count > 65536)
  for (int64_t i = 0; i < count; i += 2) {
    float a, b;
    normal_pair(base + (uint64_t)i * UINT64_C(0xd1342543de82ef95), &a, &b);
    bench_store(type, array, i, (float)scale * a);
    if (i + 1 < count) bench_store(type, array, i + 1, (float)scale * b);
  }
}

/* Whether the machine has the memory at all: what it promises beyond that, it kills for. Twice,
   since the library holds a copy. */
static bool fits_memory(const struct bench_row *row, const struct bench_type *type) {
  double m = (double)row->m, n = (double)row->n, k = (double)row->k;
  double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  double x_size = (double)type->size, w_size = (double)bench_type_w(type)->size;
  double y_size = (double)bench_type_y(type)->size;
  return 2 * (x_size * m * k + w_size * n * k + y_size * m * n) < memory;
}

static void *allocate(int64_t elements, size_t size) {
  return aligned_alloc(64, ((size_t)elements * size + 127) / 64 * 64);
}

/* Numbers of integers are so many to 1; those of a Y of integers are as X's, so that it can be the
   next layer's X. */
static const float w_steps = 32;

static bool is_integer(const struct bench_type *type) {
  return type->format == U8 || type->format == I8;
}

static float x_steps(const struct bench_type *type) {
  return type->format == U8 ? 64 : type->format == I8 ? 32 : 1;
}

static bool make_scales(struct bench_operands *o) {
  const int64_t count = o->row->block ? bench_pattern_kept(&o->pattern) : o->row->n;
  o->scale_w = allocate(count, sizeof *o->scale_w);
  if (is_integer(o->type)) o->scale_x = 1 / x_steps(o->type);
  if (bench_type_y(o->type)->format == I8) o->scale_y = o->scale_x;
  for (int64_t j = 0; o->scale_w && j < count; j++)
    o->scale_w[j] = (float)(8 + j % 7) / 8 / (w_steps * sqrtf((float)o->row->k));
  return o->scale_w != NULL;
}

static void fill(struct bench_operands *o, uint64_t seed) {
  const struct bench_row *row = o->row;
  const double root = sqrt((double)row->k);
  bench_normal(o->type, o->x, row->m * row->k, x_steps(o->type), seed, 0);
  bench_normal(bench_type_w(o->type), o->w, o->w_count, o->scale_w ? w_steps : 1 / root, seed, 1);
  if (o->product != BENCH_FORWARD)
    bench_normal(bench_type_y(o->type), o->y, row->m * row->n, 1, seed, 3);
  if (o->bias) bench_normal(bench_type_bias(o->type), o->bias, row->n, 1, seed, 2);
  bench_operands_poison(o);
}

static char *name_of(const struct bench_row *row, enum bench_product product) {
  char *name;
  if (product == BENCH_FORWARD) return strdup(row->id);
  return asprintf(&name, "%s/%s", row->id, bench_products[product]) < 0 ? NULL : name;
}

bool bench_operands_make(const struct bench_row *row, const struct bench_type *type,
                         enum bench_product product, uint64_t seed, struct bench_operands *o) {
  const size_t y_size = bench_type_y(type)->size;
  *o = (struct bench_operands){
      .row = row, .type = type, .product = product, .w_count = row->n * row->k};
  bool good = fits_memory(row, type);
  if (!good) return false;
  o->name = name_of(row, product);
  if (row->block) {
    good = bench_pattern_make(row->id, row->pattern, row->n / row->block, row->k / row->block,
                              row->density, &o->pattern);
    o->w_count = good ? bench_pattern_kept(&o->pattern) * row->block * row->block : 0;
  } else {
    o->bias = allocate(row->n, bench_type_bias(type)->size);
  }
  if (good && is_integer(bench_type_w(type))) good = make_scales(o);
  o->x = allocate(row->m * row->k, type->size);
  o->w = allocate(o->w_count, bench_type_w(type)->size);
  o->y = allocate(row->m * row->n, y_size);
  if (!good || !o->name || !o->x || !o->w || !o->y || (!row->block && !o->bias)) {
    bench_operands_free(o);
    return false;
  }
  fill(o, seed);
  return true;
}

bool bench_operands_widen(const struct bench_operands *o, struct bench_row *row,
                          struct bench_operands *wide) {
  const struct bench_pattern *p = &o->pattern;
  const size_t size = bench_type_w(o->type)->size;
  const int64_t b = o->row->block, k = o->row->k;
  *row = *o->row;
  row->block = 0;
  *wide = *o;
  wide->row = row;
  wide->pattern = (struct bench_pattern){0};
  wide->w_count = row->n * k;
  wide->w = o->scale_w ? NULL : allocate(wide->w_count, size);
  if (!wide->w) return false;
  memset(wide->w, 0, (size_t)wide->w_count * size);
  for (int64_t r = 0; r < p->rows; r++)
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++)
      for (int64_t i = 0; i < b; i++)
        memcpy((char *)wide->w + (size_t)((r * b + i) * k + p->col[e] * b) * size,
               (const char *)o->w + (size_t)((e * b + i) * b) * size, (size_t)b * size);
  return true;
}

void bench_operands_damp(struct bench_operands *o) {
  const struct bench_type *type = bench_type_w(o->type);
  const int64_t scales = o->row->block ? bench_pattern_kept(&o->pattern) : o->row->n;
  for (int64_t j = 0; o->scale_w && j < scales; j++) o->scale_w[j] *= 0.5f;
  if (o->scale_w) return;
#pragma omp parallel for schedule(static) if (o->w_count > 65536)
  for (int64_t i = 0; i < o->w_count; i++)
    bench_store(type, o->w, i, (float)(0.5 * bench_load(type, o->w, i)));
}

void bench_operands_free(struct bench_operands *o) {
  bench_pattern_free(&o->pattern);
  free(o->name);
  free(o->x);
  free(o->w);
  free(o->bias);
  free(o->scale_w);
  free(o->y);
  *o = (struct bench_operands){0};
}

struct bench_output bench_operands_output(const struct bench_operands *o) {
  const struct bench_row *row = o->row;
  const int64_t width = row->block ? row->block : row->k;
  switch (o->product) {
  case BENCH_DGRAD:
    return (struct bench_output){o->x, o->type, row->m, row->k};
  case BENCH_WGRAD:
    return (struct bench_output){o->w, bench_type_w(o->type), o->w_count / width, width};
  default:
    return (struct bench_output){o->y, bench_type_y(o->type), row->m, row->n};
  }
}

void bench_operands_poison(struct bench_operands *o) {
  const struct bench_output out = bench_operands_output(o);
  memset(out.data, 0xff, (size_t)(out.rows * out.cols) * out.type->size);
}

static double activate(int activation, double z) {
  switch (activation) {
  case 1:
    return z < 0 ? 0 : z;
  case 2:
    return z < 0 ? 0.01 * z : z;
  case 3:
    return 0.5 * z * erfc(-z * 0.70710678118654752);
  case 4:
    return 0.5 * z * (1 + tanh(0.79788456080286536 * (z + 0.044715 * z * z * z)));
  case 5:
    return z / (1 + exp(-z));
  case 6:
    return 1 / (1 + exp(-z));
  case 7:
    return tanh(z);
  default:
    return z;
  }
}

/* Elements of an operand that lie so far apart. */
struct line {
  const struct bench_type *type;
  const void *data;
  int64_t at, step;
};

struct sum {
  double value, size; /* of its terms' sizes */
};

/* Adds SCALE times the products of COUNT elements. */
static void add_dot(struct sum *sum, struct line a, struct line b, int64_t count, double scale) {
  for (int64_t l = 0; l < count; l++) {
    double product = scale * bench_load(a.type, a.data, a.at + l * a.step) *
                     bench_load(b.type, b.data, b.at + l * b.step);
    sum->value += product;
    sum->size += fabs(product);
  }
}

static struct line line_of_x(const struct bench_operands *o, int64_t at, int64_t step) {
  return (struct line){o->type, o->x, at, step};
}

static struct line line_of_w(const struct bench_operands *o, int64_t at, int64_t step) {
  return (struct line){bench_type_w(o->type), o->w, at, step};
}

static struct line line_of_y(const struct bench_operands *o, int64_t at, int64_t step) {
  return (struct line){bench_type_y(o->type), o->y, at, step};
}

static double block_scale(const struct bench_operands *o, int64_t block) {
  return o->scale_w ? (double)o->scale_w[block] : 1;
}

/* The exact entries of what a product makes, before an activation. */

static struct sum dense_forward(const struct bench_operands *o, int64_t i, int64_t j) {
  const int64_t k = o->row->k;
  const double bias = o->bias ? bench_load(bench_type_bias(o->type), o->bias, j) : 0;
  const double scale =
      (o->scale_x > 0 ? (double)o->scale_x : 1) * (o->scale_w ? (double)o->scale_w[j] : 1);
  struct sum sum = {0};
  add_dot(&sum, line_of_x(o, i * k, 1), line_of_w(o, j * k, 1), k, 1);
  return (struct sum){sum.value * scale + bias, sum.size * scale + fabs(bias)};
}

static struct sum dense_dgrad(const struct bench_operands *o, int64_t i, int64_t j) {
  struct sum sum = {0};
  add_dot(&sum, line_of_y(o, i * o->row->n, 1), line_of_w(o, j, o->row->k), o->row->n, 1);
  return sum;
}

static struct sum dense_wgrad(const struct bench_operands *o, int64_t i, int64_t j) {
  struct sum sum = {0};
  add_dot(&sum, line_of_y(o, i, o->row->n), line_of_x(o, j, o->row->k), o->row->m, 1);
  return sum;
}

static struct sum sparse_forward(const struct bench_operands *o, int64_t i, int64_t j) {
  const int64_t b = o->row->block, k = o->row->k;
  const struct bench_pattern *p = &o->pattern;
  struct sum sum = {0};
  for (int32_t e = p->row_start[j / b]; e < p->row_start[j / b + 1]; e++)
    add_dot(&sum, line_of_x(o, i * k + p->col[e] * b, 1), line_of_w(o, (e * b + j % b) * b, 1), b,
            block_scale(o, e));
  return sum;
}

static struct sum sparse_dgrad(const struct bench_operands *o, int64_t i, int64_t j) {
  const int64_t b = o->row->block, n = o->row->n;
  const struct bench_pattern *p = &o->pattern;
  struct sum sum = {0};
  for (int64_t r = 0; r < p->rows; r++)
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++)
      if (p->col[e] == j / b)
        add_dot(&sum, line_of_y(o, i * n + r * b, 1), line_of_w(o, e * b * b + j % b, b), b,
                block_scale(o, e));
  return sum;
}

/* Row i is one of a block's, and the blocks lie one below the other. */
static struct sum sparse_wgrad(const struct bench_operands *o, int64_t i, int64_t j) {
  const struct bench_row *row = o->row;
  const int64_t b = row->block, e = i / b;
  const struct bench_pattern *p = &o->pattern;
  int64_t r = 0;
  while (p->row_start[r + 1] <= e) r++;
  struct sum sum = {0};
  add_dot(&sum, line_of_y(o, r * b + i % b, row->n), line_of_x(o, p->col[e] * b + j, row->k),
          row->m, 1);
  return sum;
}

static struct sum exact(const struct bench_operands *o, int64_t i, int64_t j) {
  static struct sum (*const products[2][BENCH_PRODUCTS])(const struct bench_operands *, int64_t,
                                                         int64_t) = {
      {dense_forward, dense_dgrad, dense_wgrad}, {sparse_forward, sparse_dgrad, sparse_wgrad}};
  return products[o->row->block > 0][o->product](o, i, j);
}

/* So many terms has an entry, at most. */
static int64_t terms(const struct bench_operands *o) {
  const struct bench_row *row = o->row;
  return o->product == BENCH_FORWARD ? row->k : o->product == BENCH_DGRAD ? row->n : row->m;
}

/* What rounding explains. Factors that were cut change a product by as much as both of them. A
   chain of k roundings stays below 6 sqrt(k) units of f32 but with a probability of 2 exp(-18) an
   entry (Higham and Mary, 2019), sums of integers are exact, those of 8-bit floats may be tensor
   cores' (common/tolerance.h); a few more for bias and activation,
   whose slope is below 1.13; and the rounding of what is stored. */
static double tolerance(const struct bench_operands *o, bool parts, double size, double y) {
  double chain = is_integer(o->type) ? 0 : 6 * sqrt((double)terms(o));
  if (o->type->format >= E4M3) chain += lo_f8_steps(terms(o), o->type->fast);
  double part = parts ? o->type->rounding : 0; /* of two halves as large as their terms */
  double sum = ((chain + 8) * 0x1p-24 + 2.01 * o->type->truncation + part) * size;
  return 1.13 * sum + (o->type->rounding + 0x1p-20) * fabs(y) + o->type->subnormal +
         0.5 * o->scale_y;
}

static void check_entry(const struct bench_operands *o, struct bench_latitude latitude, int64_t i,
                        int64_t j, struct bench_check *check) {
  const struct bench_output out = bench_operands_output(o);
  const struct sum sum = exact(o, i, j);
  double size = sum.size, step = o->scale_y;
  double expected = activate(latitude.activation, sum.value);
  double got = bench_load(out.type, out.data, i * out.cols + j);
  if (step > 0) {
    got *= step;
    expected = fmin(fmax(expected, -128 * step), 127 * step);
  }
  double distance = fabs(got - expected);
  double error = isnan(got) ? INFINITY : distance == 0 ? 0 : distance / fmax(size, fabs(expected));
  bool wrong = !(distance <= tolerance(o, latitude.parts, size, expected));
  if (wrong) check->wrong = true;
  if (error < check->max_rel_err) return;
  check->max_rel_err = error;
  check->row = i;
  check->col = j;
  check->got = got;
  check->expected = expected;
}

static int64_t pick(uint64_t *state, int64_t size) {
  static const int edges = 8; /* one in so many is the first, one the last */
  uint64_t r = bench_splitmix64(state);
  if (r % edges == 0) return 0;
  if (r % edges == 1) return size - 1;
  return (int64_t)((r >> 8) % (uint64_t)size);
}

struct bench_check bench_operands_check(const struct bench_operands *o) {
  return bench_operands_check_as(o, (struct bench_latitude){.activation = o->row->activation});
}

struct bench_check bench_operands_check_as(const struct bench_operands *o,
                                           struct bench_latitude latitude) {
  struct bench_check check = {0};
  const struct bench_output out = bench_operands_output(o);
  uint64_t state = 1;
  if (out.rows <= MAX_SAMPLES / out.cols) {
    for (int64_t i = 0; i < out.rows * out.cols; i++)
      check_entry(o, latitude, i / out.cols, i % out.cols, &check);
    return check;
  }
  for (int i = 0; i < MAX_SAMPLES; i++) {
    int64_t row = pick(&state, out.rows);
    check_entry(o, latitude, row, pick(&state, out.cols), &check);
  }
  return check;
}
