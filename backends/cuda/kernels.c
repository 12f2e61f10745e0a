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

static int run_sliced(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  int type = kind == LO_KIND_F16    ? LO_SLICED_F16
             : kind == LO_KIND_BF16 ? LO_SLICED_BF16
             : kind == LO_KIND_TF32 ? LO_SLICED_TF32
             : kind == LO_KIND_F32  ? LO_SLICED_F32
             : p->u8                ? LO_SLICED_U8
                                    : LO_SLICED_S8;
  return lo_cu_run_gemm_sliced(number, type, p, grid, stream);
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
#define X(BM, BN, ...) SLICED_##BM##x##BN,
  LO_CU_SLICED_TILES(X)
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
#define DOT                                                                                        \
  .unit = LO_UNIT_FMA, .kinds = LO_KIND_F32 | HALVES, .orders = LO_ORDER_NT, .from = 75,           \
  .to = LATEST, .few = LO_CU_DOT_LINES, .sliced = true

#define SLICED .orders = LO_ORDER_NT, .sliced = true, .align = 16

/* clang-format off */
const lo_cuda_kernel lo_cuda_kernels[] = {
  {"dot", DOT, .run = run_simt, .number = LO_CU_DOT, .bm = LO_CU_DOT_EACH, .bn = LO_CU_DOT_LINES,
   .bk = 128, TIME(8, 50, 200), .fixed = 1000},
#define SLICED_ROW(NAME, KINDS, UNIT, FROM, TO, BM, BN, WARPS, ELEMENT, RATE, WAIT)               \
  {"sliced_" NAME "_" #BM "x" #BN, SLICED, TILE(run_sliced, SLICED_, BM, BN, 128 / ELEMENT * WARPS), \
   .unit = UNIT, .kinds = KINDS, .from = FROM, .to = TO, TIME(1, RATE, WAIT), .fixed = 1500},
#define X(BM, BN, WARPS, STAGES)                                                                   \
  SLICED_ROW("f32", LO_KIND_F32, LO_UNIT_SPLIT, 80, LATEST, BM, BN, WARPS, 4, 40, 900)              \
  SLICED_ROW("tf32", LO_KIND_TF32, LO_UNIT_TF32_K8, 80, LATEST, BM, BN, WARPS, 4, 30, 700)          \
  SLICED_ROW("k16", HALVES, LO_UNIT_F16_K16, 80, LATEST, BM, BN, WARPS, 2, 30, 700)                 \
  SLICED_ROW("k8", LO_KIND_F16, LO_UNIT_F16_K8, 75, 79, BM, BN, WARPS, 2, 40, 900)                  \
  SLICED_ROW("int8", LO_KIND_INT8, LO_UNIT_INT8_K16, 75, LATEST, BM, BN, WARPS, 1, 30, 700)
  LO_CU_SLICED_TILES(X)
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
