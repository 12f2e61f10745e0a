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

static int run_triple(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_gemm_triple(number, p, grid, stream);
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
#define X(BM, BN, ...) TRIPLE_##BM##x##BN,
  LO_CU_TRIPLE_TILES(X)
#undef X
      TRIPLE_WGMMA_128x128 = -1
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
#define TRIPLE                                                                                     \
  .unit = LO_UNIT_TRIPLE, .kinds = LO_KIND_F32, .orders = LO_ORDER_ALL, .from = 80, .to = LATEST
#define TRIPLE_WGMMA                                                                               \
  .unit = LO_UNIT_TRIPLE, .kinds = LO_KIND_F32, .orders = LO_ORDER_ALL, .from = 90, .to = 90
/* two stages of f32 and two sets of three bf16 parts, 32 of k each */
#define TRIPLE_BYTES(BM, BN) (2 * 32 * (4 + 6) * (BM + BN))
#define DOT                                                                                        \
  .unit = LO_UNIT_FMA, .kinds = LO_KIND_F32 | HALVES, .orders = LO_ORDER_NT, .from = 75,           \
  .to = LATEST, .few = LO_CU_DOT_LINES, .sliced = true

/* clang-format off */
const lo_cuda_kernel lo_cuda_kernels[] = {
  {"dot", DOT, .run = run_simt, .number = LO_CU_DOT, .bm = LO_CU_DOT_EACH, .bn = LO_CU_DOT_LINES,
   .bk = 128, TIME(8, 50, 200), .fixed = 1000},
#define X(BM, BN, WM, WN, BLOCKS, K8, K16, WAIT)                                                   \
  {"mma_k16_" #BM "x" #BN, MMA_K16, TILE(run_mma_k16, MMA_, BM, BN, 32), TIME(BLOCKS, K16, WAIT)},
  LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, K8, K16, WAIT)                                                   \
  {"mma_k8_" #BM "x" #BN, MMA_K8, TILE(run_mma_k8, MMA_, BM, BN, 32), TIME(BLOCKS, K8, WAIT)},
  LO_CU_MMA_TILES(X)
#undef X
  {"triple_wgmma_128x128", TRIPLE_WGMMA, TILE(run_triple, TRIPLE_WGMMA_, 128, 128, 32),
   .sliced = true, .shared = 3 * 32768 + 2 * 49152, TIME(1, 74, 3000), .fixed = 4000},
#define X(BM, BN, WM, WN, BLOCKS, RATE, WAIT)                                                      \
  {"triple_" #BM "x" #BN, TRIPLE, TILE(run_triple, TRIPLE_, BM, BN, 32),                           \
   .shared = TRIPLE_BYTES(BM, BN), TIME(BLOCKS, RATE, WAIT), .fixed = 6000},
  LO_CU_TRIPLE_TILES(X)
#undef X
#define X(BM, BN, BK, TM, TN, LX, BLOCKS, RATE, WAIT)                                              \
  {"simt_" #BM "x" #BN, SIMT, TILE(run_simt, SIMT_, BM, BN, BK), TIME(BLOCKS, RATE, WAIT)},
  LO_CU_TILES(X)
#undef X
};
/* clang-format on */

const int lo_cuda_kernel_count = sizeof lo_cuda_kernels / sizeof *lo_cuda_kernels;
