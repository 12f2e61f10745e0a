/* What stands around the main loops: a launch, column sums. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/epilogue.cuh"
#include "backends/cuda/launch.h"

/* More than 48 KB of shared memory, what is declared included, must be asked for, once for each
 * kernel and device. */
static int allow_shared(const void *kernel, unsigned bytes) {
  enum { KERNELS = 1024, DEVICES = 64 };
  static struct {
    const void *kernel;
    unsigned long long devices;
  } asked[KERNELS];
  int device;
  int error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  unsigned long long bit = device < DEVICES ? 1ull << device : 0, *devices = NULL;
  unsigned at = (unsigned)((lo_u64)kernel >> 4) % KERNELS;
  for (int i = 0; i < KERNELS && !devices; i++, at = (at + 1) % KERNELS) {
    const void *found = NULL;
    if (__atomic_compare_exchange_n(&asked[at].kernel, &found, kernel, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE) ||
        found == kernel)
      devices = &asked[at].devices;
  }
  if (devices && __atomic_load_n(devices, __ATOMIC_ACQUIRE) & bit) return cudaSuccess;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (error == cudaSuccess && devices) __atomic_fetch_or(devices, bit, __ATOMIC_ACQ_REL);
  return error;
}

/* ---- Launches that are kept */
static __thread lo_cu_keeper *keeper;

static void keep(const void *kernel, lo_cu_grid grid, const void *params, size_t bytes) {
  cudaFunction_t function;
  lo_cu_kept *l = (lo_cu_kept *)malloc(sizeof *l + bytes);
  if (!l || cudaGetFuncBySymbol(&function, kernel) != cudaSuccess) {
    cudaGetLastError();
    free(l);
    keeper->failed = 1;
    return;
  }
  l->next = NULL;
  l->function = function;
  l->grid = grid;
  memcpy(l->params, params, bytes);
  *(keeper->last ? &keeper->last->next : &keeper->first) = l;
  keeper->last = l;
}

void lo_cu_keep(lo_cu_keeper *k) {
  keeper = k;
}

void lo_cu_forget(lo_cu_keeper *k) {
  for (lo_cu_kept *l = k->first, *next; l; l = next) {
    next = l->next;
    free(l);
  }
  k->first = k->last = NULL;
}

/* Whether kernels may be launched while the one before still runs: their code must wait for it
 * (lo_follow), and the driver must know how to capture such launches. */
static int follows(int *yes) {
  enum { DEVICES = 64, UNKNOWN = 0, NO, YES };
  static int known[DEVICES];
  int device, driver, architecture, error = cudaGetDevice(&device);
  *yes = 0;
  if (error || device >= DEVICES) return error;
  int state = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
  if (state == UNKNOWN) {
    error = cudaDriverGetVersion(&driver);
    if (!error) error = lo_cu_code_architecture(&architecture);
    if (error) return error;
    state = driver >= 12030 && architecture >= 90 ? YES : NO;
    __atomic_store_n(&known[device], state, __ATOMIC_RELAXED);
  }
  *yes = state == YES;
  return error;
}

int lo_cu_launch_(const void *kernel, lo_cu_grid grid, const void *params, size_t bytes,
                  void *stream) {
  void *arguments[] = {(void *)params};
  const unsigned declared = 8 * 1024; /* at most */
  int error = grid.shared > 48 * 1024 - declared ? allow_shared(kernel, grid.shared) : 0;
  if (!error && !grid.alone) error = follows(&grid.follows);
  if (error) return error;
  if (keeper) keep(kernel, grid, params, bytes);
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z);
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.shared;
  config.stream = (cudaStream_t)stream;
  config.attrs = attributes;
  if (grid.follows) {
    cudaLaunchAttribute *a = &attributes[config.numAttrs++];
    a->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a->val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster_x * grid.cluster_y > 1) {
    cudaLaunchAttribute *a = &attributes[config.numAttrs++];
    a->id = cudaLaunchAttributeClusterDimension;
    a->val.clusterDim.x = grid.cluster_x;
    a->val.clusterDim.y = grid.cluster_y;
    a->val.clusterDim.z = 1;
  }
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

/* ---- Sums over rows: 32 columns and a run of rows a block; eight rows are read at a time. */
__global__ void __launch_bounds__(256)
    column_parts_kernel(const __grid_constant__ lo_cu_column_sum p) {
  lo_follow();
  __shared__ float shared[8][33];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  lo_i64 tiles = (p.x.cols + 31) / 32;
  lo_i64 first = blockIdx.y * p.rows_each, end = first + p.rows_each;
  if (end > p.x.rows) end = p.x.rows;
  for (lo_i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    lo_i64 col = 32 * tile + x;
    float sum = 0;
    if (col < p.x.cols)
      for (lo_i64 row = first + y; row < end; row += 8) sum += lo_load(p.x, row * p.x.stride + col);
    shared[y][x] = sum;
    __syncthreads();
    if (y == 0 && col < p.x.cols) {
      for (int i = 1; i < 8; i++) sum += shared[i][x];
      p.parts[blockIdx.y * p.x.cols + col] = sum;
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(256)
    column_finish_kernel(const __grid_constant__ lo_cu_column_sum p) {
  lo_follow();
  float beta = lo_scalar_float(p.beta);
  lo_i64 step = (lo_i64)gridDim.x * blockDim.x;
  for (lo_i64 col = (lo_i64)blockIdx.x * blockDim.x + threadIdx.x; col < p.x.cols; col += step) {
    float sum = 0;
    for (int i = 0; i < p.parts_count; i++) sum += p.parts[i * p.x.cols + col];
    if (beta != 0.0f) sum = __fmaf_rn(beta, lo_load(p.y, col), sum);
    lo_store(p.y, col, sum);
  }
}

int lo_cu_run_column_sum(const lo_cu_column_sum *p, void *stream) {
  lo_i64 tiles = (p->x.cols + 31) / 32, blocks = (p->x.cols + 255) / 256;
  lo_cu_grid parts = {tiles < 1 << 20 ? tiles : 1 << 20, p->parts_count, 1, 256};
  lo_cu_grid finish = {blocks < 1 << 20 ? blocks : 1 << 20, 1, 1, 256};
  int error = lo_cu_launch((const void *)column_parts_kernel, parts, p, stream);
  return error ? error : lo_cu_launch((const void *)column_finish_kernel, finish, p, stream);
}

int lo_cu_code_architecture(int *architecture) {
  cudaFuncAttributes a;
  cudaError_t error = cudaFuncGetAttributes(&a, (const void *)column_finish_kernel);
  if (error == cudaSuccess) *architecture = a.ptxVersion;
  return error;
}
