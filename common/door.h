/* The door: every argument is judged here, once, for all backends.
 *
 * A public function reads: open the door with the user's struct, present each operand with its
 * role, types and shape, pass. The struct that the door holds (a zero-extended copy of the user's)
 * is what the backend gets. */
#ifndef LO_DOOR_H
#define LO_DOOR_H

#include "common/call.h"

enum {
  LO_IN = 1,
  LO_OUT = 2,
  LO_INOUT = LO_IN | LO_OUT,
  LO_IN_PLACE = 4,     /* of an input and an output: they may be the very same view */
  LO_SCALAR = 8,       /* an element of a buffer: never in host memory */
  LO_IN_PLACE_TOO = 16 /* another such pair of the operation */
};

/* Sets of types. */
#define LO_BIT(type) (1u << (type))
enum {
  LO_FLOAT = LO_BIT(LAYEROPS_F32) | LO_BIT(LAYEROPS_F16) | LO_BIT(LAYEROPS_BF16),
  LO_INT8 = LO_BIT(LAYEROPS_I8) | LO_BIT(LAYEROPS_U8),
  LO_F8 = LO_BIT(LAYEROPS_F8E4M3) | LO_BIT(LAYEROPS_F8E5M2),
  LO_BYTES = LO_INT8 | LO_F8,
  LO_COPYABLE = LO_FLOAT | LO_BIT(LAYEROPS_I32) | LO_BYTES
};
static inline bool lo_is_int8(layerops_type type) {
  return type == LAYEROPS_I8 || type == LAYEROPS_U8;
}
static inline bool lo_is_f8(layerops_type type) {
  return type == LAYEROPS_F8E4M3 || type == LAYEROPS_F8E5M2;
}
/* "f32, f16": a set of types; returns `text`. */
#define LO_TYPES_TEXT 64
const char *lo_types_text(unsigned types, char text[LO_TYPES_TEXT]);

/* T or f32: what most operands beside the main ones may be. */
static inline unsigned lo_same_or_f32(layerops_type type) {
  return LO_BIT(type) | LO_BIT(LAYEROPS_F32);
}

#define LO_MAX_OPERANDS 16
#define LO_ANY          ((int64_t)-1)

typedef struct lo_operand {
  layerops_matrix *view;
  const char *name;
  int role;
} lo_operand;

typedef struct lo_door {
  layerops_context *ctx;
  const char *function; /* as messages name it */
  const void *user;     /* the struct that the caller gave */
  size_t user_size;
  lo_call call;
  const layerops_weights *packed; /* in place of W */
  lo_operand operands[LO_MAX_OPERANDS];
  int count;
  layerops_matrix elements[LO_MAX_OPERANDS]; /* views of the scalars that are elements of buffers */
  int element_count;
} lo_door;

/* NULL, a forked child, a lost device: what every function with a context asks first. */
layerops_status lo_enter(layerops_context *ctx, const char *function);
layerops_status lo_not_recording(layerops_context *ctx, const char *function);

/* Copies a struct of `user_size` bytes into one of `size`, zero-extended; refuses a non-zero tail.
 */
layerops_status lo_copy_args(const char *function, void *to, size_t size, const void *user,
                             size_t user_size);

/* The door of a function that is no operation of a backend (a network's): enters, then checks
 * operands as an operation does, but passes nothing. */
layerops_status lo_door_enter(lo_door *door, layerops_context *ctx, const char *function);

/* Enters, and copies the user's struct to door->call.args. */
layerops_status lo_door_open(lo_door *door, layerops_context *ctx, layerops_op op, size_t size,
                             const void *user, size_t user_size);

/* Refuses sizes other than rows x cols (LO_ANY: whatever it has), and names what gave these: the
 * first two operands. */
layerops_status lo_door_shape(lo_door *door, const char *name, const layerops_matrix *view,
                              int64_t rows, int64_t cols);

/* An operand that must be present: of one of `types`, rows x cols (LO_ANY: whatever it has). */
layerops_status lo_door_matrix(lo_door *door, const char *name, layerops_matrix *view, int role,
                               unsigned types, int64_t rows, int64_t cols);
/* The same if it is present at all. */
layerops_status lo_door_optional(lo_door *door, const char *name, layerops_matrix *view, int role,
                                 unsigned types, int64_t rows, int64_t cols);
/* W of a linear layer, as exactly one of w and packed, for the pass that `backward` says. On return
 * `shape` is W's; rows in a buffer have become w. X, or dY, is of the type `x`. */
layerops_status lo_door_weights(lo_door *door, layerops_matrix *w, const layerops_weights **packed,
                                bool backward, layerops_type x, unsigned types, int64_t rows,
                                int64_t cols, layerops_matrix *shape);

/* What a product may have beside an A, or X, of a type. */
enum { LO_MULTIPLIED = LO_FLOAT | LO_BYTES }; /* A and X */
typedef struct lo_product_types {
  unsigned b;      /* B and W */
  unsigned beside; /* C, Y, bias, residual, preact */
  unsigned sums;   /* C too, as the sum itself */
  unsigned narrow; /* Y too, divided by scale_y */
} lo_product_types;
lo_product_types lo_product_types_of(layerops_type a);

/* The types that an operation's own operand may have, and beside that `first` its second one, of
 * which layerops_supports_pair tells. */
typedef struct lo_op_types {
  unsigned first, second;
} lo_op_types;
lo_op_types lo_op_types_of(layerops_op op, layerops_type first);

/* Scales and zero points: each belongs to an operand, which must be of one of `types`, and holds 1
 * value or `count`. */
typedef struct lo_scale {
  const char *name;
  layerops_matrix *view;
  layerops_type type;
  int64_t count;
  const char *of_name;
  const layerops_matrix *of;
  unsigned types;
} lo_scale;
layerops_status lo_door_scales(lo_door *door, const lo_scale *scales, int count);
/* Refuses a k over which sums of integers could overflow. */
layerops_status lo_door_sums(lo_door *door, layerops_type a, int64_t k);
/* All operands so far are one matrix, not several. */
layerops_status lo_door_all_unbatched(lo_door *door);
/* Anything but all-zero: a view that lacks its type is a mistake, not an absent view. */
bool lo_given(const layerops_matrix *view);

/* Flags that a later version may know are refused, as later fields are; so is a reserved field. */
layerops_status lo_door_flags(lo_door *door, uint32_t flags);
layerops_status lo_door_reserved(lo_door *door, int32_t reserved);
/* Sets the default where the scalar is unset; checks the element where it is one of a buffer. */
layerops_status lo_door_scalar(lo_door *door, const char *name, layerops_scalar *scalar,
                               double unset);
/* The same, but only a finite value in [low, high] will do. */
layerops_status lo_door_value(lo_door *door, const char *name, layerops_scalar *scalar,
                              double unset, double low, double high);
layerops_status lo_door_activation(lo_door *door, const char *name, layerops_activation activation);
layerops_status lo_door_one_of(lo_door *door, const char *name, int value, int count);

/* Fails with INVALID and "operation: ..." . */
layerops_status lo_door_refuse(lo_door *door, layerops_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Describes the call for the verbose line: sizes, operations done, main types. */
void lo_door_describe(lo_door *door, int64_t m, int64_t n, int64_t k, double flops,
                      layerops_type type, layerops_type out_type);
/* Where the type of a second operand is its own: what the backend is asked about too. */
void lo_door_pair(lo_door *door, layerops_type second);

/* The batch, and further key=value pairs of that line. */
void lo_door_detail(lo_door *door, int64_t batch, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Aliasing, support, nothing to do; then records the call, or runs it (through staged copies where
 * views of host memory meet a device). */
layerops_status lo_door_pass(lo_door *door);

/* common/alias.c: do the outputs overlap anything they must not? */
layerops_status lo_check_aliases(lo_door *door);
/* common/stage.c: host views are copied to the device and back around the call. */
layerops_status lo_run_staged(lo_door *door);
/* common/door.c: what layerops_supports asks; `second` may be LAYEROPS_NONE_TYPE. */
layerops_status lo_supports(layerops_context *ctx, layerops_op op, layerops_type type,
                            layerops_type second);
/* The labels or indices of a host-visible i32 vector all lie in [0, limit), `ignore` apart. LABEL
 * with the place and the value. The CPU backends call it before they write, staging before it
 * copies. */
#define LO_NOTHING_IGNORED INT64_MIN
layerops_status lo_check_labels(const char *function, const char *name,
                                const layerops_matrix *labels, int64_t limit, int64_t ignore);

#endif
