#include <config.h>

#include <dlfcn.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backends/cuda/params.h"
#include "bench/host_cost.h"

static __global__ void empty(const __grid_constant__ lo_cu_gemm) {}

static CUfunction function;
static decltype(&cuLaunchKernel) launch;

extern "C" int empty_stream(void **stream) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver) launch = (decltype(launch))dlsym(driver, "cuLaunchKernel");
  if (!launch) return cudaErrorInsufficientDriver;
  int error = cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking);
  return error ? error : cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)empty);
}

extern "C" int empty_bytes(void) {
  return sizeof(lo_cu_gemm);
}

extern "C" int empty_launch(void *stream) {
  static lo_cu_gemm p;
  void *arguments[] = {&p};
  return launch(function, 4, 1, 1, 256, 1, 1, 0, (CUstream)stream, arguments, NULL);
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
