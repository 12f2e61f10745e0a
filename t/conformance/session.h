/* What the checks are made of: sessions, operands, cases.
 *
 * A case makes operands, calls the operation once on each side, and ends: all memory of all
 * operands is then compared, elements within their bounds, everything else bit by bit.
 *
 *   cf_case(s, "m=%d", m);
 *   cf_operand *x = cf_matrix(s, "x", type, m, n, CF_REAL), *y = cf_output(...);
 *   CF_SIDES(s, side) {
 *     layerops_copy_args args = {.x = cf_on(x, side), .y = cf_on(y, side)};
 *     CF_CALL(s, side, copy, &args);
 *   }
 *   y->bound = ...;                       (absent: exact)
 *   cf_end(s);
 */
#ifndef CF_SESSION_H
#define CF_SESSION_H

#include <stdbool.h>

#include "t/conformance/conformance.h"

/* The device, the reference, and the device once more (where a check runs twice: the bits must
 * agree). */
enum { CF_DEVICE, CF_REFERENCE, CF_AGAIN, CF_SIDE_COUNT };

/* How the device's side of a check is run. */
typedef enum cf_variant {
  CF_BUFFERS, /* views of buffers, guard words around */
  CF_HOST,    /* views of host memory; where the device is the host, no-access pages follow each */
  CF_PAGE_START, /* only where the device is the host: no-access pages stand before each operand */
  CF_REPLAY,     /* recorded and replayed */
  CF_TWICE,      /* run twice: the same bits */
  CF_VARIANT_COUNT
} cf_variant;

#define CF_BIT(x) (1u << (x))

typedef enum cf_fill {
  CF_ZERO,
  CF_ONE,
  CF_REAL,    /* uniform in [-1, 1) */
  CF_UNIT,    /* uniform in [0, 1) */
  CF_WIDE,    /* uniform in [-12, 12) */
  CF_INTEGER, /* -4 .. 4: products and their sums are exact */
  CF_RANGE,   /* all numbers of a type of 8 bits, of integers the ends more often */
  CF_NAN
} cf_fill;

/* One matrix on all sides. `values` may be changed until the first cf_on. Outputs of 16 bits are
 * f32 on the reference's side unless they are narrow: a device's rounding then counts from the true
 * value. */
typedef struct cf_operand {
  const char *name;
  layerops_matrix shape; /* a view without memory */
  double *values;        /* tight, batch x rows x cols: the elements before the call */
  double *bound;         /* the same shape, for an output: the largest error; NULL: exact */
  bool is_output, made;
  bool narrow;          /* the reference stores it in its own type, not in f32 */
  layerops_type seen;   /* its type on the reference's side */
  int64_t count;        /* of values */
  int64_t elements;     /* of the memory: guards and padding too */
  unsigned char *image; /* the memory before the call */
  void *memory[CF_SIDE_COUNT];
  layerops_buffer *buffer[CF_SIDE_COUNT];
  struct cf_operand *next;
  struct cf_session *session;
} cf_operand;

typedef struct cf_layout {
  /* Elements before the view, between rows, between matrices of a batch. A pad below 0: rows begin
   * at multiples of so many. */
  int64_t offset, pad, gap;
} cf_layout;

typedef struct cf_session {
  const cf_options *options;
  layerops_context *ctx[CF_SIDE_COUNT];
  bool on_host; /* the device's memory is the host's */
  cf_variant variant;
  layerops_type second; /* of B and W where it is their own, else LAYEROPS_NONE_TYPE */
  bool narrow;          /* what the operands made from now on are */
  cf_layout layout;     /* of the operands made from now on */
  uint64_t random;
  cf_operand *operands;    /* of the current case */
  struct cf_block *blocks; /* memory of the current case */
  char label[256];
  char failure[1024]; /* the first one of the check */
  char missing[512];  /* what the device lacks for it */
  int64_t cases, failed;
  double worst; /* largest error / bound */
} cf_session;

typedef struct cf_check {
  layerops_op op;
  const char *name;
  unsigned types;    /* CF_BIT(LAYEROPS_F32) | ..., CF_WITH(...) */
  unsigned variants; /* beside CF_BUFFERS */
  void (*run)(cf_session *s, layerops_type type);
} cf_check;

#define CF_F32    CF_BIT(LAYEROPS_F32)
#define CF_FLOATS (CF_F32 | CF_BIT(LAYEROPS_F16) | CF_BIT(LAYEROPS_BF16))
#define CF_HALVES (CF_BIT(LAYEROPS_F16) | CF_BIT(LAYEROPS_BF16))
#define CF_BYTES  (CF_BIT(LAYEROPS_I8) | CF_BIT(LAYEROPS_U8))
#define CF_F8     (CF_BIT(LAYEROPS_F8E4M3) | CF_BIT(LAYEROPS_F8E5M2))
#define CF_ALL    (CF_FLOATS | CF_BIT(LAYEROPS_I32) | CF_BYTES | CF_F8)
#define CF_MEMORY (CF_BIT(CF_HOST) | CF_BIT(CF_PAGE_START))
#define CF_EVERY  (CF_MEMORY | CF_BIT(CF_REPLAY) | CF_BIT(CF_TWICE))

/* In a check's types: those of B and W, one after the other; without, they are A's and X's. */
#define CF_WITH(types) ((types) << 16)
/* A check of products of 8-bit floats, and of 16 bits with 8. */
#define CF_PAIRS(op, name, variants, run)                                                          \
  {op, name, CF_F8 | CF_WITH(CF_F8), variants, run}, {                                             \
    op, name, CF_HALVES | CF_WITH(CF_BIT(LAYEROPS_I8) | CF_F8), variants, run                      \
  }

/* The families; each list ends with an entry without a name. */
extern const cf_check cf_gemm_checks[], cf_linear_checks[], cf_backward_checks[],
    cf_activation_checks[], cf_softmax_checks[], cf_loss_checks[], cf_optimizer_checks[],
    cf_move_checks[], cf_bsr_checks[], cf_bsr_backward_checks[], cf_packed_checks[],
    cf_scale_checks[];

/* ---- data.c ---- */
uint64_t cf_random(cf_session *s);
double cf_uniform(cf_session *s, double low, double high);
int64_t cf_below(cf_session *s, int64_t limit);
/* Zeroed memory until cf_end. */
void *cf_memory(cf_session *s, size_t bytes);
cf_operand *cf_batched(cf_session *s, const char *name, layerops_type type, int64_t batch,
                       int64_t rows, int64_t cols, cf_fill fill);
cf_operand *cf_matrix(cf_session *s, const char *name, layerops_type type, int64_t rows,
                      int64_t cols, cf_fill fill);
cf_operand *cf_output(cf_session *s, const char *name, layerops_type type, int64_t rows,
                      int64_t cols, cf_fill fill);
void cf_set(cf_operand *o, int64_t i, int64_t j, double value);
/* Makes some elements NaN, infinity, -infinity. */
void cf_plant(cf_session *s, cf_operand *o);
/* The view of an operand on a side. An absent operand (NULL) gives an absent view. */
layerops_matrix cf_on(cf_operand *o, int side);
/* The first element of an operand as a scalar. */
layerops_scalar cf_element(cf_operand *o, int side);
/* The elements of an operand on a side now. Valid until cf_end. */
double *cf_read(cf_session *s, cf_operand *o, int side);
/* The whole memory of an operand on a side now (of a buffer a copy); element n of a memory. */
unsigned char *cf_memory_now(cf_operand *o, int side);
unsigned char *cf_element_of(const cf_operand *o, layerops_type type, void *memory, int64_t n);
/* Frees all that the case has made. */
void cf_free_case(cf_session *s);
/* Writes the values of an operand anew, after they were changed. */
void cf_rewrite(cf_session *s, cf_operand *o);
/* The value that a type keeps of x, and conversions that share no code with the library. */
double cf_rounded(layerops_type type, double x);
double cf_decode(layerops_type type, const void *element);
void cf_encode(layerops_type type, double x, void *element);

/* Whether this variant of a check takes its largest shapes too: the first does. */
bool cf_in_full(const cf_session *s);

/* ---- session.c ---- */
void cf_case(cf_session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool cf_next_side(cf_session *s, int *side);
void cf_before(cf_session *s, int side);
void cf_after(cf_session *s, int side, layerops_status status);
void cf_fail(cf_session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Asserts on what is not an element: a status, a message. */
void cf_expect(cf_session *s, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For a check that needs more of the device than the types: `status` is that of a small call of the
 * kind. Where it is UNSUPPORTED the check is reported as skipped, and must end. */
bool cf_has(cf_session *s, layerops_status status);

#define CF_SIDES(s, side) for (int side = -1; cf_next_side(s, &side);)
#define CF_CALL(s, side, op, args)                                                                 \
  (cf_before(s, side), cf_after(s, side, layerops_##op((s)->ctx[side], args)))

/* ---- compare.c ---- */
/* Compares all operands of the case, and frees them. */
void cf_end(cf_session *s);

/* ---- tolerance.c ---- */
#define CF_U 0x1p-24 /* what one rounding to f32 may add, relatively */
double cf_steps(layerops_type type, int64_t k);
double cf_rounding(layerops_type type);
/* What C, or Y beside a scale, can be where A or X is of the type: the type itself, or f16. */
layerops_type cf_wide(layerops_type type);
double cf_flushed(layerops_type type, int64_t k, double x, double w);
double cf_lipschitz(layerops_activation kind, double slope);
double cf_activation_error(layerops_activation kind, double z, double y);
void cf_add_short(cf_session *s, cf_operand *o, layerops_activation kind);
double cf_derivative_error(layerops_activation kind, double saved, double slope);
/* sum |op(a)| |op(b)| of each element of a product, batch x m x n. Valid until cf_end. */
double *cf_magnitudes(cf_session *s, const cf_operand *a, int trans_a, const cf_operand *b,
                      int trans_b);
/* What tensor cores may add to the error of sums of 8-bit floats, batch x m x n; NULL where they do
 * not make them. Valid until cf_end. */
double *cf_kept(cf_session *s, const cf_operand *a, int trans_a, const cf_operand *b, int trans_b,
                bool fast);
/* The bound of an output, filled by the caller but for the store, which this adds. */
double *cf_bound(cf_session *s, cf_operand *o);
void cf_add_store(cf_session *s, cf_operand *o);

#define CF_COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

#endif
