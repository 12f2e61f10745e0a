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

/* Eight vectors in flight. The asm takes each as if it were used and keeps stores in the loop. */
#define STREAM_LOOP(VECTOR, CONSTRAINT, VALUE, STORE)                                              \
  VECTOR *va = a;                                                                                  \
  const VECTOR *vb = b, *vc = c;                                                                   \
  (void)vb, (void)vc;                                                                              \
  for (int64_t n = 0; n < count; n++)                                                              \
    for (size_t i = 0; i < bytes / sizeof(VECTOR); i += 8) {                                       \
      _Pragma("GCC unroll 8") for (size_t j = i; j < i + 8; j++) {                                 \
        VECTOR x = VALUE;                                                                          \
        __asm__ volatile("" : CONSTRAINT(x));                                                      \
        STORE;                                                                                     \
      }                                                                                            \
    }

/* The three streams of one vector length, and their table. */
#define STREAMS(NAME, TARGET, VECTOR, CONSTRAINT)                                                  \
  TARGET static void read_##NAME(void *a, const void *b, const void *c, size_t bytes,              \
                                 int64_t count){STREAM_LOOP(                                       \
      VECTOR, CONSTRAINT, va[j],                                                                   \
      (void)0)} TARGET static void copy_##NAME(void *a, const void *b, const void *c,              \
                                               size_t bytes, int64_t count){STREAM_LOOP(           \
      VECTOR, CONSTRAINT, vb[j],                                                                   \
      va[j] = x)} TARGET static void triad_##NAME(void *a, const void *b, const void *c,           \
                                                  size_t bytes, int64_t count) {                   \
    STREAM_LOOP(VECTOR, CONSTRAINT, vb[j] + 0.5f * vc[j], va[j] = x)                               \
  }                                                                                                \
  static const struct ceiling_stream streams_##NAME[] = {{"read", 1, read_##NAME},                 \
                                                         {"copy", 2, copy_##NAME},                 \
                                                         {"triad", 3, triad_##NAME},               \
                                                         {NULL, 0, NULL}}

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

static void fma_plain(int64_t count){FMA_LOOP(vector4, "+x")}

STREAMS(avx512, __attribute__((target("avx512f"))), vector16, "+v");
STREAMS(avx2, __attribute__((target("avx2,fma"))), vector8, "+x");
STREAMS(plain, , vector4, "+x");

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

static bool has_avx512vnni(void) {
  return __builtin_cpu_supports("avx512vnni");
}

__attribute__((target("avx512f,avx512vnni"))) static void dot_int8(int64_t count) {
  __m512i acc[CHAINS], a = _mm512_setzero_si512();
  _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_setzero_si512();
  for (int64_t n = 0; n < count; n++) {
    _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) {
      acc[i] = _mm512_dpbusd_epi32(acc[i], a, a);
      __asm__ volatile("" : "+v"(acc[i]));
    }
  }
}

/* Linux hands out the tile registers to a process that asks (ARCH_REQ_XCOMP_PERM). */
static bool has_amx(int bit) {
  unsigned a, b, c, d;
  __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
  return (d >> bit & 1) && (d >> 24 & 1) && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

static bool has_amx_bf16(void) {
  return has_amx(22);
}

static bool has_amx_int8(void) {
  return has_amx(25);
}

/* Eight tiles of 16 rows of 64 bytes, all zero; STEP uses them: four sums, two operands on each
   side. */
#define TILE_LOOP(STEP)                                                                            \
  unsigned char config[64] __attribute__((aligned(64))) = {1};                                     \
  for (int tile = 0; tile < 8; tile++) {                                                           \
    config[16 + 2 * tile] = 64; /* bytes a row */                                                  \
    config[48 + tile] = 16;     /* rows */                                                         \
  }                                                                                                \
  /* gcc's _tile_loadconfig tells the compiler of the first 8 bytes only. */                       \
  __asm__ volatile("" : : "r"(config) : "memory");                                                 \
  _tile_loadconfig(config);                                                                        \
  _tile_zero(0);                                                                                   \
  _tile_zero(1);                                                                                   \
  _tile_zero(2);                                                                                   \
  _tile_zero(3);                                                                                   \
  _tile_zero(4);                                                                                   \
  _tile_zero(5);                                                                                   \
  _tile_zero(6);                                                                                   \
  _tile_zero(7);                                                                                   \
  for (int64_t n = 0; n < count; n++) {                                                            \
    STEP(0, 4, 6);                                                                                 \
    STEP(1, 4, 7);                                                                                 \
    STEP(2, 5, 6);                                                                                 \
    STEP(3, 5, 7);                                                                                 \
  }                                                                                                \
  _tile_release();

__attribute__((target("amx-tile,amx-bf16"))) static void tile_bf16(int64_t count) {
  TILE_LOOP(_tile_dpbf16ps)
}

__attribute__((target("amx-tile,amx-int8"))) static void tile_int8(int64_t count) {
  TILE_LOOP(_tile_dpbusd)
}

const struct ceiling_fma ceiling_fmas[] = {
    {"f32", "AVX-512 FMA", has_avx512, fma_avx512, 16 * CHAINS, 16},
    {"f32", "AVX2 FMA", has_avx2, fma_avx2, 8 * CHAINS, 8},
    {"f32", "SSE2", always, fma_plain, 4 * CHAINS, 4},
    {"bf16", "AMX-BF16", has_amx_bf16, tile_bf16, 4 * 16 * 16 * 32, 512},
    {"bf16", "AVX512-BF16", has_avx512bf16, dot_bf16, 32 * CHAINS, 32},
    {"int8", "AMX-INT8", has_amx_int8, tile_int8, 4 * 16 * 16 * 64, 1024},
    {"int8", "AVX512-VNNI", has_avx512vnni, dot_int8, 64 * CHAINS, 64},
    {NULL, NULL, NULL, NULL, 0, 0},
};

const struct ceiling_stream *ceiling_streams(void) {
  return has_avx512() ? streams_avx512 : has_avx2() ? streams_avx2 : streams_plain;
}

#else

static void fma_plain(int64_t count) {
  FMA_LOOP(vector4, "+w")
}

const struct ceiling_fma ceiling_fmas[] = {
    {"f32", "128-bit FMA", always, fma_plain, 4 * CHAINS, 4},
    {NULL, NULL, NULL, NULL, 0, 0},
};

STREAMS(plain, , vector4, "+w");

const struct ceiling_stream *ceiling_streams(void) {
  return streams_plain;
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
