#include <config.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/params.h"
#include "bench/host_cost.h"

static __global__ void empty(const __grid_constant__ lo_cu_gemm) {}

extern "C" int empty_stream(void **stream) {
  return cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking);
}

extern "C" int empty_bytes(void) {
  return sizeof(lo_cu_gemm);
}

extern "C" int empty_launch(void *stream) {
  static lo_cu_gemm p;
  void *arguments[] = {&p};
  return cudaLaunchKernel((const void *)empty, dim3(4), dim3(256), arguments, 0,
                          (cudaStream_t)stream);
}

extern "C" int empty_graph(void *stream, int launches, void **graph) {
  cudaGraph_t captured;
  int error = cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < launches && !error; i++) error = empty_launch(stream);
  if (!error) error = cudaStreamEndCapture((cudaStream_t)stream, &captured);
  if (!error) error = cudaGraphInstantiate((cudaGraphExec_t *)graph, captured, 0);
  return error ? error : cudaGraphDestroy(captured);
}

extern "C" int empty_replay(void *graph, void *stream) {
  return cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)stream);
}

extern "C" int empty_wait(void *stream) {
  return cudaStreamSynchronize((cudaStream_t)stream);
}
