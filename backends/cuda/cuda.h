/* The host side of the CUDA backend. */
#ifndef LO_CUDA_CUDA_H
#define LO_CUDA_CUDA_H

#include "backends/cuda/driver.h"
#include "backends/cuda/launch.h"
#include "common/context.h"
#include "common/tuned.h"

struct CUstream_st;
struct CUevent_st;

/* What the contexts and buffers of a device share (lo_device.state): the driver's primary context,
 * the one that the CUDA runtime and other libraries use too. */
typedef struct lo_cuda_device {
  CUcontext primary;
  int sms, architecture;
  int shared; /* bytes that a block may have */
} lo_cuda_device;

/* The most tiles of a product in parts of k: only small grids are parted. */
enum { LO_CUDA_COUNTERS = 1 << 16 };
/* Which faults calls since the last look may have found, and what their labels (indices) had to lie
 * below: 0 where there is no limit to tell, -1 where it differed. */
typedef struct lo_cuda_armed {
  bool any;
  int64_t label_limit, index_limit;
} lo_cuda_armed;

/* A context of ours (ctx->state). */
typedef struct lo_cuda_state {
  lo_cuda_device *device;
  struct CUstream_st *stream;
  bool own_stream;
  int architecture; /* whose kernels run: the device's, or LAYEROPS_CUDA_ARCH */
  char forced[48];  /* LAYEROPS_CUDA_KERNEL=NAME[:PARTS]: only this kernel; "": all */
  int forced_split; /* and so many parts of k; 0: as many as are best */
  struct CUevent_st *mark;
  struct lo_cuda_plans *plans;   /* plan.c's */
  lo_tuned tuned;                /* tuned.c's */
  struct lo_cuda_tuning *tuning; /* tune.c's; NULL: not tuning */
  int *counters;                 /* LO_CUDA_COUNTERS of 0 on the device: lo_cu_gemm's */

  /* Pinned memory through which small copies go, in two halves; used[i] is set when the queue has
   * passed half i. */
  char *pinned;
  struct CUevent_st *used[2];
  int half;
  int64_t filled;

  /* Faults that kernels find. */
  lo_cu_fault *faults; /* on the device */
  lo_cuda_armed armed;

  lo_cu_meeting *meeting; /* on the device: of the one launch that runs */

  uint64_t scratch; /* the number of the buffer that lo_cuda_scratch gave last */

  struct CUstream_st *capture; /* on which graphs are captured; made when it is needed */
} lo_cuda_state;

static inline lo_cuda_state *lo_cuda(layerops_context *ctx) {
  return (lo_cuda_state *)ctx->state;
}

/* Turns an error number of the CUDA runtime into a status. A fault of the device itself loses it.
 */
layerops_status lo_cuda_check(layerops_context *ctx, int error, const char *what);

/* Makes our CUDA context the thread's current one, and puts the former back where there was
 * another. */
layerops_status lo_cuda_enter(lo_device *device, bool *pushed);
void lo_cuda_leave(bool pushed);

/* The faults on the device, armed for a call whose labels (indices) must lie below `limit`. */
lo_u64 *lo_cuda_label_fault(layerops_context *ctx, int64_t limit);
lo_u64 *lo_cuda_index_fault(layerops_context *ctx, int64_t limit);
/* Armed for calls that were armed before: a graph's. */
void lo_cuda_arm(layerops_context *ctx, lo_cuda_armed armed);

/* ---- Views, scalars and grids as kernels take them. */
/* Whether that many neighbours, from a column that the number divides, may be moved at once. All
 * numbers are powers of two: masks, as a division takes as long as all the rest. */
static inline bool lo_cuda_aligned(const layerops_matrix *m, int elements) {
  uintptr_t bytes = (uintptr_t)elements * lo_type_bytes(m->type);
  int64_t distances = (m->rows == 1 ? 0 : m->stride) | (m->batch == 1 ? 0 : m->batch_stride);
  return !((uintptr_t)lo_address(m) & (bytes - 1)) && !(distances & (elements - 1));
}
static inline lo_cu_view lo_cuda_view(const layerops_matrix *m) {
  if (!lo_present(m)) return (lo_cu_view){0};
  return (lo_cu_view){.p = lo_address(m),
                      .rows = m->rows,
                      .cols = m->cols,
                      .stride = m->stride,
                      .batch_stride = m->batch == 1 ? 0 : m->batch_stride,
                      .type = m->type,
                      .vector = lo_cuda_aligned(m, 4)};
}
static inline lo_cu_scalar lo_cuda_scalar(const layerops_scalar *s) {
  if (s->kind != 2) return (lo_cu_scalar){.value = s->value};
  return (lo_cu_scalar){.p = (const float *)s->buffer->native + s->offset};
}

/* Makes one row of each view where all are tight, so that rows need no tails. */
void lo_cuda_flatten(lo_cu_view **views, int count);

/* Blocks of 256 threads for that much work, each item a thread's; a few waves at most: kernels
 * loop. */
lo_cu_grid lo_cuda_grid(layerops_context *ctx, int64_t items);
/* The same for the quads of a view. */
lo_cu_grid lo_cuda_quads(layerops_context *ctx, const lo_cu_view *view);

/* Scratch memory (lo_workspace) on a border of 256 bytes: the user's workspace may begin anywhere.
 * NULL where no bytes are wanted. */
layerops_status lo_cuda_scratch(layerops_context *ctx, int64_t bytes, char **out);

/* NULL, or why LAYEROPS_CUDA_KERNEL shuts this kernel out. */
const char *lo_cuda_shut_out(layerops_context *ctx, const char *name);

/* ---- context.c, memory.c */
layerops_status lo_cuda_open(layerops_context *ctx, int index, const layerops_open_args *args);
void lo_cuda_close(layerops_context *ctx);
layerops_status lo_cuda_sync(layerops_context *ctx);
layerops_status lo_cuda_wait(layerops_context *ctx, layerops_context *other);
layerops_status lo_cuda_event_create(layerops_context *ctx, void **event);
layerops_status lo_cuda_event_record(layerops_context *ctx, void *event);
layerops_status lo_cuda_event_wait(layerops_context *ctx, void *event);
layerops_status lo_cuda_event_elapsed(layerops_context *ctx, void *start, void *stop, double *ms);
void lo_cuda_event_destroy(layerops_context *ctx, void *event);
/* Waits for the queue and looks for faults. */
layerops_status lo_cuda_finish(layerops_context *ctx);

/* ---- graph.c */
layerops_status lo_cuda_graph_prepare(layerops_context *ctx, const lo_call *call);
bool lo_cuda_graph_capturing(layerops_context *ctx);
layerops_status lo_cuda_graph_create(layerops_context *ctx, const lo_call *calls, size_t count,
                                     void **native);
layerops_status lo_cuda_graph_replay(layerops_context *ctx, void *native);
void lo_cuda_graph_release(void *native);

/* ---- again.c */
layerops_status lo_cuda_again_run(layerops_context *ctx, const lo_call *call, void **kept);
void lo_cuda_again_release(void *kept);

layerops_status lo_cuda_buffer_create(layerops_context *ctx, layerops_buffer *buffer);
layerops_status lo_cuda_buffer_wrap(layerops_context *ctx, layerops_buffer *buffer);
void lo_cuda_buffer_release(layerops_buffer *buffer);
layerops_status lo_cuda_write(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                              const void *host, int64_t bytes);
layerops_status lo_cuda_read(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                             void *host, int64_t bytes);

/* ---- tuned.c, tune.c */
layerops_status lo_cuda_tune_begin(layerops_context *ctx, const layerops_tune_args *args);
layerops_status lo_cuda_tune_end(layerops_context *ctx);
layerops_status lo_cuda_tune_list(layerops_context *ctx, layerops_tuned_fn told, void *user);
layerops_status lo_cuda_tune_clear(layerops_context *ctx);

/* ---- The operations, with our CUDA context current. */
#define LO_CUDA_OPERATION(name, number)                                                            \
  layerops_status lo_cuda_##name(layerops_context *ctx, const layerops_##name##_args *args);
LAYEROPS_OP_LIST(LO_CUDA_OPERATION)
#undef LO_CUDA_OPERATION

#endif
