#include <config.h>

#include "bench/ceilings_kernels.h"

#include <string.h>

/* 16 independent chains cover a latency of 4 or 5 clocks on two units. */
#define CHAINS 16

/* The empty asm keeps every accumulator in a register and every addition in the program. */
#define FMA_LOOP(VECTOR, CONSTRAINT)                                                               \
  VECTOR acc[CHAINS], a = (VECTOR){0} + 0.999f, b = (VECTOR){0} + 1e-3f;                           \
  _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) acc[i] = b * (float)i;                 \
  for (int64_t n = 0; n < count; n++) {                                                            \
    _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) {                                    \
      acc[i] = acc[i] * a + b;                                                                     \
      __asm__ volatile("" : CONSTRAINT(acc[i]));                                                   \
    }                                                                                              \
  }

/* Eight loads in flight; the sums only keep the loads alive. */
#define READ_LOOP(VECTOR, CONSTRAINT)                                                              \
  const VECTOR *v = data;                                                                          \
  size_t vectors = bytes / sizeof(VECTOR);                                                         \
  for (int64_t n = 0; n < count; n++)                                                              \
    for (size_t i = 0; i < vectors; i += 8) {                                                      \
      _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {                                        \
        VECTOR x = v[i + (size_t)j];                                                               \
        __asm__ volatile("" : CONSTRAINT(x));                                                      \
      }                                                                                            \
    }

typedef float vector4 __attribute__((vector_size(16)));
typedef float vector8 __attribute__((vector_size(32)));
typedef float vector16 __attribute__((vector_size(64)));

static bool always(void) {
  return true;
}

#if defined __x86_64__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((target("avx512f"))) static void fma_avx512(int64_t count) {
  FMA_LOOP(vector16, "+v")
}

__attribute__((target("avx2,fma"))) static void fma_avx2(int64_t count) {
  FMA_LOOP(vector8, "+x")
}

static void fma_plain(int64_t count) {
  FMA_LOOP(vector4, "+x")
}

__attribute__((target("avx512f"))) static void read_avx512(const void *data, size_t bytes,
                                                           int64_t count) {
  READ_LOOP(vector16, "+v")
}

__attribute__((target("avx2"))) static void read_avx2(const void *data, size_t bytes,
                                                      int64_t count) {
  READ_LOOP(vector8, "+x")
}

static void read_plain(const void *data, size_t bytes, int64_t count) {
  READ_LOOP(vector4, "+x")
}

static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f");
}

static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512bf16(void) {
  return __builtin_cpu_supports("avx512bf16");
}

__attribute__((target("avx512f,avx512bf16"))) static void dot_bf16(int64_t count) {
  __m512 acc[CHAINS];
  __m512bh a = {0};
  _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_setzero_ps();
  for (int64_t n = 0; n < count; n++) {
    _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) {
      acc[i] = _mm512_dpbf16_ps(acc[i], a, a);
      __asm__ volatile("" : "+v"(acc[i]));
    }
  }
}

/* Linux hands out the tile registers to a process that asks (ARCH_REQ_XCOMP_PERM). */
static bool has_amx_bf16(void) {
  unsigned a, b, c, d;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  return (d >> 22 & 1) && (d >> 24 & 1) && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

__attribute__((target("amx-tile,amx-bf16"))) static void tile_bf16(int64_t count) {
  unsigned char config[64] __attribute__((aligned(64))) = {1};
  for (int tile = 0; tile < 8; tile++) {
    config[16 + 2 * tile] = 64; /* bytes a row */
    config[48 + tile] = 16;     /* rows */
  }
  /* gcc's _tile_loadconfig tells the compiler of the first 8 bytes only. */
  __asm__ volatile("" : : "r"(config) : "memory");
  _tile_loadconfig(config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t n = 0; n < count; n++) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

const struct ceiling_fma ceiling_fmas[] = {
    {"f32", "AVX-512 FMA", has_avx512, fma_avx512, 16 * CHAINS, 16},
    {"f32", "AVX2 FMA", has_avx2, fma_avx2, 8 * CHAINS, 8},
    {"f32", "SSE2", always, fma_plain, 4 * CHAINS, 4},
    {"bf16", "AMX-BF16", has_amx_bf16, tile_bf16, 4 * 16 * 16 * 32, 512},
    {"bf16", "AVX512-BF16", has_avx512bf16, dot_bf16, 32 * CHAINS, 32},
    {NULL, NULL, NULL, NULL, 0, 0},
};

void ceiling_read(const void *data, size_t bytes, int64_t count) {
  (has_avx512() ? read_avx512 : has_avx2() ? read_avx2 : read_plain)(data, bytes, count);
}

#else

static void fma_plain(int64_t count) {
  FMA_LOOP(vector4, "+w")
}

const struct ceiling_fma ceiling_fmas[] = {
    {"f32", "128-bit FMA", always, fma_plain, 4 * CHAINS, 4},
    {NULL, NULL, NULL, NULL, 0, 0},
};

void ceiling_read(const void *data, size_t bytes, int64_t count) {
  READ_LOOP(vector4, "+w")
}

#endif

#if defined __x86_64__
#define ADD "add %1, %0\n\t"
#elif defined __aarch64__
#define ADD "add %0, %0, %1\n\t"
#endif

#ifdef ADD
/* Registers on both sides: additions of a constant can vanish in the renaming stage. */
static void chain(int64_t count) {
  uint64_t x = 1, y = (uint64_t)count;
  for (int64_t i = 0; i < count; i += 16)
    __asm__ volatile(ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD
                     : "+r"(x)
                     : "r"(y));
}
void (*const ceiling_chain)(int64_t count) = chain;
#else
void (*const ceiling_chain)(int64_t count) = NULL;
#endif
