/* What the host hands to kernels: read by C, by nvcc and, as text, by the run-time compiler, so it
 * includes nothing. Strides and offsets are counted in elements. */
#ifndef LO_CUDA_PARAMS_H
#define LO_CUDA_PARAMS_H

typedef long long lo_i64;
typedef unsigned long long lo_u64;

/* A view in device memory; p is the address of its first element, NULL where it is absent. */
typedef struct lo_cu_view {
  void *p;
  lo_i64 rows, cols, stride, batch_stride;
  int type;   /* LO_TYPE_ */
  int vector; /* 1: four neighbours from a column that 4 divides may be moved at once */
} lo_cu_view;

/* A number, or where it lies. */
typedef struct lo_cu_scalar {
  const float *p;
  double value;
} lo_cu_scalar;

/* A vector beside a product: an element for each row (column), or one that stands for all. */
typedef struct lo_cu_vector {
  void *p; /* NULL: absent */
  int type, one;
} lo_cu_vector;

/* A matrix beside C, of as many rows and columns. */
typedef struct lo_cu_beside {
  void *p;
  lo_i64 stride;
  int type;
} lo_cu_beside;

typedef struct lo_cu_output {
  void *p;
  lo_i64 stride, batch_stride;
  int type;
  int quads; /* four neighbours from a column that 4 divides may be moved at once, here and beside
              */
} lo_cu_output;

typedef struct lo_cu_factor {
  const float *p; /* where it lies, or NULL */
  float value;
  int scaled; /* alpha: times the scales of op(A) and op(B), one number each */
} lo_cu_factor;

/* What a product ends with, but for scales, alpha, a bias and ReLU, of which most end with no more;
 * SUMS: it ends with its sums as they are. */
enum {
  LO_END_SUMS = 1,
  LO_END_ACTIVATION = 2,
  LO_END_BETA = 4,
  LO_END_PREACT = 8,
  LO_END_DERIVATIVE = 16,
  LO_END_RESIDUAL = 32,
  LO_END_SCALES = 64, /* sums of floats, scaled by row or column */
  LO_END_F8 = 128     /* C is of 8-bit floats */
};

/* Activations of what is stored with 16 bits or less (prelude.cuh). */
enum { LO_ACT_GELU_F16 = 16, LO_ACT_GELU_BF16, LO_ACT_SILU_16 };

/* See common/product.h for the formula. What most products have comes first: each line of a
 * kernel's parameters that is touched costs a trip to memory. */
typedef struct lo_cu_epilogue {
  lo_cu_output c;
  int ends; /* LO_END_ */
  int activation;
  lo_cu_factor alpha;
  lo_cu_vector bias, scale_a, scale_b, zero_a, scale_c; /* all but the bias: of 8-bit types */
  lo_cu_factor beta;
  lo_cu_beside preact, residual, saved;
  lo_cu_vector row_sum;
  int derivative;
  float slope, derivative_slope;
} lo_cu_epilogue;

/* An operand of a product: rows of op(A), or columns of op(B), by k. */
typedef struct lo_cu_operand {
  const void *p;
  lo_i64 extent; /* m or n */
  lo_i64 stride, batch_stride;
  int type;    /* LO_TYPE_ */
  int k_inner; /* 1: neighbours in memory are neighbours in k; 0: in m or n */
  int vector;  /* four neighbours may be moved at once */
  int vector8; /* 16 bytes */
} lo_cu_operand;

typedef struct lo_cu_gemm {
  lo_cu_operand a, b;
  lo_i64 m, n, k, batch;
  lo_i64 tile0, tile1;     /* of one matrix's tiles those of this launch: up to tile1, without it */
  lo_i64 tiles_m, tiles_n; /* all tiles */
  lo_i64 slice;            /* k of one of `split` parts: below 2^31 */
  int split;
  int bf16;            /* 16-bit operands: 1 bf16, 0 f16 */
  int a_unsigned;      /* 8-bit operands: op(A) is u8 */
  int swapped;         /* the long operand is A */
  int sms;             /* of the device */
  float *partial;      /* split > 1: [split][batch][m][pitch], or as the kernel has it */
  float *partial_sums; /* split > 1 and row_sum: [split][m] */
  int *counters;       /* split > 1: one a tile, 0 between launches */
  lo_i64 pitch;        /* n, rounded up to 4 */
  lo_cu_epilogue e;
} lo_cu_gemm;

/* How a tensor lies in memory, and the box of it that is copied at once: the driver's CUtensorMap.
 */
typedef struct lo_cu_map {
  lo_u64 words[16];
} __attribute__((aligned(64))) lo_cu_map;

/* A product whose operands come by boxes, and whose C may leave by them. */
typedef struct lo_cu_boxed_gemm {
  lo_cu_map a, b, c;
  int boxes_c; /* of LO_CU_BOX_ROWS rows by 128 bytes */
  lo_cu_gemm g;
} lo_cu_boxed_gemm;

/* Rows to be copied to borders of 16 bytes: sizes in bytes. */
enum { LO_CU_ROW_WORDS = 8 };
typedef struct lo_cu_rows {
  const void *from;
  void *to;
  lo_i64 rows, batch, bytes;
  lo_i64 stride, batch_stride, pitch;
  int lanes; /* threads of a row, LO_CU_ROW_WORDS each at a time: a power of 2 */
  int type, to_type; /* elements of 8 bits are widened to 16: LO_TYPE_ */
} lo_cu_rows;

typedef struct lo_cu_align {
  lo_cu_rows operands[2];
  int count, element; /* element: 1, 2 or 4 bytes */
} lo_cu_align;

/* The tiles of the SIMT main loop: BM x BN outputs in steps of BK; a thread holds TM x TN of them;
 * a warp is 32/LX by LX threads; BLOCKS is how many should fit on an SM at once. RATE: the main
 * loop's share, in percent, of what an SM full of such blocks could multiply; WAIT: clocks that a
 * step takes a block alone. Both are fitted to times on an H200 (2026-11). X(BM, BN, BK,
 * TM, TN, LX, BLOCKS, RATE, WAIT) */
#define LO_CU_TILES(X)                                                                             \
  X(128, 128, 8, 16, 8, 8, 2, 70, 1350)                                                            \
  X(128, 32, 16, 8, 4, 8, 5, 60, 1400)                                                             \
  X(32, 128, 16, 4, 8, 8, 5, 58, 1500)                                                             \
  X(64, 64, 16, 8, 4, 8, 5, 62, 1300)                                                              \
  X(32, 32, 32, 4, 4, 8, 8, 53, 1400)

/* The tiles of the tensor cores' main loop through registers, in steps of 64 bytes of k: a warp has
 * WM x WN outputs, BLOCKS fit on an SM. RATE_K8 and RATE_INT8 are of Turing's instructions, RATE of
 * the longer one of 16-bit operands; WAIT, FIXED: plan.h. Fitted to times on an H200 (2026-11).
 * X(BM, BN, WM, WN, BLOCKS, RATE_K8, RATE_INT8, WAIT, FIXED) */
#define LO_CU_MMA_TILES(X)                                                                         \
  X(256, 128, 64, 64, 1, 71, 95, 1220, 1500)                                                       \
  X(128, 256, 64, 64, 1, 71, 95, 1220, 1500)                                                       \
  X(128, 64, 64, 32, 2, 45, 72, 700, 1500)                                                         \
  X(64, 64, 32, 32, 3, 32, 65, 620, 1500)

/* X(BM, BN, WM, WN, BLOCKS, RATE, WAIT, FIXED) */
#define LO_CU_MMA_K16_TILES(X)                                                                     \
  X(128, 64, 64, 32, 2, 30, 1000, 4000)                                                            \
  X(64, 64, 32, 32, 3, 25, 700, 3000)

/* 8-bit operands that do not both run along k. X(BM, BN, WM, WN, BLOCKS, RATE, WAIT, FIXED) */
#define LO_CU_MMA_ANY_INT8_TILES(X) X(64, 64, 32, 32, 2, 20, 4000, 4000)

/* Bytes of shared memory of a block: two stages. */
#define LO_CU_MMA_SHARED(BM, BN) (128 * (BM + BN))

/* The tiles of the asynchronous main loop, in steps of LO_CU_ASYNC_STEP bytes of k: a warp has
 * WM x WN outputs; STAGES steps are in shared memory and RING fragments of A in a warp's registers,
 * half of them ahead. Rates are of the longest instruction of 16-bit floats, TF32 and 8-bit
 * integers. X(BM, BN, WM, WN, STAGES, RING, BLOCKS, RATE_16, RATE_TF32, RATE_8, WAIT) */
#define LO_CU_ASYNC_STEP 128
#define LO_CU_ASYNC_TILES(X)                                                                       \
  X(256, 128, 64, 64, 3, 8, 1, 75, 75, 78, 2000)                                                   \
  X(128, 128, 64, 64, 3, 8, 2, 66, 66, 73, 1500)                                                   \
  X(128, 64, 32, 64, 3, 4, 3, 57, 57, 64, 900)                                                     \
  X(64, 128, 32, 64, 3, 4, 3, 52, 52, 64, 900)                                                     \
  X(64, 64, 32, 32, 3, 4, 4, 41, 41, 54, 650)
/* The same for operands whose rows begin on words, not on borders of 16 bytes. */
#define LO_CU_ASYNC_WORD_TILES(X)                                                                  \
  X(128, 128, 64, 64, 3, 8, 2, 33, 33, 36, 3000)                                                   \
  X(64, 64, 32, 32, 3, 4, 4, 20, 20, 27, 1300)
#define LO_CU_ASYNC_BYTES(BM, BN, STAGES) ((BM + BN) * LO_CU_ASYNC_STEP * STAGES)
/* Words of a tile's sums over a part of k, and of its columns'. */
#define LO_CU_ASYNC_PART(BM, BN) (((BM) + 1) * (BN))

/* Hopper's tiles (gemm_wgmma.cuh), in steps of LO_CU_WGMMA_STEP bytes of k: GROUPS of four warps,
 * each with TALL times 64 rows by BN columns; CLUSTER blocks below each other share B. BLOCKS fit
 * on an SM. RATE, WAIT, FIXED: plan.h; fitted to times in f16 on an H200 (2026-11). X(NAME, GROUPS,
 * TALL, BN, STAGES, CLUSTER, BLOCKS, RATE, WAIT, FIXED) */
#define LO_CU_WGMMA_STEP 128
#define LO_CU_BOX_ROWS   16
/* Whether a group has 128 sums a thread: then C leaves by boxes. */
#define LO_CU_WGMMA_WIDE(TALL, BN) ((TALL) * (BN) >= 256)
#define LO_CU_WGMMA_TILES(X)                                                                       \
  X(2x128x256, 2, 1, 256, 4, 2, 1, 80, 909, 6703)                                                  \
  X(128x256, 2, 1, 256, 4, 1, 1, 95, 759, 6609)                                                    \
  X(2x128x128, 2, 1, 128, 6, 2, 1, 67, 553, 5625)                                                  \
  X(128x128, 2, 1, 128, 6, 1, 1, 75, 712, 5156)                                                    \
  X(128x64, 2, 1, 64, 8, 1, 1, 75, 366, 4500)                                                      \
  X(64x128, 1, 1, 128, 8, 1, 1, 75, 356, 4594)                                                     \
  X(64x64, 1, 1, 64, 6, 1, 2, 75, 431, 4969)

/* Those of 8-bit floats, whose sums are promoted or not. */
#define LO_CU_WGMMA_F8_TILES(X)                                                                    \
  X(128x256, 2, 1, 256, 4, 1, 1, 90, 760, 6600)                                                    \
  X(2x128x128, 2, 1, 128, 6, 2, 1, 75, 710, 5200)                                                  \
  X(128x128, 2, 1, 128, 6, 1, 1, 75, 710, 5200)                                                    \
  X(64x128, 1, 1, 128, 8, 1, 1, 75, 360, 4600)                                                     \
  X(64x64, 1, 1, 64, 6, 1, 2, 75, 430, 5000)

/* The tiles of f32 products on tensor cores: a warp has WM x WN outputs.
 * X(BM, BN, WM, WN, BLOCKS, RATE, WAIT) */
#define LO_CU_TRIPLE_TILES(X)                                                                      \
  X(128, 128, 64, 32, 1, 55, 4100)                                                                 \
  X(64, 64, 32, 32, 2, 42, 1750)

/* The same by wgmma, in STAGES of f32. X(BM, BN, STAGES, BLOCKS, ALIGN, RATE, WAIT, FIXED) */
#define LO_CU_TRIPLE_WGMMA_TILES(X)                                                                \
  X(128, 128, 3, 1, 16, 74, 3000, 4000)                                                            \
  X(64, 64, 3, 2, 0, 55, 1200, 4000)
#define LO_CU_TRIPLE_WGMMA_BYTES(BM, BN, STAGES) ((128 * STAGES + 2 * 3 * 64) * (BM + BN))

/* The tiles of small grids: a warp has WM x WN outputs and one of SLICES slices of their k, in
 * STAGES stages of 128 bytes; a block takes (WM + WN) 132 STAGES bytes of shared memory for each of
 * its warps at most. BLOCKS fit on an SM. X(NAME, BM, BN, WM, WN, SLICES, STAGES, BLOCKS) */
#define LO_CU_SLICED_TILES(X)                                                                      \
  X(16x16, 16, 16, 16, 16, 8, 2, 3)                                                                \
  X(16x32, 16, 32, 16, 32, 8, 1, 3)                                                                \
  X(32x32, 32, 32, 32, 32, 8, 1, 2)                                                                \
  X(32x32_s4, 32, 32, 32, 32, 4, 1, 4)                                                             \
  X(64x32, 64, 32, 64, 32, 4, 1, 2)                                                                \
  X(64x64, 64, 64, 16, 32, 1, 1, 3)

/* What multiplies there; u8: A unsigned, B signed. F32: as six products of bf16 parts. */
enum {
  LO_SLICED_F16,
  LO_SLICED_BF16,
  LO_SLICED_TF32,
  LO_SLICED_S8,
  LO_SLICED_U8,
  LO_SLICED_F32,
  LO_SLICED_TYPES
};

/* Instructions of direct kernels on tensor cores: Turing's shorter ones, and those from Ampere on.
 */
enum { LO_DIRECT_K8_F16, LO_DIRECT_F16, LO_DIRECT_BF16, LO_DIRECT_K16_S8, LO_DIRECT_S8 };

/* Kernels that load fragments straight from memory (gemm_direct.cuh): small grids, and products
 * with at most FEW lines on one side. On tensor cores: a warp has MT x NT instructions' outputs, of
 * KS ranges of k; M x N x K warps; UNROLL steps on their way; BYTES moved at once, 0: an element.
 * BLOCKS fit on an SM. RATE: the share, in percent, of its unit's rate that a full SM reaches;
 * WAIT: clocks that a round of UNROLL steps takes a block alone; FIXED: what stands around them.
 * All fitted to times on an H200 (2026-11). X(NAME, MT, NT, KS, M, N, K, UNROLL, BYTES, FEW,
 * BLOCKS, RATE, WAIT, FIXED) */
#define LO_CU_DIRECT_MMA(X)                                                                        \
  X(direct_16x8_w8, 2, 2, 2, 1, 1, 8, 2, 16, 0, 2, 8, 600, 2600)                                   \
  X(direct_16x8_w4, 2, 2, 2, 1, 1, 4, 2, 16, 0, 4, 8, 1300, 1500)                                  \
  X(direct_16x16, 1, 2, 1, 1, 1, 8, 2, 16, 0, 2, 8, 1700, 900)                                     \
  X(direct_32x32, 2, 4, 1, 1, 1, 8, 2, 16, 0, 1, 15, 1700, 1800)                                   \
  X(few1, 2, 1, 8, 1, 1, 4, 4, 16, 1, 4, 2, 2200, 4000)                                            \
  X(few1_short, 2, 1, 8, 4, 1, 1, 1, 16, 1, 4, 2, 1000, 3200)                                      \
  X(few2, 2, 1, 4, 1, 1, 4, 4, 16, 2, 4, 2, 3000, 4000)                                            \
  X(few4, 2, 1, 2, 1, 1, 4, 4, 16, 4, 4, 2, 1300, 1800)                                            \
  X(few8, 2, 2, 2, 2, 1, 4, 2, 16, 8, 2, 6, 300, 4000)                                             \
  X(few16, 2, 4, 2, 2, 1, 8, 2, 16, 16, 1, 10, 300, 2600)

/* Those for operands that are not aligned, or k that is not whole: 16-bit operands alone, as other
 * main loops are better at single bytes. */
#define LO_CU_DIRECT_LOOSE(X)                                                                      \
  X(direct_loose, 1, 1, 1, 1, 1, 4, 1, 0, 0, 4, 3, 1700, 2600)                                     \
  X(few1_loose, 2, 1, 8, 1, 1, 4, 2, 0, 1, 3, 2, 2200, 4000)                                       \
  X(few8_loose, 2, 2, 2, 2, 1, 4, 1, 0, 8, 2, 3, 1700, 3200)

/* The same for op(A) of 16 bits and few rows, and op(B) of 8 bits. LARGE: more shared memory than
 * Turing has. */
#define LO_CU_DIRECT_W8(X)                                                                         \
  X(few1, 2, 1, 8, 1, 1, 4, 1, 16, 1, 8, 4, 3400, 500)                                             \
  X(few4, 1, 1, 2, 1, 1, 8, 2, 16, 4, 4, 6, 3500, 500)                                             \
  X(few8, 2, 2, 2, 1, 1, 8, 2, 16, 8, 2, 10, 500, 2750)                                            \
  X(few16, 1, 2, 1, 1, 1, 8, 2, 16, 16, 3, 20, 2800, 1000)                                         \
  X(few16_deep, 1, 2, 1, 1, 1, 16, 1, 16, 16, 2, 20, 2200, 1500)
#define LO_CU_DIRECT_W8_LARGE(X)                                                                   \
  X(few32, 2, 4, 1, 1, 1, 16, 1, 16, 32, 1, 30, 2500, 3250)                                        \
  X(few64, 2, 4, 1, 1, 2, 8, 1, 16, 64, 1, 30, 2100, 3750)

/* The same on ordinary cores: LM x LN groups of lanes have TM x TN outputs each.
 * X(NAME, LM, LN, TM, TN, M, N, K, UNROLL, BYTES, FEW, BLOCKS, RATE, WAIT,
 * FIXED) */
#define LO_CU_DIRECT_FMA(X)                                                                        \
  X(direct_8x8_w16, 2, 2, 4, 4, 1, 1, 16, 2, 16, 0, 1, 18, 300, 3200)                              \
  X(direct_8x8_w8, 2, 2, 4, 4, 1, 1, 8, 2, 16, 0, 2, 25, 2200, 900)                                \
  X(direct_16x8, 4, 2, 4, 4, 1, 1, 8, 2, 16, 0, 2, 25, 1700, 1800)                                 \
  X(direct_16x16, 2, 2, 8, 8, 1, 1, 8, 1, 16, 0, 1, 25, 1700, 1800)                                \
  X(direct_16x32, 2, 4, 8, 8, 1, 1, 8, 1, 16, 0, 1, 25, 1700, 1800)                                \
  X(direct_loose, 2, 2, 4, 4, 1, 1, 4, 1, 0, 0, 4, 25, 1300, 900)

/* Those of them for few lines, for f32 and, where no instruction takes it, bf16. */
#define LO_CU_FEW_FMA(X)                                                                           \
  X(few1, 1, 1, 4, 1, 1, 1, 4, 4, 16, 1, 4, 4, 300, 2600)                                          \
  X(few1_short, 1, 1, 4, 1, 4, 1, 1, 2, 16, 1, 4, 4, 1700, 2600)                                   \
  X(few2, 1, 1, 4, 2, 1, 1, 4, 2, 16, 2, 4, 8, 3000, 2200)                                         \
  X(few4, 1, 1, 4, 4, 1, 1, 4, 2, 16, 4, 3, 18, 800, 3200)                                         \
  X(few8, 1, 1, 4, 8, 1, 1, 4, 2, 16, 8, 2, 18, 2200, 2200)                                        \
  X(few16, 1, 2, 8, 8, 2, 1, 2, 2, 16, 16, 2, 35, 600, 2200)                                       \
  X(few1_loose, 1, 1, 4, 1, 1, 1, 4, 4, 0, 1, 4, 4, 300, 2600)                                     \
  X(few8_loose, 1, 1, 4, 8, 1, 1, 4, 1, 0, 8, 2, 18, 450, 4000)

/* Element-wise work on views of one shape, flattened to one row where memory allows. */
typedef struct lo_cu_unary {
  lo_cu_view x, y;
  int activation;
  float slope;
} lo_cu_unary;

typedef struct lo_cu_binary {
  lo_cu_view dy, saved, dx;
  int activation;
  float slope;
} lo_cu_binary;

/* A label or an index out of range: the smallest place << 32 | value, all ones where there is none.
 */
typedef struct lo_cu_fault {
  lo_u64 label, index;
} lo_cu_fault;

typedef struct lo_cu_copy {
  lo_cu_view x, y;
  const int *index; /* gather: the row of x for each row of y */
  lo_u64 *fault;
} lo_cu_copy;

typedef struct lo_cu_fill {
  lo_cu_view y;
  lo_cu_scalar value;
} lo_cu_fill;

/* How rows are held: by THREADS threads in QUADS registers of four elements each; one that is
 * longer than the last of them goes through such registers twice (HELD 0). A row is taken by the
 * first that holds it, whatever the number of rows. X(THREADS, QUADS, HELD) */
#define LO_CU_LINES(X)                                                                             \
  X(4, 1, 1, 4)                                                                                    \
  X(8, 1, 1, 4)                                                                                    \
  X(32, 1, 1, 4)                                                                                   \
  X(32, 2, 1, 4)                                                                                   \
  X(32, 4, 1, 4)                                                                                   \
  X(32, 8, 1, 3)                                                                                   \
  X(256, 2, 1, 4)                                                                                  \
  X(256, 4, 1, 4)                                                                                  \
  X(256, 8, 1, 2)                                                                                  \
  X(256, 3, 0, 4)

/* Where the blocks of one launch meet: zero before it, and zeroed by the block that ends last. One
 * for each context, whose launches come one after the other. */
typedef struct lo_cu_meeting {
  unsigned arrived; /* blocks that are done */
  unsigned taken;   /* slices of the labels that are begun */
  lo_u64 counted;   /* slices that are done, and the rows that count in them */
} lo_cu_meeting;

typedef struct lo_cu_softmax {
  lo_cu_view x, y;
  int log;
  int whole; /* rows are made of quads that may be moved at once, in all views */
} lo_cu_softmax;

typedef struct lo_cu_cross_entropy {
  lo_cu_view logits, probabilities, dlogits;
  const int *labels;
  lo_i64 m, n;
  float *loss, *losses;
  int *correct;
  lo_i64 ignore; /* beyond int: nothing is ignored */
  lo_cu_scalar grad_scale;
  int mean;
  int whole;       /* as lo_cu_softmax's */
  unsigned slices; /* of the labels */
  lo_i64 slice;    /* labels of one */
  lo_cu_meeting *meeting;
  float *loss_parts; /* scratch: a number for each block */
  int *correct_parts;
  lo_u64 *fault;
} lo_cu_cross_entropy;

typedef struct lo_cu_mse {
  lo_cu_view y, target, dy;
  float *loss;
  double r;
  lo_cu_scalar grad_scale;
  lo_cu_meeting *meeting;
  float *parts; /* scratch: a sum for each block */
} lo_cu_mse;

typedef struct lo_cu_sgd {
  lo_cu_view w, g, velocity;
  lo_cu_scalar lr, momentum, weight_decay;
  int nesterov;
} lo_cu_sgd;

typedef struct lo_cu_adam {
  lo_cu_view w, g, m, v;
  lo_cu_scalar lr, beta1, beta2, epsilon, weight_decay, step;
  int decoupled;
} lo_cu_adam;

/* A sum over the rows of x, for each column: parts[blocks][cols], then y = sum + beta y. */
typedef struct lo_cu_column_sum {
  lo_cu_view x, y;
  lo_cu_scalar beta;
  float *parts;
  int parts_count;
  lo_i64 rows_each;
} lo_cu_column_sum;

#endif
