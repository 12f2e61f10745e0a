/* The kernels for products: most are rows of lists of tiles (params.h). */
#include <config.h>

#include "backends/cuda/boxes.h"
#include "backends/cuda/plan.h"

#define HALVES (LO_KIND_F16 | LO_KIND_BF16)
#define LATEST (1 << 20) /* architectures yet to come too */

static int run_simt(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return kind == LO_KIND_F32 ? lo_cu_run_gemm_f32(number, p, grid, stream)
                             : lo_cu_run_gemm_16(number, p, grid, stream);
}

static int run_mma_k8(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_gemm_mma_k8(number, p, grid, stream);
}

static int run_mma_k16(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_gemm_mma_k16(number, p, grid, stream);
}

static int run_mma_int8(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_gemm_mma_int8(number, p, grid, stream);
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

enum {
#define X(NAME, ...) WGMMA_##NAME,
  LO_CU_WGMMA_TILES(X)
#undef X
#define X(NAME, ...) WGMMA_F8_##NAME,
      LO_CU_WGMMA_F8_TILES(X)
#undef X
          WGMMA_F8_BEGIN = WGMMA_F8_128x256
};
/* The tiles' shapes, and the blocks of an SM. */
static const struct {
  int bm, bn, cluster, blocks;
  bool wide;
} wgmma_tiles[] = {
#define X(NAME, GROUPS, TALL, BN, STAGES, CLUSTER, BLOCKS, ...)                                    \
  {64 * (GROUPS) * (TALL), BN, CLUSTER, BLOCKS, LO_CU_WGMMA_WIDE(TALL, BN)},
    LO_CU_WGMMA_TILES(X) LO_CU_WGMMA_F8_TILES(X)
#undef X
};

/* Blocks go through tiles by themselves, but for parts of k. */
static int run_wgmma(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  int bm = wgmma_tiles[number].bm, cluster = wgmma_tiles[number].cluster, error;
  lo_i64 most = p->sms / cluster * wgmma_tiles[number].blocks;
  lo_box_type type = kind == LO_KIND_F16    ? LO_BOX_F16
                     : kind == LO_KIND_BF16 ? LO_BOX_BF16
                     : kind == LO_KIND_TF32 ? LO_BOX_TF32
                                            : LO_BOX_8;
  lo_cu_boxed_gemm boxed = {.g = *p};
  if (p->k) {
    error = lo_cuda_box(&p->a, type, p->k, p->batch, bm, &boxed.a);
    if (!error)
      error = lo_cuda_box(&p->b, type, p->k, p->batch, wgmma_tiles[number].bn / cluster, &boxed.b);
    if (error) return error;
  }
  if (wgmma_tiles[number].wide && lo_cuda_takes_boxes(p)) {
    if ((error = lo_cuda_box_c(p, &boxed.c))) return error;
    boxed.boxes_c = 1;
  }
  grid.x = (p->split == 1 && grid.x > most ? most : grid.x) * cluster;
  switch (kind) {
  case LO_KIND_F16:
    return lo_cu_run_wgmma_f16(number, &boxed, grid, stream);
  case LO_KIND_BF16:
    return lo_cu_run_wgmma_bf16(number, &boxed, grid, stream);
  case LO_KIND_TF32:
    return lo_cu_run_wgmma_tf32(number, &boxed, grid, stream);
  case LO_KIND_F8:
    return lo_cu_run_wgmma_f8(number - WGMMA_F8_BEGIN, &boxed, grid, stream);
  case LO_KIND_F8_FAST:
    return lo_cu_run_wgmma_f8_fast(number - WGMMA_F8_BEGIN, &boxed, grid, stream);
  default:
    return lo_cu_run_wgmma_int8(number, &boxed, grid, stream);
  }
}

static int run_triple(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_gemm_triple(number, p, grid, stream);
}

static int run_sliced_any(int number, int kind, int loose, const lo_cu_gemm *p, lo_cu_grid grid,
                          void *stream) {
  int type = kind == LO_KIND_F16    ? LO_SLICED_F16
             : kind == LO_KIND_BF16 ? LO_SLICED_BF16
             : kind == LO_KIND_TF32 ? LO_SLICED_TF32
             : kind == LO_KIND_F32  ? LO_SLICED_F32
             : p->a_unsigned        ? LO_SLICED_U8
                                    : LO_SLICED_S8;
  return lo_cu_run_gemm_sliced(number, type, loose, p, grid, stream);
}

static int run_sliced(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  return run_sliced_any(number, kind, 0, p, grid, stream);
}

static int run_sliced_loose(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                            void *stream) {
  return run_sliced_any(number, kind, 1, p, grid, stream);
}

/* Units as lo_cu_run_direct_mma() has them. */
static int run_direct_k8(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream) {
  (void)kind;
  return lo_cu_run_direct_mma(number, LO_DIRECT_K8_F16, p, grid, stream);
}
static int run_direct_k16(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                          void *stream) {
  return lo_cu_run_direct_mma(number, kind == LO_KIND_F16 ? LO_DIRECT_F16 : LO_DIRECT_BF16, p, grid,
                              stream);
}
static int run_direct_s8_k16(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                             void *stream) {
  (void)kind;
  return lo_cu_run_direct_mma(number, LO_DIRECT_K16_S8, p, grid, stream);
}
static int run_direct_s8_k32(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                             void *stream) {
  (void)kind;
  return lo_cu_run_direct_mma(number, LO_DIRECT_S8, p, grid, stream);
}
static int run_direct_w8_k8(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                            void *stream) {
  (void)kind;
  return lo_cu_run_direct_w8(number, LO_DIRECT_K8_F16, p, grid, stream);
}
static int run_direct_w8_k16(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                             void *stream) {
  return lo_cu_run_direct_w8(number, kind == LO_KIND_F16_W8 ? LO_DIRECT_F16 : LO_DIRECT_BF16, p,
                             grid, stream);
}
static int run_direct_fma(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid,
                          void *stream) {
  return lo_cu_run_direct_fma(number, kind != LO_KIND_F32, p, grid, stream);
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
#define X(BM, BN, ...) MMA_ANY_##BM##x##BN,
      LO_CU_MMA_ANY_INT8_TILES(X)
#undef X
};
enum {
#define X(BM, BN, ...) MMA_K16_##BM##x##BN,
  LO_CU_MMA_K16_TILES(X)
#undef X
};

enum {
#define X(BM, BN, ...) ASYNC_##BM##x##BN,
  LO_CU_ASYNC_TILES(X)
#undef X
};
enum {
#define X(BM, BN, ...) ASYNC_WORDS_##BM##x##BN,
  LO_CU_ASYNC_WORD_TILES(X)
#undef X
};

enum {
#define X(BM, BN, ...) TRIPLE_##BM##x##BN,
  LO_CU_TRIPLE_TILES(X)
#undef X
#define X(BM, BN, ...) TRIPLE_WGMMA_##BM##x##BN,
      LO_CU_TRIPLE_WGMMA_TILES(X)
#undef X
};

enum {
#define X(NAME, ...) SLICED_##NAME,
  LO_CU_SLICED_TILES(X)
#undef X
};

enum {
#define X(NAME, ...) DIRECT_MMA_##NAME,
  LO_CU_DIRECT_MMA(X) LO_CU_DIRECT_LOOSE(X)
#undef X
};
enum {
#define X(NAME, ...) DIRECT_W8_##NAME,
  LO_CU_DIRECT_W8(X) LO_CU_DIRECT_W8_LARGE(X)
#undef X
};
enum {
#define X(NAME, ...) DIRECT_FMA_##NAME,
  LO_CU_DIRECT_FMA(X) LO_CU_FEW_FMA(X)
#undef X
};
enum {
#define X(NAME, ...) DIRECT_HALF_##NAME,
  LO_CU_FEW_FMA(X)
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
#define MMA_INT8 .unit = LO_UNIT_INT8_K16, .kinds = LO_KIND_INT8, .from = 75
/* What a block takes of an SM. */
#define TAKES(BM, BN, WM, WN)                                                                      \
  .threads = BM / WM * (BN / WN) * 32, .shared = LO_CU_MMA_SHARED(BM, BN)
/* The largest tile is for aligned rows: element by element the smaller ones are faster. */
#define SIMT_ALIGN(BM, BN) .align = (BM) * (BN) > 64 * 128 ? 16 : 0
#define SIMT                                                                                       \
  .unit = LO_UNIT_FMA, .kinds = LO_KIND_F32 | HALVES, .orders = LO_ORDER_ALL, .from = 75,          \
  .to = LATEST
#define ASYNC(NAME, RUN, PREFIX, ELEMENT, BM, BN, STAGES, ...)                                     \
  {NAME "_" #BM "x" #BN,                                                                           \
   .from = 80,                                                                                     \
   .to = LATEST,                                                                                   \
   .fixed = 4000,                                                                                  \
   .shared = LO_CU_ASYNC_BYTES(BM, BN, STAGES),                                                    \
   TILE(RUN, PREFIX, BM, BN, LO_CU_ASYNC_STEP / ELEMENT),                                          \
   __VA_ARGS__},
#define ASYNC_16   .unit = LO_UNIT_F16_K16, .kinds = HALVES, .orders = LO_ORDER_ALL
#define ASYNC_TF32 .unit = LO_UNIT_TF32_K8, .kinds = LO_KIND_TF32, .orders = LO_ORDER_ALL
#define ASYNC_8    .unit = LO_UNIT_INT8_K32, .kinds = LO_KIND_INT8, .orders = LO_ORDER_NT
/* Rows are on borders of 16 bytes, or of words. */
#define CHUNKS .align = LO_CUDA_CHUNK
#define WORDS  .align = 4
/* The blocks of a cluster have a tile of all their rows. */
#define WGMMA(NAME, PREFIX, ELEMENT, GROUPS, TALL, BN, STAGES, CLUSTER, BLOCKS, RATE, WAIT, FIXED, \
              ...)                                                                                 \
  {NAME,                                                                                           \
   .run = run_wgmma,                                                                               \
   .number = PREFIX,                                                                               \
   .bm = 64 * (GROUPS) * (TALL) * (CLUSTER),                                                       \
   .bn = BN,                                                                                       \
   .bk = LO_CU_WGMMA_STEP / (ELEMENT),                                                             \
   .cluster = CLUSTER,                                                                             \
   .meets = (CLUSTER) == 1,                                                                        \
   .boxes = true,                                                                                  \
   .from = 90,                                                                                     \
   .to = 90,                                                                                       \
   .fixed = FIXED,                                                                                 \
   .shared = (64 * (GROUPS) * (TALL) + (BN)) * 128 * (STAGES),                                     \
   TIME(BLOCKS, RATE, WAIT),                                                                       \
   __VA_ARGS__},
#define WGMMA_16   .unit = LO_UNIT_F16_WGMMA, .kinds = HALVES, .orders = LO_ORDER_ALL
#define WGMMA_TF32 .unit = LO_UNIT_TF32_WGMMA, .kinds = LO_KIND_TF32, .orders = LO_ORDER_NT
#define WGMMA_8    .unit = LO_UNIT_INT8_WGMMA, .kinds = LO_KIND_INT8, .orders = LO_ORDER_NT
#define WGMMA_F8   .unit = LO_UNIT_F8_WGMMA, .orders = LO_ORDER_NT
#define TRIPLE                                                                                     \
  .unit = LO_UNIT_TRIPLE, .kinds = LO_KIND_F32, .orders = LO_ORDER_ALL, .from = 80, .to = LATEST
#define TRIPLE_WGMMA                                                                               \
  .unit = LO_UNIT_TRIPLE, .kinds = LO_KIND_F32, .orders = LO_ORDER_ALL, .from = 90, .to = 90
/* two stages of f32 and two sets of three bf16 parts, 32 of k each */
#define TRIPLE_BYTES(BM, BN) (2 * 32 * (4 + 6) * (BM + BN))
#define SLICED               .orders = LO_ORDER_NT, .sliced = true

/* Direct kernels on tensor cores: EACH elements are 16 bytes. */
#define DIRECT_MMA(RUN, NUMBER, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW, BLOCKS, RATE, WAIT,       \
                   FIXED, EACH)                                                                    \
  .run = RUN, .number = NUMBER, .bm = 16 * (MT) / (KS) * (M), .bn = 8 * (NT) / (KS) * (N),         \
  .bk = 4 * (KS) * (EACH) * (K) * (UNROLL), .align = BYTES, .few = FEW, .blocks = BLOCKS,          \
  .rate = RATE, .wait = WAIT, .fixed = FIXED, .orders = LO_ORDER_NT, .sliced = true,               \
  .direct = true
#define DIRECT_FMA(NUMBER, LM, LN, TM, TN, M, N, K, UNROLL, BYTES, FEW, BLOCKS, RATE, WAIT, FIXED, \
                   EACH)                                                                           \
  .run = run_direct_fma, .number = NUMBER, .bm = (LM) * (TM) * (M), .bn = (LN) * (TN) * (N),       \
  .bk = 32 / ((LM) * (LN)) * (EACH) * (K) * (UNROLL), .align = BYTES, .few = FEW,                  \
  .blocks = BLOCKS, .rate = RATE, .wait = WAIT, .fixed = FIXED, .orders = LO_ORDER_NT,             \
  .sliced = true, .direct = true, .unit = LO_UNIT_FMA

/* clang-format off */
const lo_cuda_kernel lo_cuda_kernels[] = {
#define X(NAME, ...)                                                                               \
  {#NAME "_k16", .unit = LO_UNIT_F16_K16, .kinds = HALVES, .from = 80, .to = LATEST,               \
   DIRECT_MMA(run_direct_k16, DIRECT_MMA_##NAME, __VA_ARGS__, 8)},                                 \
  {#NAME "_k8", .unit = LO_UNIT_F16_K8, .kinds = LO_KIND_F16, .from = 75, .to = 79,                \
   DIRECT_MMA(run_direct_k8, DIRECT_MMA_##NAME, __VA_ARGS__, 8)},
  LO_CU_DIRECT_MMA(X) LO_CU_DIRECT_LOOSE(X)
#undef X
#define X(NAME, ...)                                                                               \
  {#NAME "_s8_k32", .unit = LO_UNIT_INT8_K32, .kinds = LO_KIND_INT8, .from = 80, .to = LATEST,     \
   DIRECT_MMA(run_direct_s8_k32, DIRECT_MMA_##NAME, __VA_ARGS__, 16)},                             \
  {#NAME "_s8_k16", .unit = LO_UNIT_INT8_K16, .kinds = LO_KIND_INT8, .from = 75, .to = 79,         \
   DIRECT_MMA(run_direct_s8_k16, DIRECT_MMA_##NAME, __VA_ARGS__, 16)},
  LO_CU_DIRECT_MMA(X)
#undef X
#define X(NAME, ...)                                                                               \
  {#NAME "_w8_k16", .unit = LO_UNIT_F16_K16, .kinds = LO_KINDS_W8, .from = 80, .to = LATEST,       \
   DIRECT_MMA(run_direct_w8_k16, DIRECT_W8_##NAME, __VA_ARGS__, 16)},
  LO_CU_DIRECT_W8(X) LO_CU_DIRECT_W8_LARGE(X)
#undef X
#define X(NAME, ...)                                                                               \
  {#NAME "_w8_k8", .unit = LO_UNIT_F16_K8, .kinds = LO_KIND_F16_W8, .from = 75, .to = 79,          \
   DIRECT_MMA(run_direct_w8_k8, DIRECT_W8_##NAME, __VA_ARGS__, 16)},
  LO_CU_DIRECT_W8(X)
#undef X
#define X(NAME, ...)                                                                               \
  {#NAME "_f32", .kinds = LO_KIND_F32, .from = 75, .to = LATEST,                                   \
   DIRECT_FMA(DIRECT_FMA_##NAME, __VA_ARGS__, 4)},
  LO_CU_DIRECT_FMA(X) LO_CU_FEW_FMA(X)
#undef X
#define X(NAME, ...)                                                                               \
  {#NAME "_bf16", .kinds = LO_KIND_BF16, .from = 75, .to = 79,                                     \
   DIRECT_FMA(DIRECT_HALF_##NAME, __VA_ARGS__, 8)},
  LO_CU_FEW_FMA(X)
#undef X
#define SLICED_ROW(NAME, TILE, KINDS, UNIT, FROM, TO, RUN, ALIGN, BM, BN, SLICES, BLOCKS, ELEMENT)  \
  {"sliced_" NAME "_" #TILE, SLICED, .run = RUN, .number = SLICED_##TILE, .bm = BM, .bn = BN,        \
   .bk = 128 / (ELEMENT) * (SLICES), .align = ALIGN, .unit = UNIT, .kinds = KINDS, .from = FROM,     \
   .to = TO, TIME(BLOCKS, 30, 900), .fixed = 2400},
#define SLICED_ROWS(NAME, TILE, KINDS, UNIT, FROM, ...)                                            \
  SLICED_ROW(NAME, TILE, KINDS, UNIT, FROM, LATEST, run_sliced, LO_CUDA_CHUNK, __VA_ARGS__)        \
  SLICED_ROW(NAME "_loose", TILE, KINDS, UNIT, 80, LATEST, run_sliced_loose, 0, __VA_ARGS__)
#define X(NAME, BM, BN, WM, WN, SLICES, STAGES, BLOCKS)                                            \
  SLICED_ROWS("f32", NAME, LO_KIND_F32, LO_UNIT_TRIPLE, 80, BM, BN, SLICES, BLOCKS, 4)             \
  SLICED_ROWS("tf32", NAME, LO_KIND_TF32, LO_UNIT_TF32_K8, 80, BM, BN, SLICES, BLOCKS, 4)          \
  SLICED_ROWS("k16", NAME, HALVES, LO_UNIT_F16_K16, 80, BM, BN, SLICES, BLOCKS, 2)                 \
  SLICED_ROWS("int8", NAME, LO_KIND_INT8, LO_UNIT_INT8_K16, 75, BM, BN, SLICES, BLOCKS, 1)         \
  SLICED_ROW("k8", NAME, LO_KIND_F16, LO_UNIT_F16_K8, 75, 79, run_sliced, LO_CUDA_CHUNK, BM, BN,   \
             SLICES, BLOCKS, 2)
  LO_CU_SLICED_TILES(X)
#undef X
#define X(NAME, ...)                                                                               \
  WGMMA("wgmma_" #NAME, WGMMA_##NAME, 2, __VA_ARGS__, WGMMA_16, CHUNKS)                            \
  WGMMA("wgmma_tf32_" #NAME, WGMMA_##NAME, 4, __VA_ARGS__, WGMMA_TF32, CHUNKS)                     \
  WGMMA("wgmma_int8_" #NAME, WGMMA_##NAME, 1, __VA_ARGS__, WGMMA_8, CHUNKS)
  LO_CU_WGMMA_TILES(X)
#undef X
#define X(NAME, ...)                                                                               \
  WGMMA("wgmma_f8_" #NAME, WGMMA_F8_##NAME, 1, __VA_ARGS__, WGMMA_F8, .kinds = LO_KIND_F8, CHUNKS) \
  WGMMA("wgmma_f8_fast_" #NAME, WGMMA_F8_##NAME, 1, __VA_ARGS__, WGMMA_F8,                         \
        .kinds = LO_KIND_F8_FAST, CHUNKS)
  LO_CU_WGMMA_F8_TILES(X)
#undef X
#define X(BM, BN, WM, WN, STAGES, RING, BLOCKS, RATE_16, RATE_TF32, RATE_8, WAIT)                  \
  ASYNC("async", run_chunks, ASYNC_, 2, BM, BN, STAGES, ASYNC_16, CHUNKS,                          \
        TIME(BLOCKS, RATE_16, WAIT))                                                               \
  ASYNC("async_tf32", run_chunks, ASYNC_, 4, BM, BN, STAGES, ASYNC_TF32, CHUNKS,                   \
        TIME(BLOCKS, RATE_TF32, WAIT))                                                             \
  ASYNC("async_int8", run_chunks, ASYNC_, 1, BM, BN, STAGES, ASYNC_8, CHUNKS,                      \
        TIME(BLOCKS, RATE_8, WAIT))
  LO_CU_ASYNC_TILES(X)
#undef X
#define X(BM, BN, WM, WN, STAGES, RING, BLOCKS, RATE_16, RATE_TF32, RATE_8, WAIT)                  \
  ASYNC("async_words", run_words, ASYNC_WORDS_, 2, BM, BN, STAGES, ASYNC_16, WORDS,                \
        TIME(BLOCKS, RATE_16, WAIT))                                                               \
  ASYNC("async_tf32_words", run_words, ASYNC_WORDS_, 4, BM, BN, STAGES, ASYNC_TF32, WORDS,         \
        TIME(BLOCKS, RATE_TF32, WAIT))                                                             \
  ASYNC("async_int8_words", run_words, ASYNC_WORDS_, 1, BM, BN, STAGES, ASYNC_8, WORDS,            \
        TIME(BLOCKS, RATE_8, WAIT))
  LO_CU_ASYNC_WORD_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, RATE, WAIT, FIXED)                                               \
  {"mma_k16_" #BM "x" #BN, MMA_K16, TILE(run_mma_k16, MMA_K16_, BM, BN, 32),                       \
   TAKES(BM, BN, WM, WN), TIME(BLOCKS, RATE, WAIT), .fixed = FIXED},
  LO_CU_MMA_K16_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, K8, INT8, WAIT, FIXED)                                           \
  {"mma_k8_" #BM "x" #BN, MMA_K8, TILE(run_mma_k8, MMA_, BM, BN, 32), TAKES(BM, BN, WM, WN),       \
   TIME(BLOCKS, K8, WAIT), .fixed = FIXED},                                                        \
  {"mma_int8_" #BM "x" #BN, MMA_INT8, .to = 79, .orders = LO_ORDER_NT,                             \
   TILE(run_mma_int8, MMA_, BM, BN, 64), TAKES(BM, BN, WM, WN), TIME(BLOCKS, INT8, 2 * WAIT),      \
   .fixed = FIXED},
  LO_CU_MMA_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, RATE, WAIT, FIXED)                                               \
  {"mma_int8_any_" #BM "x" #BN, MMA_INT8, .to = LATEST, .orders = LO_ORDER_ALL,                    \
   TILE(run_mma_int8, MMA_ANY_, BM, BN, 64), TAKES(BM, BN, WM, WN), TIME(BLOCKS, RATE, WAIT),      \
   .fixed = FIXED},
  LO_CU_MMA_ANY_INT8_TILES(X)
#undef X
#define X(BM, BN, STAGES, BLOCKS, ALIGN, RATE, WAIT, FIXED)                                        \
  {"triple_wgmma_" #BM "x" #BN, TRIPLE_WGMMA, TILE(run_triple, TRIPLE_WGMMA_, BM, BN, 32),         \
   .align = ALIGN, .meets = true, .shared = LO_CU_TRIPLE_WGMMA_BYTES(BM, BN, STAGES),             \
   TIME(BLOCKS, RATE, WAIT), .fixed = FIXED},
  LO_CU_TRIPLE_WGMMA_TILES(X)
#undef X
#define X(BM, BN, WM, WN, BLOCKS, RATE, WAIT)                                                      \
  {"triple_" #BM "x" #BN, TRIPLE, TILE(run_triple, TRIPLE_, BM, BN, 32),                           \
   .shared = TRIPLE_BYTES(BM, BN), TIME(BLOCKS, RATE, WAIT), .fixed = 6000},
  LO_CU_TRIPLE_TILES(X)
#undef X
#define X(BM, BN, BK, TM, TN, LX, BLOCKS, RATE, WAIT)                                              \
  {"simt_" #BM "x" #BN, SIMT, TILE(run_simt, SIMT_, BM, BN, BK), TIME(BLOCKS, RATE, WAIT),         \
   .threads = BM * BN / (TM * TN), .shared = 8 * BK * (BM + BN) + 4 * BN, SIMT_ALIGN(BM, BN)},
  LO_CU_TILES(X)
#undef X
};
/* clang-format on */

const int lo_cuda_kernel_count = sizeof lo_cuda_kernels / sizeof *lo_cuda_kernels;
