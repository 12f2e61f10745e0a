/* The OpenCL backend's own handles, and who does what:
 *   platform.c  which devices there are            world.c   what the contexts of a device share
 *   program.c   compiled programs, in memory       cache.c   the same on disk
 *   context.c   queues, waiting, events, faults    buffer.c  memory
 *   launch.c    a kernel, its arguments, its run   the rest  operations */
#ifndef LO_OPENCL_H
#define LO_OPENCL_H

#include <pthread.h>

#include "backends/opencl/api.h"
#include "backends/opencl/params.h"
#include "common/context.h"

/* What kernels are compiled for: a class of devices. */
typedef struct lo_cl_class {
  const char *name;  /* "cpu16", ..., "gpu" */
  int vector;        /* VW */
  int rows, vectors; /* CPU: MR and NV of the product's tile */
  int group;         /* GROUP: work-items of a group */
  int64_t item;      /* elements that an item of an element-wise kernel is given */
} lo_cl_class;

/* A device as platform.c found it. */
typedef struct lo_cl_found {
  cl_platform_id platform;
  cl_device_id device;
  int platform_index, device_index;
} lo_cl_found;

int lo_cl_count(char *reason, size_t reason_size);
layerops_status lo_cl_info(int index, layerops_device_info *info);
int lo_cl_index_of(const char *rest);
const lo_cl_found *lo_cl_device_at(int index);

/* Kernel sources; programs are built from one of them and up to 5 numbers. */
typedef enum lo_cl_source {
  LO_CL_PACK,        /* WIDTH */
  LO_CL_PRODUCT_CPU, /* NV */
  LO_CL_PRODUCT_GPU, /* BM, BN, TM, TN, KIND */
  LO_CL_PRODUCT_SKINNY,
  LO_CL_PRODUCT_PLAIN,
  LO_CL_BSR_CPU,       /* NV, BACKWARD */
  LO_CL_BSR_SKINNY,    /* ROWS */
  LO_CL_BSR_GPU,       /* as the dense one; KIND: 16 * type of the samples + that of W */
  LO_CL_BSR_WGRAD_CPU, /* NV, LANES */
  LO_CL_BSR_WGRAD_GPU, /* as the dense one */
  LO_CL_BSR_VALUES,
  LO_CL_SUM,
  LO_CL_MAP,
  LO_CL_OPTIMIZER,
  LO_CL_ROWS,
  LO_CL_MOVE,
  LO_CL_SOURCE_COUNT
} lo_cl_source;
enum { LO_CL_NUMBERS = 5 };

typedef struct lo_cl_program {
  lo_cl_source source;
  int number[LO_CL_NUMBERS];
  cl_program program;
  struct lo_cl_program *next;
} lo_cl_program;

/* A cl_context: the device's own, or that of a user's queue. Contexts of the library share it, with
 * the programs that were compiled for it. */
typedef struct lo_cl_world {
  struct lo_cl_device *device;
  cl_context context;
  cl_mem nothing; /* stands for absent operands */
  lo_cl_program *programs;
  pthread_mutex_t lock; /* of programs */
  bool user;            /* a user's cl_context */
  int contexts;         /* of the library, guarded by the device's lock */
  struct lo_cl_world *next;
} lo_cl_world;

/* lo_device's state: never freed. */
typedef struct lo_cl_device {
  cl_device_id id;
  lo_cl_class class;
  int64_t local_memory, largest_buffer, largest_group;
  int units;
  bool rounds;   /* division and square root can be rounded correctly */
  char key[512]; /* device, driver, platform: what compiled programs depend on */
  pthread_mutex_t lock;
  lo_cl_world *worlds;
  atomic_int world_count;
} lo_cl_device;

typedef struct lo_cl_kernel {
  lo_cl_source source;
  int number[LO_CL_NUMBERS];
  const char *name;
  cl_kernel kernel;
  struct lo_cl_kernel *next;
} lo_cl_kernel;

/* layerops_context's state. */
typedef struct lo_cl_context {
  lo_cl_device *device;
  lo_cl_world *world;
  cl_command_queue queue;
  bool profiling;
  lo_cl_kernel *kernels; /* a cl_kernel holds arguments, so each context has its own */
  cl_mem fault;          /* the error word, LO_CL_FAULT_WORDS ints, made when first needed */
  bool may_fault;        /* a kernel that may set it was enqueued since it was read */
} lo_cl_context;

static inline lo_cl_context *lo_cl_of(layerops_context *ctx) {
  return ctx->state;
}

/* The status of a failed OpenCL call, as this thread's last error. `waited`: the call waited for
 * work, so that running out of resources means that a kernel failed. */
layerops_status lo_cl_failed(layerops_context *ctx, const char *call, cl_int error, bool waited);
#define LO_CL_TRY(ctx, call)                                                                       \
  do {                                                                                             \
    cl_int lo_cl_error_ = (call);                                                                  \
    if (lo_cl_error_ != CL_SUCCESS) return lo_cl_failed(ctx, #call, lo_cl_error_, false);          \
  } while (0)
#define LO_CL_TRY_WAIT(ctx, call)                                                                  \
  do {                                                                                             \
    cl_int lo_cl_error_ = (call);                                                                  \
    if (lo_cl_error_ != CL_SUCCESS) return lo_cl_failed(ctx, #call, lo_cl_error_, true);           \
  } while (0)

/* world.c */
layerops_status lo_cl_device_get(layerops_context *ctx, int index, lo_cl_device **device);
/* The world of a cl_context, NULL meaning the device's own; counted. */
layerops_status lo_cl_world_enter(layerops_context *ctx, lo_cl_device *device, cl_context context,
                                  lo_cl_world **world);
void lo_cl_world_leave(lo_cl_world *world);

/* program.c: thread-safe. */
layerops_status lo_cl_program_get(layerops_context *ctx, lo_cl_world *world, lo_cl_source source,
                                  const int *number, cl_program *program);
void lo_cl_programs_release(lo_cl_world *world);

/* cache.c: a program's binary on disk. `key` is all that it depends on. load returns NULL where
 * there is none that can be trusted; the caller frees it. */
unsigned char *lo_cl_cache_load(const layerops_open_args *args, const char *key, size_t key_size,
                                size_t *size);
void lo_cl_cache_save(const layerops_open_args *args, const char *key, size_t key_size,
                      const unsigned char *binary, size_t size);

/* buffer.c */
layerops_status lo_cl_buffer_create(layerops_context *ctx, layerops_buffer *buffer);
layerops_status lo_cl_buffer_wrap(layerops_context *ctx, layerops_buffer *buffer);
void lo_cl_buffer_release(layerops_buffer *buffer);
layerops_status lo_cl_write(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                            const void *host, int64_t bytes);
layerops_status lo_cl_read(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                           void *host, int64_t bytes);

/* context.c */
layerops_status lo_cl_open(layerops_context *ctx, int index, const layerops_open_args *args);
void lo_cl_close(layerops_context *ctx);
layerops_status lo_cl_sync(layerops_context *ctx);
layerops_status lo_cl_wait(layerops_context *ctx, layerops_context *other);
/* The error word's buffer, whose setting will be noticed. */
layerops_status lo_cl_fault_word(layerops_context *ctx, cl_mem *word);
/* Passes what the error word says to lo_fault. The queue is idle. */
layerops_status lo_cl_fault_read(layerops_context *ctx);

/* event.c */
layerops_status lo_cl_event_create(layerops_context *ctx, void **event);
layerops_status lo_cl_event_record(layerops_context *ctx, void *event);
layerops_status lo_cl_event_wait(layerops_context *ctx, void *event);
layerops_status lo_cl_event_elapsed(layerops_context *ctx, void *start, void *stop, double *ms);
void lo_cl_event_destroy(layerops_context *ctx, void *event);

/* launch.c: start, the arguments in the kernel's order, run. The first failure is kept and returned
 * by run, so nothing in between needs a check. */
typedef struct lo_cl_launch {
  layerops_context *ctx;
  cl_kernel kernel;
  const char *name;
  cl_uint next;
  layerops_status status;
} lo_cl_launch;

lo_cl_launch lo_cl_start(layerops_context *ctx, lo_cl_source source, const int *number,
                         const char *name);
void lo_cl_memory(lo_cl_launch *launch, const layerops_buffer *buffer); /* NULL: nothing */
void lo_cl_view_memory(lo_cl_launch *launch, const layerops_matrix *view);
void lo_cl_scalar_memory(lo_cl_launch *launch, const layerops_scalar *scalar);
void lo_cl_fault_memory(lo_cl_launch *launch);
void lo_cl_bytes(lo_cl_launch *launch, size_t size, const void *bytes);
void lo_cl_local(lo_cl_launch *launch, int64_t count, size_t size); /* elements of local memory */
/* groups of `group` items along x; y and z count single items. */
layerops_status lo_cl_run(lo_cl_launch *launch, int group, int64_t x, int64_t y, int64_t z);

lo_cl_view lo_cl_view_of(const layerops_matrix *m);
lo_cl_scalar lo_cl_scalar_of(const layerops_scalar *s);
/* The shape of an element-wise kernel over `count` present views; one row where all are without
 * gaps. */
lo_cl_shape lo_cl_shape_of(layerops_context *ctx, const layerops_matrix *const *views, int count);
/* Runs it: an item for each part of the shape. */
layerops_status lo_cl_run_shape(lo_cl_launch *launch, const lo_cl_shape *shape);
int64_t lo_cl_shape_groups(layerops_context *ctx, const lo_cl_shape *shape);
static inline int64_t lo_cl_ceil(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit;
}

#define LO_CL_DECLARE(name, number)                                                                \
  layerops_status lo_cl_##name(layerops_context *ctx, const layerops_##name##_args *args);
LAYEROPS_OP_LIST(LO_CL_DECLARE)
#undef LO_CL_DECLARE

#endif
