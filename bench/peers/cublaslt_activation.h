#ifndef BENCH_PEERS_CUBLASLT_ACTIVATION_H
#define BENCH_PEERS_CUBLASLT_ACTIVATION_H

/* What cuBLASLt's epilogue does not have, each in one kernel. */

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y = act(y) over COUNT elements. */
bool bench_cuda_activation(void *y, int64_t count, const char *dtype, int activation,
                           cudaStream_t stream);

/* y[m,n] (i8) = act(scale_x scale_w[j] sums[m,n] + bias[j]) / scale_y, rounded; sums are int32. */
bool bench_cuda_requantise(const void *sums, void *y, int64_t m, int64_t n, float scale_x,
                           const float *scale_w, const void *bias, float scale_y, int activation,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
