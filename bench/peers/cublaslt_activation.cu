#include <config.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>

#include "bench/peers/cublaslt_activation.h"

#define THREADS 256
#define QUAD    4 /* elements a thread */

static __device__ float activate(float z, int activation) {
  switch (activation) {
  case 1:
    return z < 0 ? 0 : z;
  case 2:
    return z < 0 ? 0.01f * z : z;
  case 3:
    return 0.5f * z * (1 + erff(z * 0.70710678f));
  case 4:
    return 0.5f * z * (1 + tanhf(0.79788456f * (z + 0.044715f * z * z * z)));
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

template <typename T> struct alignas(QUAD * sizeof(T)) quad { T e[QUAD]; };

static __device__ int64_t first_of_thread() {
  return ((int64_t)blockIdx.x * THREADS + threadIdx.x) * QUAD;
}

static unsigned blocks_for(int64_t count) {
  return (unsigned)((count + THREADS * QUAD - 1) / (THREADS * QUAD));
}

/* y comes from cudaMalloc: quads are aligned. */
template <typename T> static __global__ void pass(T *y, int64_t count, int activation) {
  const int64_t i = first_of_thread();
  if (i + QUAD <= count) {
    quad<T> q = *(quad<T> *)(y + i);
#pragma unroll
    for (int j = 0; j < QUAD; j++) q.e[j] = (T)activate((float)q.e[j], activation);
    *(quad<T> *)(y + i) = q;
    return;
  }
  for (int64_t j = i; j < count; j++) y[j] = (T)activate((float)y[j], activation);
}

extern "C" bool bench_cuda_activation(void *y, int64_t count, const char *dtype, int activation,
                                      cudaStream_t stream) {
  const unsigned blocks = blocks_for(count);
  if (!strcmp(dtype, "f16"))
    pass<<<blocks, THREADS, 0, stream>>>((__half *)y, count, activation);
  else if (!strcmp(dtype, "bf16"))
    pass<<<blocks, THREADS, 0, stream>>>((__nv_bfloat16 *)y, count, activation);
  else
    pass<<<blocks, THREADS, 0, stream>>>((float *)y, count, activation);
  return cudaGetLastError() == cudaSuccess;
}

struct scales {
  float x, y;
  const float *w, *bias;
};

static __device__ signed char requantised(int sum, int64_t column, scales s, int activation) {
  const float z = (float)sum * (s.x * s.w[column]) + s.bias[column];
  return (signed char)fmaxf(-128, fminf(127, rintf(activate(z, activation) / s.y)));
}

static __global__ void requantise(const int32_t *sums, signed char *y, int64_t count, int64_t n,
                                  scales s, int activation) {
  const int64_t i = first_of_thread();
  int64_t column = i % n;
  quad<int32_t> sum;
  quad<signed char> q;
  if (i + QUAD <= count) {
    sum = *(const quad<int32_t> *)(sums + i);
#pragma unroll
    for (int j = 0; j < QUAD; j++) {
      q.e[j] = requantised(sum.e[j], column, s, activation);
      if (++column == n) column = 0;
    }
    *(quad<signed char> *)(y + i) = q;
    return;
  }
  for (int64_t j = i; j < count; j++) y[j] = requantised(sums[j], j % n, s, activation);
}

extern "C" bool bench_cuda_requantise(const void *sums, void *y, int64_t m, int64_t n,
                                      float scale_x, const float *scale_w, const void *bias,
                                      float scale_y, int activation, cudaStream_t stream) {
  const scales s = {scale_x, scale_y, scale_w, (const float *)bias};
  requantise<<<blocks_for(m * n), THREADS, 0, stream>>>((const int32_t *)sums, (signed char *)y,
                                                        m * n, n, s, activation);
  return cudaGetLastError() == cudaSuccess;
}
