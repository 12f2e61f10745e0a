#include <config.h>

#include <cuda_runtime_api.h>
#include <string.h>

#include "backends/cuda/wgmma.cuh"
#include "bench/peaks_cuda.h"

#define REPEATS       7
#define CHAINS        8 /* independent accumulators a warp */
#define STEPS         8192
#define GROUP_STEPS   2048 /* of wgmma, each through lines of 128 bytes */
#define MOST_WARPS    16
#define COPY_THREADS  512
#define COPY_LOADS    8 /* of 16 bytes, that a thread has under way */
#define MEMORY_BYTES  ((size_t)1 << 30)
#define MEMORY_PASSES 4
#define L2_PASSES     64

/* ---- instructions ----
   Each: what one of them computes (a multiply-add counts two), its fragments in registers, and
   itself. Code for an architecture without it is empty; it is not measured there. */

#if __CUDA_ARCH__ >= 800
#define SINCE_80(...) __VA_ARGS__
#else
#define SINCE_80(...)
#endif

#define MMA_4_2(NAME, C, TYPE)                                                                     \
  asm volatile("mma.sync.aligned." NAME " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"   \
               : "+" TYPE(C[0]), "+" TYPE(C[1]), "+" TYPE(C[2]), "+" TYPE(C[3])                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

struct f32_fma {
  static constexpr double operations = 2 * 4 * 32;
  typedef float sum;
  static constexpr int sums = 4;
  static constexpr unsigned mask = 0x803fffff, ones = 0x3f000000; /* numbers from 0.5 to 1 */
  static __device__ void run(float *c, const unsigned *a, const unsigned *b) {
#pragma unroll
    for (int i = 0; i < 4; i++) c[i] = fmaf(__uint_as_float(a[i]), __uint_as_float(b[i % 2]), c[i]);
  }
};

struct f16_k16 {
  static constexpr double operations = 2 * 16 * 8 * 16;
  typedef float sum;
  static constexpr int sums = 4;
  static constexpr unsigned mask = 0x83ff83ff, ones = 0x38003800;
  static __device__ void run(float *c, const unsigned *a, const unsigned *b) {
    SINCE_80(MMA_4_2("m16n8k16.row.col.f32.f16.f16.f32", c, "f"));
  }
};

struct bf16_k16 {
  static constexpr double operations = 2 * 16 * 8 * 16;
  typedef float sum;
  static constexpr int sums = 4;
  static constexpr unsigned mask = 0x807f807f, ones = 0x3f003f00;
  static __device__ void run(float *c, const unsigned *a, const unsigned *b) {
    SINCE_80(MMA_4_2("m16n8k16.row.col.f32.bf16.bf16.f32", c, "f"));
  }
};

struct tf32_k8 {
  static constexpr double operations = 2 * 16 * 8 * 8;
  typedef float sum;
  static constexpr int sums = 4;
  static constexpr unsigned mask = 0x807fe000, ones = 0x3f000000;
  static __device__ void run(float *c, const unsigned *a, const unsigned *b) {
    SINCE_80(MMA_4_2("m16n8k8.row.col.f32.tf32.tf32.f32", c, "f"));
  }
};

struct i8_k32 {
  static constexpr double operations = 2 * 16 * 8 * 32;
  typedef int sum;
  static constexpr int sums = 4;
  static constexpr unsigned mask = 0xffffffff, ones = 0;
  static __device__ void run(int *c, const unsigned *a, const unsigned *b) {
    SINCE_80(MMA_4_2("m16n8k32.row.col.s32.s8.s8.s32", c, "r"));
  }
};

struct f16_k8 {
  static constexpr double operations = 2 * 16 * 8 * 8;
  typedef float sum;
  static constexpr int sums = 4;
  static constexpr unsigned mask = 0x83ff83ff, ones = 0x38003800;
  static __device__ void run(float *c, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
};

struct i8_k16 {
  static constexpr double operations = 2 * 8 * 8 * 16;
  typedef int sum;
  static constexpr int sums = 2;
  static constexpr unsigned mask = 0xffffffff, ones = 0;
  static __device__ void run(int *c, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1])
                 : "r"(a[0]), "r"(b[0]));
  }
};

struct e4m3_bytes {
  typedef float sum;
  static constexpr unsigned mask = 0x87878787, ones = 0x30303030;
};

/* ---- kernels ---- */

static __device__ unsigned scramble(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

template <class I> static __global__ void compute(int steps, float *sink) {
  const unsigned seed = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned a[4], b[2];
  typename I::sum c[CHAINS][I::sums];
  for (int i = 0; i < 4; i++) a[i] = (scramble(8 * seed + i) & I::mask) | I::ones;
  for (int i = 0; i < 2; i++) b[i] = (scramble(8 * seed + 4 + i) & I::mask) | I::ones;
#pragma unroll
  for (int chain = 0; chain < CHAINS; chain++)
    for (int i = 0; i < I::sums; i++) c[chain][i] = 0;
#pragma unroll 4
  for (int step = 0; step < steps; step++)
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++) I::run(c[chain], a, b);
  float total = 0;
#pragma unroll
  for (int chain = 0; chain < CHAINS; chain++)
    for (int i = 0; i < I::sums; i++) total += (float)c[chain][i];
  if (total == 12345.678f) *sink = total; /* so that nothing is left out */
}

/* So that sums are not read before they are waited for. */
static __device__ __forceinline__ void not_before(float &sum) {
  asm volatile("" : "+f"(sum)::"memory");
}
static __device__ __forceinline__ void not_before(int &sum) {
  asm volatile("" : "+r"(sum)::"memory");
}

/* wgmma: four warps with 64 x 256 sums, operands as I's but in shared memory. */
template <int TYPE, class I>
static __global__ void __launch_bounds__(128) compute_group(int steps, float *sink) {
#if __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ __align__(1024) unsigned operands[(64 + 256) * 32];
  for (int i = threadIdx.x; i < (64 + 256) * 32; i += 128)
    operands[i] = (scramble(blockIdx.x * 65536 + i) & I::mask) | I::ones;
  lo_wgmma_publish();
  __syncthreads();
  unsigned base = (unsigned)__cvta_generic_to_shared(operands);
  lo_u64 a = lo_wgmma_operand(base, LO_PANEL), b = lo_wgmma_operand(base + LO_PANEL, LO_PANEL);
  typename I::sum c[128];
#pragma unroll
  for (int i = 0; i < 128; i++) c[i] = 0;
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    lo_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
      lo_wgmma<TYPE, 256, false, true>::run(c, lo_wgmma_further<true>(a, k),
                                            lo_wgmma_further<true>(b, k), 1);
    lo_wgmma_commit();
    lo_wgmma_wait<1>();
  }
  lo_wgmma_wait<0>();
  float total = 0;
#pragma unroll
  for (int i = 0; i < 128; i++) {
    not_before(c[i]);
    total += (float)c[i];
  }
  if (total == 12345.678f) *sink = total;
#endif
}

/* Both work on whole slabs. */
static __global__ void copy(const uint4 *from, uint4 *to) {
  const size_t first = (size_t)blockIdx.x * (COPY_THREADS * COPY_LOADS) + threadIdx.x;
  uint4 v[COPY_LOADS];
#pragma unroll
  for (int j = 0; j < COPY_LOADS; j++) v[j] = from[first + (size_t)j * COPY_THREADS];
#pragma unroll
  for (int j = 0; j < COPY_LOADS; j++) to[first + (size_t)j * COPY_THREADS] = v[j];
}

static __device__ unsigned read_slab(const uint4 *from) {
  unsigned any = 0;
  uint4 v[COPY_LOADS];
#pragma unroll
  for (int j = 0; j < COPY_LOADS; j++) v[j] = __ldcg(from + threadIdx.x + j * COPY_THREADS);
#pragma unroll
  for (int j = 0; j < COPY_LOADS; j++) any |= v[j].x | v[j].y | v[j].z | v[j].w;
  return any;
}

/* The blocks go over all of it PASSES times. */
static __global__ void read(const uint4 *from, size_t count, int passes, unsigned *sink) {
  const size_t each = COPY_THREADS * COPY_LOADS, stride = gridDim.x * each;
  unsigned any = 0;
  for (int pass = 0; pass < passes; pass++)
    for (size_t at = blockIdx.x * each; at < count; at += stride) any |= read_slab(from + at);
  if (any) *sink = any; /* the memory holds zeros */
}

/* ---- measuring ---- */

struct work {
  int sms, warps; /* warps: an SM's of a kernel that computes; of one that reads, waves of blocks */
  size_t l2, bytes;
  char *memory;
  void *sink;
};

template <class I> static void launch_compute(const work *w) {
  compute<I><<<w->sms, 32 * w->warps>>>(STEPS, (float *)w->sink);
}

template <int TYPE, class I> static void launch_group(const work *w) {
  compute_group<TYPE, I><<<w->sms * w->warps / 4, 128>>>(GROUP_STEPS, (float *)w->sink);
}

static const size_t slab = COPY_LOADS * COPY_THREADS * sizeof(uint4);

static void launch_copy(const work *w) {
  const size_t half = w->bytes / 2;
  for (int i = 0; i < MEMORY_PASSES; i++)
    copy<<<(unsigned)(half / slab), COPY_THREADS>>>((const uint4 *)w->memory,
                                                    (uint4 *)(w->memory + half));
}

static void launch_read_passes(const work *w, int passes) {
  read<<<(unsigned)(w->warps * w->sms), COPY_THREADS>>>(
      (const uint4 *)w->memory, w->bytes / sizeof(uint4), passes, (unsigned *)w->sink);
}

static void launch_read(const work *w) {
  launch_read_passes(w, MEMORY_PASSES);
}

static void launch_read_l2(const work *w) {
  launch_read_passes(w, L2_PASSES);
}

static const struct entry {
  void (*launch)(const work *);
  double operations; /* of a warp */
  size_t (*bytes)(const work *);
  double passes;
} entries[] = {
#define COMPUTE(I)                                                                                 \
  { launch_compute<I>, I::operations *CHAINS *STEPS, NULL, 0 }
#define GROUP(TYPE, I, BYTES)                                                                      \
  { launch_group<LO_WGMMA_##TYPE, I>, 2.0 * 64 * 256 * 128 / BYTES / 4 * GROUP_STEPS, NULL, 0 }
    COMPUTE(f32_fma),
    GROUP(F16, f16_k16, 2),
    COMPUTE(f16_k16),
    COMPUTE(f16_k8),
    GROUP(BF16, bf16_k16, 2),
    COMPUTE(bf16_k16),
    GROUP(TF32, tf32_k8, 4),
    COMPUTE(tf32_k8),
    GROUP(S8, i8_k32, 1),
    COMPUTE(i8_k32),
    COMPUTE(i8_k16),
    GROUP(E4M3_E4M3, e4m3_bytes, 1),
    {launch_read_l2, 0, [](const work *w) { return w->l2 / 2; }, L2_PASSES},
    {launch_copy, 0, [](const work *) { return MEMORY_BYTES; }, MEMORY_PASSES},
    {launch_read, 0, [](const work *) { return MEMORY_BYTES; }, MEMORY_PASSES},
};

enum { LATER = 1 << 20 };
extern "C" const struct cuda_peak cuda_peaks[] = {
    {"f32", "FFMA", "FLOP/s", 75, LATER},
    {"f16", "wgmma.m64n256k16", "FLOP/s", 90, 90},
    {"f16", "mma.m16n8k16", "FLOP/s", 80, LATER},
    {"f16", "mma.m16n8k8", "FLOP/s", 75, LATER},
    {"bf16", "wgmma.m64n256k16", "FLOP/s", 90, 90},
    {"bf16", "mma.m16n8k16", "FLOP/s", 80, LATER},
    {"tf32", "wgmma.m64n256k8", "FLOP/s", 90, 90},
    {"tf32", "mma.m16n8k8", "FLOP/s", 80, LATER},
    {"int8", "wgmma.m64n256k32", "OP/s", 90, 90},
    {"int8", "mma.m16n8k32", "OP/s", 80, LATER},
    {"int8", "mma.m8n8k16", "OP/s", 75, LATER},
    {"f8e4m3", "wgmma.m64n256k32", "FLOP/s", 90, 90},
    {"L2", "read", "B/s", 0, LATER},
    {"memory", "copy", "B/s", 0, LATER},
    {"memory", "read", "B/s", 0, LATER},
    {NULL, NULL, NULL, 0, 0},
};

/* The least seconds of several repetitions; 0: the device failed. */
static double least_time(const entry *e, const work *w) {
  cudaEvent_t start = NULL, stop = NULL;
  float least = 0, took = 0;
  bool good = !cudaEventCreate(&start) && !cudaEventCreate(&stop);
  for (int i = 0; good && i <= REPEATS; i++) { /* the first warms up */
    good = !cudaEventRecord(start);
    e->launch(w);
    good = good && !cudaGetLastError() && !cudaEventRecord(stop) && !cudaEventSynchronize(stop) &&
           !cudaEventElapsedTime(&took, start, stop);
    if (i && (i == 1 || took < least)) least = took;
  }
  if (start) cudaEventDestroy(start);
  if (stop) cudaEventDestroy(stop);
  return good ? 1e-3 * least : 0;
}

static double best_rate(const entry *e, work *w) {
  double best = 0;
  for (w->warps = 4; w->warps <= MOST_WARPS; w->warps *= 2) {
    double seconds = least_time(e, w);
    if (!(seconds > 0)) return 0;
    double amount = e->bytes ? (double)w->bytes * e->passes : e->operations * w->warps * w->sms;
    if (amount / seconds > best) best = amount / seconds;
  }
  return best;
}

extern "C" int cuda_peak_architecture(int device, uint64_t *l2) {
  struct cudaDeviceProp properties;
  struct cudaFuncAttributes code;
  if (cudaSetDevice(device) || cudaGetDeviceProperties(&properties, device) ||
      cudaFuncGetAttributes(&code, (const void *)copy)) {
    cudaGetLastError();
    return 0;
  }
  int architecture = 10 * properties.major + properties.minor;
  *l2 = (uint64_t)properties.l2CacheSize;
  return code.ptxVersion < architecture ? code.ptxVersion : architecture;
}

extern "C" bool cuda_peak_measure(int device, int index, double *value, uint64_t *bytes) {
  const entry *e = &entries[index];
  work w = {};
  struct cudaDeviceProp properties;
  *value = 0;
  if (cudaSetDevice(device) || cudaGetDeviceProperties(&properties, device) ||
      cudaMalloc(&w.sink, sizeof(uint4)))
    return false;
  w.sms = properties.multiProcessorCount;
  w.l2 = (size_t)properties.l2CacheSize;
  w.bytes = e->bytes ? e->bytes(&w) / (2 * slab) * (2 * slab) : 0;
  if (!w.bytes || (!cudaMalloc((void **)&w.memory, w.bytes) && !cudaMemset(w.memory, 0, w.bytes)))
    *value = best_rate(e, &w);
  *bytes = w.bytes;
  cudaFree(w.memory);
  cudaFree(w.sink);
  cudaGetLastError();
  return *value > 0;
}
