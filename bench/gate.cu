#include <config.h>

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "bench/gate.h"

#define PATIENCE 200000000ull /* ns */

struct bench_gate {
  int device;
  cudaStream_t stream;
  volatile unsigned *opened; /* the ticket of the last opening, in memory that the device reads */
  unsigned closed;           /* the ticket of the last closing */
};

static __device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

static __global__ void spin(volatile unsigned *opened, unsigned ticket) {
  const unsigned long long begin = nanoseconds();
  while (*opened < ticket && nanoseconds() - begin < PATIENCE) continue;
}

extern "C" struct bench_gate *bench_gate_make(int device) {
  struct bench_gate *gate = (struct bench_gate *)calloc(1, sizeof *gate);
  void *flag = NULL;
  if (!gate) return NULL;
  gate->device = device;
  if (cudaSetDevice(device) || cudaStreamCreateWithFlags(&gate->stream, cudaStreamNonBlocking) ||
      cudaHostAlloc(&flag, sizeof *gate->opened, cudaHostAllocDefault)) {
    bench_gate_free(gate);
    return NULL;
  }
  gate->opened = (volatile unsigned *)flag;
  *gate->opened = 0;
  return gate;
}

extern "C" void *bench_gate_stream(const struct bench_gate *gate) {
  return gate->stream;
}

extern "C" bool bench_gate_close(struct bench_gate *gate) {
  if (cudaSetDevice(gate->device)) return false;
  spin<<<1, 1, 0, gate->stream>>>(gate->opened, ++gate->closed);
  return cudaGetLastError() == cudaSuccess;
}

extern "C" void bench_gate_open(struct bench_gate *gate) {
  *gate->opened = gate->closed;
}

extern "C" void bench_gate_free(struct bench_gate *gate) {
  if (!gate) return;
  if (gate->opened) cudaFreeHost((void *)gate->opened);
  if (gate->stream) cudaStreamDestroy(gate->stream);
  free(gate);
}
