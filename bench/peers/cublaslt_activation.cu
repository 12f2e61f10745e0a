#include <config.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>

#include "bench/peers/cublaslt_activation.h"

#define THREADS    256
#define PER_THREAD 4

static __device__ float activate(float z, int activation) {
  switch (activation) {
  case 2:
    return z < 0 ? 0.01f * z : z;
  case 3:
    return 0.5f * z * (1 + erff(z * 0.70710678f));
  case 5:
    return z / (1 + __expf(-z));
  case 6:
    return 1 / (1 + __expf(-z));
  case 7:
    return tanhf(z);
  default:
    return z;
  }
}

template <typename T> static __global__ void pass(T *y, int64_t count, int activation) {
  int64_t first = (int64_t)blockIdx.x * (THREADS * PER_THREAD) + threadIdx.x;
#pragma unroll
  for (int j = 0; j < PER_THREAD; j++) {
    int64_t i = first + j * THREADS;
    if (i < count) y[i] = (T)activate((float)y[i], activation);
  }
}

extern "C" bool bench_cuda_activation(void *y, int64_t count, const char *dtype, int activation,
                                      cudaStream_t stream) {
  unsigned blocks = (unsigned)((count + THREADS * PER_THREAD - 1) / (THREADS * PER_THREAD));
  if (!strcmp(dtype, "f32"))
    pass<<<blocks, THREADS, 0, stream>>>((float *)y, count, activation);
  else if (!strcmp(dtype, "f16"))
    pass<<<blocks, THREADS, 0, stream>>>((__half *)y, count, activation);
  else
    pass<<<blocks, THREADS, 0, stream>>>((__nv_bfloat16 *)y, count, activation);
  return cudaGetLastError() == cudaSuccess;
}
