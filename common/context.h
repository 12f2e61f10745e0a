/* The inside of the opaque handles. */
#ifndef LO_CONTEXT_H
#define LO_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/backend.h"

/* A device that some context has opened: shared by its contexts and buffers, found again by
 * (backend, index), never freed, so that buffers may outlive contexts. */
struct lo_device {
  const struct lo_backend *backend;
  int index;
  char name[32];
  atomic_bool lost;      /* after a device fault */
  _Atomic(void *) state; /* the backend's, set once */
};

struct layerops_buffer {
  lo_device *device;
  void *native; /* host pointer, CUdeviceptr, cl_mem */
  int64_t bytes;
  void *root;          /* identifies the memory that contains it, with */
  int64_t root_offset; /* its place there in bytes: what the alias check compares */
  void (*release)(void *user, void *pointer); /* of the allocator that made it, or NULL */
  void *release_user;
  atomic_int references;
  unsigned fork_generation; /* of the process that made it */
  uint64_t number;          /* lo_next_number's */
  bool owned;               /* false: wrapped */
};

struct layerops_context {
  const struct lo_backend *backend;
  const struct lo_ops *ops;
  lo_device *device;
  void *state;             /* the backend's */
  layerops_open_args args; /* as opened, defaults filled in */
  int verbose;
  unsigned fork_generation; /* of the process that opened it */
  const char *kernel;       /* what the last call chose */
  layerops_status fault;    /* the error word: a fault that shows at the next sync or read */
  char fault_text[512];
  layerops_graph *recording; /* between record_begin and record_end */
  bool preparing;            /* calls are warmed, not run: layerops_prepare */
  bool tuning;               /* between tune_begin and tune_end */
  layerops_buffer *workspace;
  int64_t workspace_wanted; /* by a call that could not have it while it was captured */
  struct lo_calls *calls;   /* that came before: common/again.h */
};

struct layerops_event {
  layerops_context *ctx;
  void *native;
};

struct layerops_weights {
  lo_device *device;
  layerops_matrix shape; /* of W; with its memory where the backend has no form of its own */
  bool backward;
  uint64_t number; /* lo_next_number's */
  void *state;     /* the backend's form */
};

/* A pattern in host memory. Kept blocks by rows: those of block row r are row_start[r] ...
 * row_start[r + 1] - 1, in block column column[i]. By columns: those of block column c are at
 * places place[col_start[c]] ... of the first order, in block row row[...], which ascends. */
typedef struct lo_bsr_index {
  const int32_t *row_start, *column, *col_start, *row, *place;
} lo_bsr_index;

struct layerops_bsr {
  lo_device *device;
  int64_t rows, cols, height, width, block_rows, block_cols, count;
  layerops_type type;
  lo_bsr_index host;
  layerops_buffer *row_start, *column, *col_start, *row, *place; /* the same on the device, i32 */
  layerops_buffer *values, *scales;                              /* scales: f32, of i8 alone */
  int64_t longest_row, longest_col;                              /* the most blocks kept in one */
  void *state;                                                   /* the backend's form */
};

/* Numbers objects as they are made, from 1: no other has had it, at the same address either. */
uint64_t lo_next_number(void);

/* Memory of the caller's allocator (open_args) or the C library's. NULL where there is none. */
void *lo_host_alloc(const layerops_open_args *args, size_t bytes, size_t alignment);
void lo_host_release(const layerops_open_args *args, void *pointer);

/* Scratch memory of at least `bytes`, valid until the next call of the context that asks for some.
 * One region a call: ask once for all. Grows the context's workspace, but not while calls are
 * captured (STATE); the user's own never grows and is refused where it is too small. */
layerops_status lo_workspace(layerops_context *ctx, int64_t bytes, layerops_buffer **buffer);

/* The same, whether calls are captured or not: for who has just found that too little is there. */
layerops_status lo_workspace_grow(layerops_context *ctx, int64_t bytes);

/* Sets the context's error word if it is clear. */
void lo_fault(layerops_context *ctx, layerops_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the error word as this thread's last error and clears it. */
layerops_status lo_take_fault(layerops_context *ctx);

/* Marks the context's device lost and returns LAYEROPS_ERROR_DEVICE_LOST with the message. */
layerops_status lo_device_lost(layerops_context *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* layerops_type_size of a type that is known: without a call, as small layers ask often. */
static inline size_t lo_type_bytes(layerops_type type) {
  static const unsigned char bytes[LAYEROPS_TYPE_COUNT] = {0, 4, 2, 2, 4, 1, 1, 1, 1};
  return bytes[type];
}

/* The address of a view's first element where native handles are pointers (CPU, CUDA). */
static inline void *lo_address(const layerops_matrix *m) {
  char *base = (char *)(m->buffer ? m->buffer->native : m->host);
  return base ? base + m->offset * (int64_t)lo_type_bytes(m->type) : NULL;
}

static inline bool lo_present(const layerops_matrix *m) {
  return m->type != LAYEROPS_NONE_TYPE;
}

/* The value of a scalar that lives in host memory (CPU backends). */
static inline double lo_scalar(const layerops_scalar *s) {
  return s->kind == 2 ? ((const float *)s->buffer->native)[s->offset] : s->value;
}

/* ---- Choosing a kernel ----
 * A backend's implementations of an operation stand in an ordered array, most special first; each
 * entry begins with this. The first that does not refuse is chosen, and ctx->kernel set to its
 * name. */
typedef struct lo_kernel {
  const char *name;
  const char *(*refuses)(layerops_context *ctx,
                         const void *problem); /* NULL accepts; else why not */
} lo_kernel;

/* NULL if all refuse (the list's last entry should accept whatever the door lets in). */
const void *lo_select(layerops_context *ctx, const void *list, size_t entry_size, size_t count,
                      const void *problem);
/* For backends that choose in another way: the line of a kernel that is not taken. */
void lo_refused(layerops_context *ctx, const char *kernel, const char *reason);
#define LO_SELECT(ctx, list, problem)                                                              \
  lo_select(ctx, list, sizeof((list)[0]), sizeof(list) / sizeof((list)[0]), problem)

#endif
