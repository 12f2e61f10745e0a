#ifndef BENCH_PEERS_CUBLASLT_ACTIVATION_H
#define BENCH_PEERS_CUBLASLT_ACTIVATION_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y = act(y) over COUNT elements: what cuBLASLt's epilogue does not have. */
bool bench_cuda_activation(void *y, int64_t count, const char *dtype, int activation,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
