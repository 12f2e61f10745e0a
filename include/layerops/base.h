/* Status codes, data types, views and scalars. */
#ifndef LAYEROPS_BASE_H
#define LAYEROPS_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <layerops/version.h>

#if defined(__GNUC__) || defined(__clang__)
#define LAYEROPS_API __attribute__((visibility("default")))
#else
#define LAYEROPS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One list gives the numbers, the names and the texts. Numbers are stable. */
#define LAYEROPS_STATUS_LIST(X)                                                                    \
  X(OK, 0, "success")                                                                              \
  X(ERROR_INVALID, 1, "an argument is invalid")                                                    \
  X(ERROR_UNSUPPORTED, 2, "this device does not have the operation for these arguments")           \
  X(ERROR_OUT_OF_MEMORY, 3, "out of memory")                                                       \
  X(ERROR_OVERFLOW, 4, "a size, or a product of sizes, is too large")                              \
  X(ERROR_ALIAS, 5, "operands overlap in a way that the operation cannot handle")                  \
  X(ERROR_NO_DEVICE, 6, "there is no such device")                                                 \
  X(ERROR_DEVICE_LOST, 7, "the device failed earlier and cannot be used any more")                 \
  X(ERROR_DEVICE, 8, "the device or its driver reported an error")                                 \
  X(ERROR_LABEL, 9, "a label or an index in the data is out of range")                             \
  X(ERROR_IO, 10, "reading or writing a file failed")                                              \
  X(ERROR_FORMAT, 11, "a file is not what it should be")                                           \
  X(ERROR_STATE, 12, "the call is not allowed now")                                                \
  X(ERROR_BUILD, 13, "the device's compiler refused a kernel")                                     \
  X(ERROR_FORKED, 14, "the context belongs to the parent process")

typedef enum layerops_status {
#define LAYEROPS_STATUS_ENUM(name, number, text) LAYEROPS_##name = number,
  LAYEROPS_STATUS_LIST(LAYEROPS_STATUS_ENUM)
#undef LAYEROPS_STATUS_ENUM
} layerops_status;

/* The name of a status ("LAYEROPS_ERROR_INVALID"), its text ("an argument is invalid"); never NULL.
 */
LAYEROPS_API const char *layerops_status_name(layerops_status status);
LAYEROPS_API const char *layerops_status_text(layerops_status status);

/* What the last failing call of this thread had to say. Never NULL; valid until the next failing
 * call of the thread. */
LAYEROPS_API const char *layerops_last_error(void);

/* The library's version at run time, as LAYEROPS_VERSION_NUMBER (major * 10000 + minor * 100 +
 * patch) and as a string. */
LAYEROPS_API int layerops_version(void);
LAYEROPS_API const char *layerops_version_string(void);

/* Data types. Stored in structs as int32_t. f16, bf16 and the 8-bit floats are storage types: sums
 * are kept in f32. The 8-bit floats are those of OCP: F8E4M3 (e4m3fn) has no infinity, NaN is 0x7f
 * and 0xff, the largest number 448, the smallest 2^-9; F8E5M2 is the upper half of f16, with
 * infinities, its largest number 57344, the smallest 2^-16. */
enum {
  LAYEROPS_NONE_TYPE = 0, /* an absent view */
  LAYEROPS_F32 = 1,
  LAYEROPS_F16 = 2,
  LAYEROPS_BF16 = 3,
  LAYEROPS_I32 = 4,
  LAYEROPS_I8 = 5,
  LAYEROPS_U8 = 6,
  LAYEROPS_F8E4M3 = 7,
  LAYEROPS_F8E5M2 = 8,
  LAYEROPS_TYPE_COUNT = 9
};
typedef int32_t layerops_type;

/* Bytes of one element, 0 for an unknown type; its name ("f32"), "?" for an unknown type. */
LAYEROPS_API size_t layerops_type_size(layerops_type type);
LAYEROPS_API const char *layerops_type_name(layerops_type type);

/* Activations. `slope` is the one of leaky ReLU. With Phi the normal distribution function:
 *   RELU        z < 0 ? 0 : z                       (NaN stays NaN)
 *   LEAKY_RELU  z < 0 ? slope * z : z
 *   GELU        z * Phi(z)                          (exact, through erf)
 *   GELU_TANH   z/2 * (1 + tanh(sqrt(2/pi) * (z + 0.044715 z^3)))
 *   SILU        z / (1 + exp(-z))
 *   SIGMOID     1 / (1 + exp(-z))
 *   TANH        tanh(z)
 * At z = -infinity GELU, GELU_TANH and SILU take their limit, -0.
 *
 * A derivative is computed from one saved value of the forward pass, s: the output y for RELU,
 * LEAKY_RELU (slope >= 0), SIGMOID and TANH, the pre-activation z for GELU, GELU_TANH and SILU (for
 * RELU and LEAKY_RELU z serves as well). relu'(0) = 0, relu'(NaN) = NaN. */
enum {
  LAYEROPS_IDENTITY = 0,
  LAYEROPS_RELU = 1,
  LAYEROPS_LEAKY_RELU = 2,
  LAYEROPS_GELU = 3,
  LAYEROPS_GELU_TANH = 4,
  LAYEROPS_SILU = 5,
  LAYEROPS_SIGMOID = 6,
  LAYEROPS_TANH = 7,
  LAYEROPS_ACTIVATION_COUNT = 8
};
typedef int32_t layerops_activation;

/* "relu", "leaky_relu", ...; "?" for an unknown value. The inverse returns -1 for an unknown name.
 */
LAYEROPS_API const char *layerops_activation_name(layerops_activation activation);
LAYEROPS_API layerops_activation layerops_activation_from_name(const char *name);

/* 1 where the derivative needs the pre-activation z, 0 where the output y serves. */
LAYEROPS_API int layerops_activation_saves_input(layerops_activation activation);

/* Flags of an operation. */
enum {
  LAYEROPS_BATCH_INVARIANT = 1, /* a row's bits depend neither on other rows nor on their number */
  LAYEROPS_FAST_ACCUM = 2,      /* sums of 8-bit floats as tensor cores keep them: see gemm */
  LAYEROPS_ALLOW_TF32 = 4       /* f32 products may run in TF32: factors cut to 11 bits */
};

typedef struct layerops_context layerops_context;
typedef struct layerops_buffer layerops_buffer;
typedef struct layerops_weights layerops_weights;
typedef struct layerops_bsr layerops_bsr;
typedef struct layerops_graph layerops_graph;
typedef struct layerops_event layerops_event;

/* A row-major view of a buffer or of host memory, by value:
 *   element (i, j) of batch entry l lies at offset + l * batch_stride + i * stride + j,
 * counted in elements from the start of the buffer, or from `host`. Exactly one of buffer and host
 * is set (neither is needed where the view has no elements). stride >= cols. An all-zero view is
 * absent. A vector is a matrix of one row. Frozen: the struct stands inside others.
 *
 * The CPU uses host memory in place. On another device a call with a host view copies it there,
 * runs, copies results back and returns finished; such a call cannot be recorded. */
typedef struct layerops_matrix {
  layerops_buffer *buffer;
  void *host;
  int64_t offset;
  int64_t rows, cols, stride;
  int64_t batch, batch_stride;
  layerops_type type;
  int32_t reserved[3];
} layerops_matrix;

/* A number that an operation reads when it runs: unset (the operation's default), a value, or one
 * f32 element of a buffer, which may change between replays. */
typedef struct layerops_scalar {
  layerops_buffer *buffer; /* kind 2 */
  int64_t offset;          /* kind 2, in elements */
  double value;            /* kind 1 */
  int32_t kind;            /* 0 unset, 1 value, 2 an element of buffer */
  int32_t reserved;
} layerops_scalar;

static inline layerops_matrix layerops_matrix_make(layerops_buffer *buffer, void *host,
                                                   layerops_type type, int64_t rows, int64_t cols) {
  layerops_matrix m;
  m.buffer = buffer;
  m.host = host;
  m.offset = 0;
  m.rows = rows;
  m.cols = cols;
  m.stride = cols;
  m.batch = 1;
  m.batch_stride = 0;
  m.type = type;
  m.reserved[0] = m.reserved[1] = m.reserved[2] = 0;
  return m;
}

/* A tight matrix or vector at the start of a buffer, or in host memory. Change offset, stride,
 * batch and batch_stride afterwards as needed. */
static inline layerops_matrix layerops_matrix_of(layerops_buffer *buffer, layerops_type type,
                                                 int64_t rows, int64_t cols) {
  return layerops_matrix_make(buffer, NULL, type, rows, cols);
}
static inline layerops_matrix layerops_matrix_f32(layerops_buffer *buffer, int64_t rows,
                                                  int64_t cols) {
  return layerops_matrix_make(buffer, NULL, LAYEROPS_F32, rows, cols);
}
static inline layerops_matrix layerops_vector_f32(layerops_buffer *buffer, int64_t n) {
  return layerops_matrix_make(buffer, NULL, LAYEROPS_F32, 1, n);
}
static inline layerops_matrix layerops_vector_i32(layerops_buffer *buffer, int64_t n) {
  return layerops_matrix_make(buffer, NULL, LAYEROPS_I32, 1, n);
}
static inline layerops_matrix layerops_host_matrix(const void *host, layerops_type type,
                                                   int64_t rows, int64_t cols) {
  return layerops_matrix_make(NULL, (void *)(uintptr_t)host, type, rows, cols);
}

/* Rows [row, row + rows) and columns [col, col + cols) of a view (batch kept). The range is checked
 * when the view is used: a slice that leaves the buffer is refused there. */
static inline layerops_matrix layerops_slice(layerops_matrix m, int64_t row, int64_t rows,
                                             int64_t col, int64_t cols) {
  m.offset += row * m.stride + col;
  m.rows = rows;
  m.cols = cols;
  return m;
}

static inline layerops_scalar layerops_value(double value) {
  layerops_scalar s;
  s.buffer = NULL;
  s.offset = 0;
  s.value = value;
  s.kind = 1;
  s.reserved = 0;
  return s;
}
static inline layerops_scalar layerops_element(layerops_buffer *buffer, int64_t offset) {
  layerops_scalar s;
  s.buffer = buffer;
  s.offset = offset;
  s.value = 0;
  s.kind = 2;
  s.reserved = 0;
  return s;
}

#ifdef __cplusplus
}
#endif
#endif
