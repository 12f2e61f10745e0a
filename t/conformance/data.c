/* Operands: seeded values, their memory on each side, guards around. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "t/conformance/session.h"

/* ---- memory of a case ---- */

struct cf_block {
  struct cf_block *next;
  size_t mapped; /* bytes of a mapping that begins at `pages`; 0: the block itself is the memory */
  void *pages;
};

static void out_of_memory(size_t bytes) {
  fprintf(stderr, "conformance: no memory for %zu bytes\n", bytes);
  exit(1);
}

static struct cf_block *add_block(cf_session *s, size_t bytes) {
  struct cf_block *block = calloc(1, sizeof *block + bytes);
  if (!block) out_of_memory(bytes);
  block->next = s->blocks;
  s->blocks = block;
  return block;
}

void *cf_memory(cf_session *s, size_t bytes) {
  return add_block(s, bytes) + 1;
}

static size_t up(size_t bytes, size_t page) {
  return (bytes + page - 1) / page * page;
}

/* `bytes` between two pages without access, standing at the start or at the end of the room. */
static void *fenced(cf_session *s, size_t bytes, bool at_start) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = up(bytes ? bytes : 1, page);
  char *pages = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, room, PROT_READ | PROT_WRITE))
    out_of_memory(room + 2 * page);
  struct cf_block *block = add_block(s, 0);
  block->pages = pages;
  block->mapped = room + 2 * page;
  return at_start ? pages + page : pages + page + room - bytes;
}

void cf_free_case(cf_session *s) {
  for (cf_operand *o = s->operands; o; o = o->next)
    for (int side = 0; side < CF_SIDE_COUNT; side++) layerops_buffer_destroy(o->buffer[side]);
  s->operands = NULL;
  for (struct cf_block *b = s->blocks, *next; b; b = next) {
    next = b->next;
    if (b->mapped) munmap(b->pages, b->mapped);
    free(b);
  }
  s->blocks = NULL;
}

/* ---- numbers ---- */

uint64_t cf_random(cf_session *s) { /* splitmix64 */
  uint64_t z = s->random += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double cf_uniform(cf_session *s, double low, double high) {
  return low + (high - low) * (double)(cf_random(s) >> 11) * 0x1p-53;
}

int64_t cf_below(cf_session *s, int64_t limit) {
  return (int64_t)(cf_random(s) % (uint64_t)limit);
}

/* Formats of 16 and 8 bits: 1 sign, exponents, digits. */
typedef struct format {
  int digits, bias;
  unsigned sign;
  unsigned largest;     /* the code of the largest number, */
  unsigned beyond, nan; /* of what is larger, of NaN */
  bool has_infinity;    /* behind the largest number */
} format;

static const format formats[LAYEROPS_TYPE_COUNT] = {
    [LAYEROPS_F16] = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7e40, true},
    [LAYEROPS_BF16] = {7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7fc0, true},
    [LAYEROPS_F8E4M3] = {3, 7, 0x80, 0x7e, 0x7e, 0x7f, false},
    [LAYEROPS_F8E5M2] = {2, 15, 0x80, 0x7b, 0x7b, 0x7f, true},
};

static double magnitude_of(const format *f, unsigned code) {
  int exponent = (int)(code >> f->digits);
  double fraction = (double)(code & ((1u << f->digits) - 1));
  if (code > f->largest) return code == f->largest + 1 && f->has_infinity ? INFINITY : NAN;
  if (exponent) fraction += 1 << f->digits;
  return ldexp(fraction, (exponent ? exponent : 1) - f->bias - f->digits);
}

/* All magnitudes of a format, computed once. */
static const double *magnitudes(layerops_type type) {
  static double all[LAYEROPS_TYPE_COUNT][0x8000];
  static bool ready;
  for (int t = 0; !ready && t < LAYEROPS_TYPE_COUNT; t++)
    for (unsigned code = 0; code < formats[t].sign; code++)
      all[t][code] = magnitude_of(&formats[t], code);
  ready = true;
  return all[type];
}

static double decode_code(layerops_type type, unsigned code) {
  const unsigned sign = formats[type].sign;
  double magnitude = magnitudes(type)[code & (sign - 1)];
  return code & sign ? -magnitude : magnitude;
}

/* The last of the finite numbers of the format that is not above x, at least 0: those of one
 * exponent are evenly spaced, and so are those below the first. */
static unsigned last_below(layerops_type type, double x) {
  const double *all = magnitudes(type);
  const format *f = &formats[type];
  int exponent;
  if (x >= all[f->largest]) return f->largest;
  frexp(x, &exponent);
  exponent += f->bias - 1;
  unsigned first = x == 0 || exponent < 1 ? 0 : (unsigned)exponent << f->digits;
  return first + (unsigned)((x - all[first]) / (all[first + 1] - all[first]));
}

/* The nearest of all numbers of the format; the even one of two equally near. */
static unsigned encode_code(layerops_type type, double x) {
  const format *f = &formats[type];
  unsigned sign = signbit(x) ? f->sign : 0;
  double magnitude = fabs(x);
  if (isnan(x)) return sign | f->nan;
  if (isinf(x)) return sign | f->beyond;
  const double *all = magnitudes(type);
  unsigned low = last_below(type, magnitude), high = low == f->largest ? f->beyond : low + 1;
  double below = all[low];
  /* what the number that would follow the largest stands for when rounding */
  double above = low == f->largest ? 2 * below - all[low - 1] : all[high];
  double rest = magnitude - below, gap = above - magnitude;
  bool rounds_up = rest > gap || (rest == gap && (low & 1));
  return sign | (rounds_up ? high : low);
}

static double draw_range(cf_session *s, layerops_type type) {
  double low = type == LAYEROPS_U8 ? 0 : -128, at = (double)cf_below(s, 320) - 32;
  return low + (at < 0 ? 0 : at > 255 ? 255 : at);
}

/* Any number of an 8-bit float. */
static double draw_code(cf_session *s, layerops_type type) {
  const unsigned code = (unsigned)cf_below(s, formats[type].largest + 1);
  return cf_below(s, 2) ? -magnitudes(type)[code] : magnitudes(type)[code];
}

static double draw(cf_session *s, layerops_type type, cf_fill fill) {
  switch (fill) {
  case CF_ONE:
    return 1;
  case CF_REAL:
    return cf_uniform(s, -1, 1);
  case CF_UNIT:
    return cf_uniform(s, 0, 1);
  case CF_WIDE:
    return cf_uniform(s, -12, 12);
  case CF_INTEGER:
    return (double)(cf_below(s, 9) - 4);
  case CF_RANGE:
    return formats[type].sign ? draw_code(s, type) : draw_range(s, type);
  case CF_NAN:
    return NAN;
  default:
    return 0;
  }
}

static double saturated(double x, double low, double high) {
  if (isnan(x)) return 0;
  return x < low ? low : x > high ? high : nearbyint(x);
}

void cf_encode(layerops_type type, double x, void *element) {
  float f;
  int32_t i;
  uint16_t h;
  switch (type) {
  case LAYEROPS_F32:
    f = (float)x;
    memcpy(element, &f, sizeof f);
    break;
  case LAYEROPS_I32:
    i = (int32_t)saturated(x, INT32_MIN, INT32_MAX);
    memcpy(element, &i, sizeof i);
    break;
  case LAYEROPS_I8:
    *(int8_t *)element = (int8_t)saturated(x, INT8_MIN, INT8_MAX);
    break;
  case LAYEROPS_U8:
    *(uint8_t *)element = (uint8_t)saturated(x, 0, UINT8_MAX);
    break;
  case LAYEROPS_F8E4M3:
  case LAYEROPS_F8E5M2:
    *(uint8_t *)element = (uint8_t)encode_code(type, x);
    break;
  default:
    h = (uint16_t)encode_code(type, x);
    memcpy(element, &h, sizeof h);
  }
}

double cf_decode(layerops_type type, const void *element) {
  float f;
  int32_t i;
  uint16_t h;
  switch (type) {
  case LAYEROPS_F32:
    memcpy(&f, element, sizeof f);
    return f;
  case LAYEROPS_I32:
    memcpy(&i, element, sizeof i);
    return i;
  case LAYEROPS_I8:
    return *(const int8_t *)element;
  case LAYEROPS_U8:
    return *(const uint8_t *)element;
  case LAYEROPS_F8E4M3:
  case LAYEROPS_F8E5M2:
    return decode_code(type, *(const uint8_t *)element);
  default:
    memcpy(&h, element, sizeof h);
    return decode_code(type, h);
  }
}

double cf_rounded(layerops_type type, double x) {
  unsigned char element[8];
  cf_encode(type, x, element);
  return cf_decode(type, element);
}

/* ---- operands ---- */

/* Guard elements behind the view; before it stand `offset` of them. */
enum { GUARD = 16 };

static int64_t view_elements(const layerops_matrix *v) {
  if (!v->rows || !v->cols || !v->batch) return 0;
  return (v->batch - 1) * v->batch_stride + (v->rows - 1) * v->stride + v->cols;
}

static int64_t stride_of(int64_t cols, int64_t pad) {
  return pad < 0 ? (cols - pad - 1) / -pad * -pad : cols + pad;
}

cf_operand *cf_batched(cf_session *s, const char *name, layerops_type type, int64_t batch,
                       int64_t rows, int64_t cols, cf_fill fill) {
  cf_operand *o = cf_memory(s, sizeof *o);
  o->session = s;
  o->name = name;
  o->narrow = s->narrow;
  o->shape = layerops_matrix_make(NULL, NULL, type, rows, cols);
  o->shape.stride = stride_of(cols, s->layout.pad);
  o->shape.batch = batch;
  if (batch != 1) o->shape.batch_stride = rows * o->shape.stride + s->layout.gap;
  o->shape.offset = s->variant == CF_PAGE_START ? 0 : s->layout.offset;
  o->count = batch * rows * cols;
  o->elements = o->shape.offset + view_elements(&o->shape);
  if (!s->on_host || s->variant != CF_HOST) o->elements += GUARD;
  o->values = cf_memory(s, (size_t)o->count * sizeof *o->values);
  for (int64_t i = 0; i < o->count; i++) o->values[i] = draw(s, type, fill);
  o->next = s->operands;
  s->operands = o;
  return o;
}

cf_operand *cf_matrix(cf_session *s, const char *name, layerops_type type, int64_t rows,
                      int64_t cols, cf_fill fill) {
  return cf_batched(s, name, type, 1, rows, cols, fill);
}

cf_operand *cf_output(cf_session *s, const char *name, layerops_type type, int64_t rows,
                      int64_t cols, cf_fill fill) {
  cf_operand *o = cf_matrix(s, name, type, rows, cols, fill);
  o->is_output = true;
  return o;
}

void cf_set(cf_operand *o, int64_t i, int64_t j, double value) {
  o->values[i * o->shape.cols + j] = value;
}

void cf_plant(cf_session *s, cf_operand *o) {
  static const double strange[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; o->count && i < 3; i++) o->values[cf_below(s, o->count)] = strange[i];
}

unsigned char *cf_element_of(const cf_operand *o, layerops_type type, void *memory, int64_t n) {
  const layerops_matrix *v = &o->shape;
  int64_t at = v->offset + n;
  if (v->batch != 1 || v->stride != v->cols) { /* divisions are slow */
    int64_t i = n / v->cols, l = v->batch == 1 ? 0 : i / v->rows;
    at += i * (v->stride - v->cols) + l * (v->batch_stride - v->rows * v->stride);
  }
  return (unsigned char *)memory + (size_t)at * layerops_type_size(type);
}

static void fill_image(cf_operand *o) {
  for (int64_t n = 0; n < o->count; n++) {
    unsigned char *element = cf_element_of(o, o->shape.type, o->image, n);
    cf_encode(o->shape.type, o->values[n], element);
    o->values[n] = cf_decode(o->shape.type, element);
  }
}

static layerops_type type_on(const cf_operand *o, int side) {
  return side == CF_REFERENCE ? o->seen : o->shape.type;
}

static size_t bytes_on(const cf_operand *o, int side) {
  return (size_t)o->elements * layerops_type_size(type_on(o, side));
}

/* The memory of a side as it is before the call. */
static void *image_on(cf_operand *o, int side) {
  layerops_type type = type_on(o, side);
  if (type == o->shape.type) return o->image;
  unsigned char *image = cf_memory(o->session, bytes_on(o, side));
  memset(image, 0xff, bytes_on(o, side));
  for (int64_t n = 0; n < o->count; n++)
    cf_encode(type, o->values[n], cf_element_of(o, type, image, n));
  return image;
}

static void place(cf_operand *o, int side) {
  cf_session *s = o->session;
  size_t bytes = bytes_on(o, side);
  bool device = side != CF_REFERENCE;
  if (device && s->on_host && (s->variant == CF_HOST || s->variant == CF_PAGE_START))
    o->memory[side] = fenced(s, bytes, s->variant == CF_PAGE_START);
  else if (!device || s->variant == CF_HOST)
    o->memory[side] = cf_memory(s, bytes);
  if (o->memory[side])
    memcpy(o->memory[side], image_on(o, side), bytes);
  else if (layerops_buffer_from(s->ctx[side], o->image, (int64_t)bytes, &o->buffer[side]))
    cf_fail(s, "%s: %s", o->name, layerops_last_error());
}

/* Bytes of ones are NaN in all float types: who reads a guard or padding into a sum shows it. */
static void make(cf_operand *o) {
  size_t bytes = (size_t)o->elements * layerops_type_size(o->shape.type);
  bool half = o->shape.type == LAYEROPS_F16 || o->shape.type == LAYEROPS_BF16;
  o->made = true;
  o->seen = half && o->is_output && !o->narrow ? LAYEROPS_F32 : o->shape.type;
  o->image = cf_memory(o->session, bytes);
  memset(o->image, 0xff, bytes);
  fill_image(o);
  for (int side = 0; side < CF_SIDE_COUNT; side++)
    if (side != CF_AGAIN || o->session->variant == CF_TWICE) place(o, side);
}

layerops_matrix cf_on(cf_operand *o, int side) {
  if (!o) return (layerops_matrix){0};
  if (!o->made) make(o);
  layerops_matrix view = o->shape;
  view.type = type_on(o, side);
  view.host = o->memory[side];
  view.buffer = view.host ? NULL : o->buffer[side];
  return view;
}

/* Scalars are never in host memory, so such an operand is wrapped where its memory is not a buffer.
 */
layerops_scalar cf_element(cf_operand *o, int side) {
  cf_on(o, side);
  cf_session *s = o->session;
  int64_t bytes = (int64_t)bytes_on(o, side);
  layerops_status status = LAYEROPS_OK;
  if (!o->buffer[side] && (side == CF_REFERENCE || s->on_host))
    status = layerops_buffer_wrap(s->ctx[side], o->memory[side], bytes, &o->buffer[side]);
  else if (!o->buffer[side])
    status = layerops_buffer_from(s->ctx[side], o->image, bytes, &o->buffer[side]);
  if (status) cf_fail(s, "%s: %s", o->name, layerops_last_error());
  return layerops_element(o->buffer[side], o->shape.offset);
}

unsigned char *cf_memory_now(cf_operand *o, int side) {
  cf_session *s = o->session;
  if (o->memory[side]) return o->memory[side];
  int64_t bytes = (int64_t)bytes_on(o, side);
  unsigned char *copy = cf_memory(s, (size_t)bytes);
  if (o->buffer[side] && layerops_buffer_read(s->ctx[side], o->buffer[side], copy, bytes))
    cf_fail(s, "%s cannot be read: %s", o->name, layerops_last_error());
  return copy;
}

double *cf_read(cf_session *s, cf_operand *o, int side) {
  unsigned char *memory = cf_memory_now(o, side);
  double *values = cf_memory(s, (size_t)o->count * sizeof *values);
  for (int64_t n = 0; n < o->count; n++)
    values[n] = cf_decode(type_on(o, side), cf_element_of(o, type_on(o, side), memory, n));
  return values;
}

void cf_rewrite(cf_session *s, cf_operand *o) {
  fill_image(o);
  for (int side = 0; side < CF_SIDE_COUNT; side++) {
    size_t bytes = bytes_on(o, side);
    void *image = image_on(o, side);
    if (o->memory[side]) memcpy(o->memory[side], image, bytes);
    if (o->buffer[side] &&
        layerops_buffer_write(s->ctx[side], o->buffer[side], image, (int64_t)bytes))
      cf_fail(s, "%s cannot be written: %s", o->name, layerops_last_error());
  }
}
