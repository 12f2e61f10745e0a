/* The kernels for products: most are rows of lists of tiles (params.h). */
#include <config.h>

#include "backends/cuda/plan.h"

#define HALVES (LO_KIND_F16 | LO_KIND_BF16)
#define LATEST (1 << 20) /* architectures yet to come too */

static int run_simt(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return kind == LO_KIND_F32 ? lo_cu_run_gemm_f32(number, p, grid, stream)
                             : lo_cu_run_gemm_16(number, p, grid, stream);
}

static int run_mma_k8(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_gemm_mma(number, 0, p, grid, stream);
}

static int run_mma_k16(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return lo_cu_run_gemm_mma(number, kind == LO_KIND_F16 ? 1 : 2, p, grid, stream);
}

static int run_async(int number, int kind, int words, const lo_cu_gemm *p, lo_cu_grid grid,
                     void *stream) {
  switch (kind) {
  case LO_KIND_F16:
    return lo_cu_run_async_f16(number, words, p, grid, stream);
  case LO_KIND_BF16:
    return lo_cu_run_async_bf16(number, words, p, grid, stream);
  case LO_KIND_TF32:
    return lo_cu_run_async_tf32(number, words, p, grid, stream);
  default:
    return lo_cu_run_async_int8(number, words, p, grid, stream);
  }
}

static int run_chunks(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return run_async(number, kind, 0, p, grid, stream);
}

static int run_words(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return run_async(number, kind, 1, p, grid, stream);
}

/* Numbers of the rows of a list. */
enum {
#define X(BM, BN, ...) SIMT_##BM##x##BN,
  LO_CU_TILES(X)
#undef X
};
enum {
#define X(BM, BN, ...) MMA_##BM##x##BN,
  LO_CU_MMA_TILES(X)
#undef X
};

enum {
#define X(BM, BN, ...) ASYNC_##BM##x##BN,
  LO_CU_ASYNC_TILES(X)
#undef X
};

/* What a family's rows have alike. */
#define TILE(RUN, PREFIX, BM, BN, BK)                                                              \
  .run = RUN, .number = PREFIX##BM##x##BN, .bm = BM, .bn = BN, .bk = BK
#define TIME(BLOCKS, RATE, WAIT) .blocks = BLOCKS, .rate = RATE, .wait = WAIT
#define MMA_K16                                                                                    \
  .unit = LO_UNIT_F16_K16, .kinds = HALVES, .orders = LO_ORDER_ALL, .from = 80, .to = LATEST
#define MMA_K8                                                                                     \
  .unit = LO_UNIT_F16_K8, .kinds = LO_KIND_F16, .orders = LO_ORDER_ALL, .from = 75, .to = 79
#define SIMT                                                                                       \
  .unit = LO_UNIT_FMA, .kinds = LO_KIND_F32 | HALVES, .orders = LO_ORDER_ALL, .from = 75,          \
  .to = LATEST
#define ASYNC(NAME, RUN, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES, ...)                        \
  {NAME "_" #BM "x" #BN, .unit = LO_UNIT_##UNIT, .kinds = KINDS, .orders = LO_ORDER_##ORDERS,      \
   .from = 80, .to = LATEST, .shared = LO_CU_ASYNC_BYTES(BM, BN, STAGES),                          \
   .fixed = 4000, TILE(RUN, ASYNC_, BM, BN, LO_CU_ASYNC_STEP / ELEMENT), __VA_ARGS__},
/* For rows on borders of 16 bytes; of words; and copied to such borders. */
#define ASYNC_CHUNKS(SUFFIX, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES, BLOCKS, RATE, WAIT)     \
  ASYNC("async" SUFFIX, run_chunks, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES, .align = 16,     \
        TIME(BLOCKS, RATE, WAIT))
#define ASYNC_WORDS(SUFFIX, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES, BLOCKS, RATE, WAIT)      \
  ASYNC("async_words" SUFFIX, run_words, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES, .align = 4, \
        TIME(BLOCKS, (RATE) / 2, 2 * (WAIT)))
#define ASYNC_COPIES(SUFFIX, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES, BLOCKS, RATE, WAIT)     \
  ASYNC("async_copies" SUFFIX, run_chunks, UNIT, KINDS, ORDERS, ELEMENT, BM, BN, STAGES,           \
        .align = 16, .copies = true, TIME(BLOCKS, RATE, WAIT))
#define DOT                                                                                        \
  .unit = LO_UNIT_FMA, .kinds = LO_KIND_F32 | HALVES, .orders = LO_ORDER_NT, .from = 75,           \
  .to = LATEST, .few = LO_CU_DOT_LINES, .sliced = true

/* clang-format off */
const lo_cuda_kernel lo_cuda_kernels[] = {
  {"dot", DOT, .run = run_simt, .number = LO_CU_DOT, .bm = LO_CU_DOT_EACH, .bn = LO_CU_DOT_LINES,
   .bk = 128, TIME(8, 50, 200), .fixed = 1000},
#define ASYNC_ALL(...) ASYNC_CHUNKS(__VA_ARGS__) ASYNC_WORDS(__VA_ARGS__) ASYNC_COPIES(__VA_ARGS__)
#define X(BM, BN, WM, WN, STAGES, RING, BLOCKS, RATE_16, RATE_TF32, RATE_8, WAIT)                  \
  ASYNC_ALL("", F16_K16, HALVES, ALL, 2, BM, BN, STAGES, BLOCKS, RATE_16, WAIT)                    \
  ASYNC_CHUNKS("_tf32", TF32_K8, LO_KIND_TF32, ALL, 4, BM, BN, STAGES, BLOCKS, RATE_TF32, WAIT)    \
  ASYNC_WORDS("_tf32", TF32_K8, LO_KIND_TF32, ALL, 4, BM, BN, STAGES, BLOCKS, RATE_TF32, WAIT)     \
  ASYNC_ALL("_int8", INT8_K32, LO_KIND_INT8, NT, 1, BM, BN, STAGES, BLOCKS, RATE_8, WAIT)
  LO_CU_ASYNC_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, K8, K16, WAIT)                                                   \
  {"mma_k16_" #BM "x" #BN, MMA_K16, TILE(run_mma_k16, MMA_, BM, BN, 32), TIME(BLOCKS, K16, WAIT)},
  LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, K8, K16, WAIT)                                                   \
  {"mma_k8_" #BM "x" #BN, MMA_K8, TILE(run_mma_k8, MMA_, BM, BN, 32), TIME(BLOCKS, K8, WAIT)},
  LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, BK, TM, TN, LX, BLOCKS, RATE, WAIT)                                              \
  {"simt_" #BM "x" #BN, SIMT, TILE(run_simt, SIMT_, BM, BN, BK), TIME(BLOCKS, RATE, WAIT)},
  LO_CU_TILES(X)
#undef X
};
/* clang-format on */

const int lo_cuda_kernel_count = sizeof lo_cuda_kernels / sizeof *lo_cuda_kernels;
