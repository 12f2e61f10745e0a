/* Devices, contexts, buffers, events, record and replay, logging. */
#ifndef LAYEROPS_DEVICE_H
#define LAYEROPS_DEVICE_H

#include <layerops/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ------------------------------------------------------------------------------------
 * A device is named "cpu", "reference" (the oracle: plain loops in double), "cuda:N" or
 * "opencl:P.D" (platform P, device D). "cuda" and "opencl" alone are the first of their kind. */
typedef struct layerops_device_info {
  char name[32];         /* as layerops_open takes it; of an absent backend its name: "cuda" */
  char description[128]; /* "NVIDIA H200", ...; "" where absent */
  char driver[128];
  char isa[128];      /* instruction sets (CPU), architecture "sm_90" (CUDA), version (OpenCL) */
  char reason[256];   /* why the device or its whole backend cannot be used; "" where available */
  int32_t available;  /* 1 or 0 */
  int32_t units;      /* physical cores, SMs, compute units */
  int32_t clock_mhz;  /* 0 unknown */
  int32_t is_gpu;     /* 1 for GPUs, CUDA's and OpenCL's */
  int64_t memory;     /* bytes of device memory; 0 unknown */
  int64_t l1, l2, l3; /* bytes of cache: one core's, one core's (CPU) or the chip's (GPU), the
                         chip's; 0 unknown */
} layerops_device_info;

LAYEROPS_API layerops_status layerops_devices_(layerops_device_info *list, size_t element_size,
                                               size_t capacity, size_t *count);

/* All devices, and one entry (available = 0, with the reason) for each backend without any. Writes
 * at most `capacity` entries; *count is how many there are. list may be NULL if capacity is 0.
 * Thread-safe. Listing looks for CUDA without initialising it where the driver allows. */
static inline layerops_status layerops_devices(layerops_device_info *list, size_t capacity,
                                               size_t *count) {
  return layerops_devices_(list, sizeof(layerops_device_info), capacity, count);
}

/* ---- Contexts -----------------------------------------------------------------------------------
 * A context is an in-order queue on a device, a workspace and an error word. Used by one thread at
 * a time. Buffers belong to the device and can be used by all its contexts.
 *
 * On the CPU a context has threads - 1 threads of its own, from its first large call until it is
 * closed. They have the affinity of the thread that made that call, block all signals, and sleep
 * some 50 us after a call. Where the system gives fewer, or none, the call runs on those there are.
 * In a child after fork an inherited context works with the calling thread alone. The bits of a
 * result do not depend on the number of threads, nor on where they run. */

/* Called with one complete line, without newline. level 1: a call; 2: a refusal and its reason. */
typedef void (*layerops_log_fn)(void *user, int level, const char *line);

/* A parallel for of the caller's: must run body(arg, i) once for each i in [0, n), in any order and
 * on any threads, and return when all are done. */
typedef void (*layerops_parallel_fn)(void *user, int64_t n, void (*body)(void *arg, int64_t i),
                                     void *arg);

/* Where the context's own threads run on the CPU: each is bound to one core, with all its hardware
 * threads, out of the cores that the thread which makes the first large call may run on. That
 * thread itself is never bound; the core it is on then counts as its own. Cores are numbered as
 * hwloc does, so that neighbours share caches and memory, and are given again where there are more
 * threads. */
typedef enum layerops_bind {
  LAYEROPS_BIND_DEFAULT = 0, /* what LAYEROPS_CPU_BIND names, which is none where it is not set */
  LAYEROPS_BIND_NONE = 1,    /* the system may move them */
  LAYEROPS_BIND_COMPACT = 2, /* to the cores next to the caller's: they share caches */
  LAYEROPS_BIND_SPREAD = 3,  /* at equal distances over all cores: caches and memories add up */
  LAYEROPS_BIND_COUNT
} layerops_bind;

typedef struct layerops_open_args {
  const char *device;  /* NULL is "auto" */
  void *queue;         /* the user's CUstream or cl_command_queue (in order); NULL: own one */
  layerops_log_fn log; /* takes the verbose lines; NULL: stderr */
  void *log_user;
  int32_t verbose; /* as LAYEROPS_VERBOSE, which is used where this is 0 */
  int32_t
      threads; /* CPU: threads at most, the caller's counted, from 0 to 4096; 0: OMP_NUM_THREADS,
                  else all cores that cpuset and cgroup allow. There are never more than 64 or the
                  machine's hardware threads, whichever is more. With `parallel` this is instead
                  the most tasks in a call of it, and nothing else limits them */
  layerops_parallel_fn parallel; /* CPU: used in place of the context's own threads */
  void *parallel_user;
  layerops_buffer *workspace; /* scratch memory; NULL: the context's own, which grows */
  void *(*alloc)(void *user, size_t bytes,
                 size_t alignment); /* host memory; NULL: the C library's */
  void (*release)(void *user, void *pointer);
  void *alloc_user;
  int32_t bind;     /* CPU: a layerops_bind. To bind is an error together with `parallel` and under
                       LAYEROPS_CPU_PARALLEL=openmp, as those threads are not the context's own
                       (OMP_PROC_BIND binds OpenMP's), and UNSUPPORTED where the system cannot bind */
  int32_t no_cache; /* 1: as LAYEROPS_CACHE=0: nothing is read from $XDG_CACHE_HOME/layerops or kept
                       there (compiled programs, what tuning found); 0: it is used */
} layerops_open_args;

/* Opens a context on a device. "auto" or NULL is LAYEROPS_DEVICE where that is set, else the first
 * CUDA device, else the first OpenCL GPU, else the CPU. NO_DEVICE tells why there is none. */
LAYEROPS_API layerops_status layerops_open(const char *device, layerops_context **ctx);
LAYEROPS_API layerops_status layerops_open_with_(const layerops_open_args *args, size_t size,
                                                 layerops_context **ctx);
static inline layerops_status layerops_open_with(const layerops_open_args *args,
                                                 layerops_context **ctx) {
  return layerops_open_with_(args, sizeof(layerops_open_args), ctx);
}

/* Waits for what was enqueued, and frees the context. NULL is allowed. Errors that show now are
 * lost: sync first to see them. */
LAYEROPS_API void layerops_close(layerops_context *ctx);

/* Waits until all that was enqueued is done, and returns the context's error word: the first fault
 * that showed after its call had returned (a label out of range found on the device, ...). The
 * error word is then cleared. */
LAYEROPS_API layerops_status layerops_sync(layerops_context *ctx);

/* What `ctx` enqueues from now on starts after all that `other` has enqueued so far. Both contexts
 * are of one device. */
LAYEROPS_API layerops_status layerops_wait(layerops_context *ctx, layerops_context *other);

/* Describes the context's device. */
LAYEROPS_API layerops_status layerops_context_info_(layerops_context *ctx,
                                                    layerops_device_info *info, size_t size);
static inline layerops_status layerops_context_info(layerops_context *ctx,
                                                    layerops_device_info *info) {
  return layerops_context_info_(ctx, info, sizeof(layerops_device_info));
}

/* The name of the kernel that the last call of this context chose, "" before the first. Valid until
 * the next call. */
LAYEROPS_API const char *layerops_last_kernel(layerops_context *ctx);

/* ---- Buffers ------------------------------------------------------------------------------------
 * Memory of a device (on the CPU: 64-byte aligned host memory). Reference-counted: destroy drops
 * the caller's reference; memory goes when queued work that uses it is done. */

/* bytes may be 0. The content of a created buffer is undefined.
 *
 * On a machine with several memories (NUMA) a page of host memory lies where the thread runs that
 * touches it first. Where a context's threads are bound (open_args.bind), they touch the pages of
 * each buffer that it creates with the C library's allocator and that has 256 KB or more for each
 * of them: each thread one of as many equal parts, in the order in which operations divide rows.
 * Otherwise pages lie where they are first written. */
LAYEROPS_API layerops_status layerops_buffer_create(layerops_context *ctx, int64_t bytes,
                                                    layerops_buffer **buffer);
/* Creates a buffer and fills it; `host` may be reused on return. */
LAYEROPS_API layerops_status layerops_buffer_from(layerops_context *ctx, const void *host,
                                                  int64_t bytes, layerops_buffer **buffer);
/* A buffer over memory that the user owns: a host pointer (cpu, reference), a CUdeviceptr (cast to
 * void *) or a cl_mem. The memory must outlive the buffer. */
LAYEROPS_API layerops_status layerops_buffer_wrap(layerops_context *ctx, void *native,
                                                  int64_t bytes, layerops_buffer **buffer);
LAYEROPS_API void layerops_buffer_destroy(layerops_buffer *buffer); /* NULL is allowed */

/* Copies `bytes` between host memory and the buffer from byte `offset` on, in the order of the
 * queue. write: `host` may be reused on return. read: returns when the data is there; all calls
 * enqueued before are then done, and a fault of theirs is returned. */
LAYEROPS_API layerops_status layerops_buffer_write_at(layerops_context *ctx,
                                                      layerops_buffer *buffer, int64_t offset,
                                                      const void *host, int64_t bytes);
LAYEROPS_API layerops_status layerops_buffer_read_at(layerops_context *ctx, layerops_buffer *buffer,
                                                     int64_t offset, void *host, int64_t bytes);
static inline layerops_status layerops_buffer_write(layerops_context *ctx, layerops_buffer *buffer,
                                                    const void *host, int64_t bytes) {
  return layerops_buffer_write_at(ctx, buffer, 0, host, bytes);
}
static inline layerops_status layerops_buffer_read(layerops_context *ctx, layerops_buffer *buffer,
                                                   void *host, int64_t bytes) {
  return layerops_buffer_read_at(ctx, buffer, 0, host, bytes);
}

/* The host pointer, CUdeviceptr (as void *) or cl_mem; NULL for a NULL buffer. Its size in bytes.
 */
LAYEROPS_API void *layerops_buffer_native(layerops_buffer *buffer);
LAYEROPS_API int64_t layerops_buffer_bytes(const layerops_buffer *buffer);

/* ---- Events -------------------------------------------------------------------------------------
 * A mark in a context's queue. */
LAYEROPS_API layerops_status layerops_event_create(layerops_context *ctx, layerops_event **event);
LAYEROPS_API layerops_status layerops_event_record(layerops_event *event);
LAYEROPS_API layerops_status layerops_event_wait(layerops_event *event); /* until it is reached */
/* Milliseconds between two recorded and reached events of one context. */
LAYEROPS_API layerops_status layerops_event_elapsed(layerops_event *start, layerops_event *stop,
                                                    double *milliseconds);
LAYEROPS_API void layerops_event_destroy(layerops_event *event);

/* ---- Record and replay --------------------------------------------------------------------------
 * Between begin and end operations are checked, prepared (layerops_prepare) and recorded, not run.
 * One that is refused returns its error and is not in the graph. A graph replays the calls in
 * order, without checks or lookups, on the context that recorded it: on CUDA as one CUDA graph (as
 * a list where LAYEROPS_VERBOSE wants a line of each call), elsewhere as a list. Scalars that are
 * elements of buffers are read when it replays. Buffers and block-sparse weights must live as long
 * as the graph; its workspace it keeps itself, and only one context uses it, whose calls and
 * replays come one after the other. A context may have any number of graphs, and they may be
 * destroyed in any order, also when the context is closed and while a replay is on its way. Faults
 * that a replay finds are told by the next sync or read (on the CPU by the replay itself, which
 * ends there).
 *
 * Host views that would be staged, reads, writes and syncs cannot be recorded (STATE), nor can a
 * context begin twice or replay while it records. Used by the context's thread. */
LAYEROPS_API layerops_status layerops_record_begin(layerops_context *ctx);
/* Where it fails the recording is over, and *graph is NULL; but a NULL `graph` is INVALID and the
 * recording goes on. */
LAYEROPS_API layerops_status layerops_record_end(layerops_context *ctx, layerops_graph **graph);
LAYEROPS_API layerops_status layerops_graph_replay(layerops_graph *graph);
LAYEROPS_API void layerops_graph_destroy(layerops_graph *graph); /* NULL is allowed */

/* ---- Logging ------------------------------------------------------------------------------------
 * LAYEROPS_VERBOSE=1 in the environment (or open_args.verbose) prints a line per call to stderr or
 * to the context's log function: layerops: linear_forward device=cpu kernel=NAME m=64 n=128 k=784
 * batch=1 type=f32 out=f32 trans=nt activation=relu ms=0.031 gflops=414.2 (one line; with packed
 * weights also packed=1, where weights or op(B) have another type also w=i8; the times are those of
 * the call alone, so each call is waited for). 2 also prints which kernels refused the call, and
 * why. */

#ifdef __cplusplus
}
#endif
#endif
