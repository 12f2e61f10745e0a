#include <config.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>

#include "bench/peers/cublaslt_activation.h"

#define THREADS 256
#define QUAD    4 /* elements a thread */

static __device__ float sigmoid(float z) {
  return __fdividef(1, 1 + __expf(-z));
}

static __device__ float activate(float z, int activation) {
  switch (activation) {
  case 1:
    return z < 0 ? 0 : z;
  case 2:
    return z < 0 ? 0.01f * z : z;
  case 3: /* in the tanh form, as cuBLASLt's own is */
  case 4:
    return z * sigmoid(1.59576912f * (z + 0.044715f * z * z * z));
  case 5:
    return z * sigmoid(z);
  case 6:
    return sigmoid(z);
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

static unsigned blocks_of(int64_t count, int64_t each) {
  return (unsigned)((count + each - 1) / each);
}

/* y is the start of an operand, which is aligned. */
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
  const unsigned blocks = blocks_of(count, THREADS * QUAD);
  if (!strcmp(dtype, "f16"))
    pass<<<blocks, THREADS, 0, stream>>>((__half *)y, count, activation);
  else if (!strcmp(dtype, "bf16"))
    pass<<<blocks, THREADS, 0, stream>>>((__nv_bfloat16 *)y, count, activation);
  else
    pass<<<blocks, THREADS, 0, stream>>>((float *)y, count, activation);
  return cudaGetLastError() == cudaSuccess;
}

/* ---- integers ---- */

struct scales {
  float x, to_y;
  const float *w, *bias;
};

static __device__ signed char requantised(int sum, float scale, float bias, float to_y,
                                          int activation) {
  const float y = activate((float)sum * scale + bias, activation) * to_y;
  int rounded;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(y));
  return (signed char)rounded;
}

/* Columns whose number 4 divides: a quad lies in one row, and all quads of a thread, STRIDE apart,
   in the same columns. */
template <int QUADS>
static __global__ void requantise_quads(const int4 *sums, char4 *y, int64_t quads, int64_t stride,
                                        unsigned quads_a_row, scales s, int activation) {
  const int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (first >= stride) return;
  int4 sum[QUADS];
#pragma unroll
  for (int j = 0; j < QUADS; j++)
    if (first + j * stride < quads) sum[j] = sums[first + j * stride];
  const int64_t column = first >> 32 ? first % quads_a_row : (unsigned)first % quads_a_row;
  const float4 w = ((const float4 *)s.w)[column], bias = ((const float4 *)s.bias)[column];
#pragma unroll
  for (int j = 0; j < QUADS; j++)
    if (first + j * stride < quads)
      y[first + j * stride] =
          make_char4(requantised(sum[j].x, s.x * w.x, bias.x, s.to_y, activation),
                     requantised(sum[j].y, s.x * w.y, bias.y, s.to_y, activation),
                     requantised(sum[j].z, s.x * w.z, bias.z, s.to_y, activation),
                     requantised(sum[j].w, s.x * w.w, bias.w, s.to_y, activation));
}

static __global__ void requantise(const int32_t *sums, signed char *y, int64_t count, int64_t n,
                                  scales s, int activation) {
  const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  const int64_t column = i >> 32 ? i % n : (unsigned)i % (unsigned)n;
  y[i] = requantised(sums[i], s.x * s.w[column], s.bias[column], s.to_y, activation);
}

#define MANY_QUADS   4
#define FEW_ELEMENTS (1 << 23) /* where one quad a thread keeps more SMs busy */

extern "C" bool bench_cuda_requantise(const void *sums, void *y, int64_t m, int64_t n,
                                      float scale_x, const float *scale_w, const void *bias,
                                      float scale_y, int activation, cudaStream_t stream) {
  const scales s = {scale_x, 1 / scale_y, scale_w, (const float *)bias};
  const int64_t count = m * n, quads = count / 4, quads_a_row = n / 4;
  const int64_t rows = (m + MANY_QUADS - 1) / MANY_QUADS; /* so many at a time */
  if (n % 4)
    requantise<<<blocks_of(count, THREADS), THREADS, 0, stream>>>(
        (const int32_t *)sums, (signed char *)y, count, n, s, activation);
  else if (count < FEW_ELEMENTS)
    requantise_quads<1><<<blocks_of(quads, THREADS), THREADS, 0, stream>>>(
        (const int4 *)sums, (char4 *)y, quads, quads, (unsigned)quads_a_row, s, activation);
  else
    requantise_quads<MANY_QUADS><<<blocks_of(rows * quads_a_row, THREADS), THREADS, 0, stream>>>(
        (const int4 *)sums, (char4 *)y, quads, rows * quads_a_row, (unsigned)quads_a_row, s,
        activation);
  return cudaGetLastError() == cudaSuccess;
}
