/* The border between the host's C and nvcc's C++: each function launches kernels on a stream and
 * returns the runtime's error number, 0 for success. */
#ifndef LO_CUDA_LAUNCH_H
#define LO_CUDA_LAUNCH_H

#include <stddef.h>

#include "backends/cuda/params.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lo_cu_grid {
  lo_i64 x, y, z;
  unsigned threads;
  unsigned shared;               /* bytes of dynamic shared memory */
  unsigned cluster_x, cluster_y; /* blocks of a cluster, from Hopper on; 0: none */
  int alone;                     /* it must not begin before the launch before it has ended */
  int follows;                   /* lo_cu_launch's: it may */
} lo_cu_grid;

/* Launches without touching the thread's last error. `params` points to the kernel's one argument,
 * by its type. There is no other way to launch: see lo_cu_keep. */
#define lo_cu_launch(kernel, grid, params, stream)                                                 \
  lo_cu_launch_(kernel, grid, params, sizeof *(params), stream)
int lo_cu_launch_(const void *kernel, lo_cu_grid grid, const void *params, size_t bytes,
                  void *stream);

/* A launch as it was made, to be made again. */
typedef struct lo_cu_kept {
  struct lo_cu_kept *next;
  void *function; /* the driver's */
  lo_cu_grid grid;
  lo_u64 params[]; /* the argument */
} lo_cu_kept;

typedef struct lo_cu_keeper {
  lo_cu_kept *first, *last;
  int failed; /* one of them could not be kept */
} lo_cu_keeper;

/* From now on this thread's launches are also kept, behind those that the keeper has; until the
 * next call, with another keeper or NULL. */
void lo_cu_keep(lo_cu_keeper *keeper);
void lo_cu_forget(lo_cu_keeper *keeper);

/* The architecture that the code which the driver chose was compiled for: 75 where it had to
 * compile PTX of compute_75, whatever the device. */
int lo_cu_code_architecture(int *architecture);

int lo_cu_run_gemm_f32(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_gemm_16(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* Tiles: LO_CU_MMA_TILES; LO_CU_MMA_K16_TILES; the former and LO_CU_MMA_ANY_INT8_TILES. */
int lo_cu_run_gemm_mma_k8(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_gemm_mma_k16(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_gemm_mma_int8(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* Row `number` of LO_CU_ASYNC_TILES, or where words of LO_CU_ASYNC_WORD_TILES. */
int lo_cu_run_async_f16(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_async_bf16(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_async_tf32(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* op(A) and op(B) run along k. */
int lo_cu_run_async_int8(int number, int words, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* Row `number` of LO_CU_WGMMA_TILES; f8: of LO_CU_WGMMA_F8_TILES, fast: with sums as the tensor
 * cores keep them. */
int lo_cu_run_wgmma_f16(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_wgmma_bf16(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_wgmma_tf32(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_wgmma_int8(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_wgmma_f8(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_wgmma_f8_fast(int number, const lo_cu_boxed_gemm *p, lo_cu_grid grid, void *stream);
/* Copies rows of elements as they are, or of 8 bits as 16. */
int lo_cu_run_align(const lo_cu_align *p, lo_cu_grid grid, void *stream);
int lo_cu_run_widen(const lo_cu_align *p, lo_cu_grid grid, void *stream);
/* number: of LO_CU_TRIPLE_TILES; below 0: wgmma's. */
int lo_cu_run_gemm_triple(int number, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* The tiles of LO_CU_SLICED_TILES. type: LO_SLICED_ */
int lo_cu_run_gemm_sliced(int tile, int type, int loose, const lo_cu_gemm *p, lo_cu_grid grid,
                          void *stream);
/* Kernels of gemm_direct.cuh, all tiles of a product at once, by their number in params.h's lists:
 * on tensor cores with a unit LO_DIRECT_, on ordinary cores for f32 or 16-bit operands. Of the grid
 * only `alone` counts. */
int lo_cu_run_direct_mma(int number, int unit, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* B of 8 bits, of p->b.type: numbers of LO_CU_DIRECT_W8 and its LARGE ones. */
int lo_cu_run_direct_w8(int number, int unit, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_direct_fma(int number, int halves, const lo_cu_gemm *p, lo_cu_grid grid,
                         void *stream);
int lo_cu_run_column_sum(const lo_cu_column_sum *p, void *stream);
int lo_cu_run_activation_forward(const lo_cu_unary *p, lo_cu_grid grid, void *stream);
int lo_cu_run_activation_backward(const lo_cu_binary *p, lo_cu_grid grid, void *stream);
int lo_cu_run_sgd_step(const lo_cu_sgd *p, lo_cu_grid grid, void *stream);
int lo_cu_run_adam_step(const lo_cu_adam *p, lo_cu_grid grid, void *stream);

/* line: of LO_CU_LINES. */
int lo_cu_run_softmax_rows(const lo_cu_softmax *p, int line, lo_cu_grid grid, void *stream);
int lo_cu_run_cross_entropy_rows(const lo_cu_cross_entropy *p, int line, lo_cu_grid grid,
                                 void *stream);
int lo_cu_run_mse_all(const lo_cu_mse *p, lo_cu_grid grid, void *stream);

int lo_cu_run_fill_all(const lo_cu_fill *p, lo_cu_grid grid, void *stream);
/* Converts; or moves elements of `width` bytes as they are (16: several at once). */
int lo_cu_run_convert(const lo_cu_copy *p, lo_cu_grid grid, void *stream);
int lo_cu_run_move(const lo_cu_copy *p, int width, lo_cu_grid grid, void *stream);
int lo_cu_run_transpose_all(const lo_cu_copy *p, int width, lo_i64 tiles, void *stream);

#ifdef __cplusplus
}
#endif
#endif
