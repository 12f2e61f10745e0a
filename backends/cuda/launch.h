/* The border between the host's C and nvcc's C++: each function launches kernels on a stream and
 * returns the runtime's error number, 0 for success. */
#ifndef LO_CUDA_LAUNCH_H
#define LO_CUDA_LAUNCH_H

#include "backends/cuda/params.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lo_cu_grid {
  lo_i64 x, y, z;
  unsigned threads;
  unsigned shared; /* bytes of dynamic shared memory */
} lo_cu_grid;

/* Launches without touching the thread's last error. `params` is the kernel's one argument. */
int lo_cu_launch(const void *kernel, lo_cu_grid grid, const void *params, void *stream);

/* The architecture that the code which the driver chose was compiled for: 75 where it had to
 * compile PTX of compute_75, whatever the device. */
int lo_cu_code_architecture(int *architecture);

int lo_cu_run_gemm_f32(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_gemm_16(int tile, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
/* mma: 0 m16n8k8 f16, 1 m16n8k16 f16, 2 m16n8k16 bf16. */
/* The tiles of LO_CU_SLICED_TILES. type: LO_SLICED_ */
int lo_cu_run_gemm_sliced(int tile, int type, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_gemm_mma(int tile, int mma, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);
int lo_cu_run_column_sum(const lo_cu_column_sum *p, void *stream);
int lo_cu_run_bsr_f32(int tile, const lo_cu_bsr *p, lo_cu_grid grid, void *stream);

int lo_cu_run_activation_forward(const lo_cu_unary *p, lo_cu_grid grid, void *stream);
int lo_cu_run_activation_backward(const lo_cu_binary *p, lo_cu_grid grid, void *stream);
int lo_cu_run_sgd_step(const lo_cu_sgd *p, lo_cu_grid grid, void *stream);
int lo_cu_run_adam_step(const lo_cu_adam *p, lo_cu_grid grid, void *stream);

/* A row by a warp, or by a block of threads where they are 256. */
int lo_cu_run_softmax_rows(const lo_cu_softmax *p, int row_threads, lo_cu_grid grid, void *stream);
int lo_cu_run_cross_entropy_rows(const lo_cu_cross_entropy *p, int row_threads, void *stream);
int lo_cu_run_mse_all(const lo_cu_mse *p, void *stream);

int lo_cu_run_fill_all(const lo_cu_fill *p, lo_cu_grid grid, void *stream);
/* Converts; or moves elements of `width` bytes as they are (16: several at once). */
int lo_cu_run_convert(const lo_cu_copy *p, lo_cu_grid grid, void *stream);
int lo_cu_run_move(const lo_cu_copy *p, int width, lo_cu_grid grid, void *stream);
int lo_cu_run_transpose_all(const lo_cu_copy *p, int width, lo_i64 tiles, void *stream);

#ifdef __cplusplus
}
#endif
#endif
