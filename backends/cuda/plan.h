/* Which kernel runs a product, with which tile and in how many parts of k.
 *
 * Selection is data: kernels.c lists the kernels with what each takes and what its time is made of,
 * cost.c makes a time of that for a shape, plan.c takes the cheapest that is not refused. */
#ifndef LO_CUDA_PLAN_H
#define LO_CUDA_PLAN_H

#include "backends/cuda/cuda.h"
#include "common/product.h"
#include "common/tuned.h"

/* What multiplies. */
typedef enum lo_cuda_unit {
  LO_UNIT_FMA,      /* ordinary cores, f32 */
  LO_UNIT_TRIPLE,   /* f32 as three bf16 parts: six m16n8k16 */
  LO_UNIT_F16_K8,   /* m16n8k8, Turing's */
  LO_UNIT_F16_K16,  /* m16n8k16: f16 and bf16 */
  LO_UNIT_TF32_K8,  /* m16n8k8 */
  LO_UNIT_INT8_K16, /* m8n8k16, Turing's */
  LO_UNIT_INT8_K32, /* m16n8k32 */
  LO_UNIT_F16_WGMMA,
  LO_UNIT_TF32_WGMMA,
  LO_UNIT_INT8_WGMMA,
  LO_UNIT_F8_WGMMA,
  LO_UNITS
} lo_cuda_unit;

/* Operands' kinds, as bits. A product has several where it may run in several ways: in f32 and
 * TF32; 8-bit floats, and 8-bit elements beside a 16-bit A, as they are or widened to 16 bits. */
enum {
  LO_KIND_F32 = 1,
  LO_KIND_TF32 = 2,
  LO_KIND_F16 = 4,
  LO_KIND_BF16 = 8,
  LO_KIND_INT8 = 16,
  LO_KIND_F8 = 32,
  LO_KIND_F8_FAST = 64,  /* sums as the tensor cores keep them */
  LO_KIND_F16_W8 = 128,  /* op(A) f16, op(B) of 8 bits, made f16 on its way */
  LO_KIND_BF16_W8 = 256, /* the same of bf16 */
  LO_KINDS_W8 = LO_KIND_F16_W8 | LO_KIND_BF16_W8
};

/* The border on which copies of operands have their rows, in bytes. */
enum { LO_CUDA_CHUNK = 16 };

/* Orders of operands, as bits: 1 << (2 * trans_a + trans_b). */
enum { LO_ORDER_NT = 2, LO_ORDER_ALL = 15 };

typedef int lo_cuda_run(int number, int kind, const lo_cu_gemm *p, lo_cu_grid grid, void *stream);

typedef struct lo_cuda_kernel {
  const char *name;
  lo_cuda_run *run;
  int number; /* what run() knows it by */
  lo_cuda_unit unit;
  int kinds, orders;
  int from, to; /* the architectures that it is for */
  int align;    /* 0, or the bytes that the rows of both operands must be aligned to: where it is
                 * LO_CUDA_CHUNK, operands whose rows are not are copied to scratch memory first */
  bool sliced;  /* sums k in another order than the kernels of its unit without this */
  bool direct;  /* wants k in whole times `align` too, and lines less than 4 GiB apart */
  bool meets;   /* parts of k meet in a cluster, without scratch memory */
  bool boxes;   /* operands come by TMA */
  int cluster;  /* blocks that have a tile together; 0: one */
  int few;      /* 0, or the most lines that the shorter of m and n, of W8 m, may have */
  int bm, bn, bk;
  int blocks;          /* that an SM holds at once, by their registers */
  int threads, shared; /* of a block; bytes. 0: little, whatever the SM */
  /* Its time: the share, in percent, of the unit's rate that an SM full of its blocks reaches;
   * clocks that a step takes a block alone; clocks of a block around its steps. */
  int rate, wait, fixed;
} lo_cuda_kernel;

extern const lo_cuda_kernel lo_cuda_kernels[];
extern const int lo_cuda_kernel_count;

/* The last tiles of a product whose k is whole else, in parts of k, by a launch of their own: the
 * last round of blocks would leave most SMs idle. */
typedef struct lo_cuda_tail {
  int64_t tiles, slice; /* 0: none */
  int split;
} lo_cuda_tail;

typedef struct lo_cuda_plan {
  const lo_cuda_kernel *kernel;
  int kind;
  int bm, bn;  /* of `few` kernels: the dimension that is short has the other one's worth */
  int swapped; /* `few`: the long operand is A */
  int split;
  int64_t slice;
  lo_cuda_tail tail;
  bool alone;                   /* its launches wait until the one before has ended: lo_cu_grid */
  int64_t partial_bytes, bytes; /* scratch memory: of the partial products; in all */
  int64_t copies;               /* where in it copies of operands begin */
} lo_cuda_plan;

/* How many blocks an SM holds at once: 0 where a T4, whose limits LAYEROPS_CUDA_ARCH=75 imposes,
 * has no room for one. */
int lo_cuda_resident(int architecture, const lo_cuda_kernel *k);

/* What a kernel's time is made of (its fields of these names). */
typedef struct lo_cuda_time {
  int rate, wait, fixed;
} lo_cuda_time;
lo_cuda_time lo_cuda_time_of(const lo_cuda_kernel *k);

/* What the kernel's last round had better be. */
lo_cuda_tail lo_cuda_tail_of(const lo_cuda_state *s, const lo_product *p, const lo_cuda_kernel *k);

/* The clocks of a product with k in `split` parts of `slice`, but for what all kernels have alike.
 */
double lo_cuda_cost(const lo_cuda_state *s, const lo_product *p, const lo_cuda_kernel *k, int split,
                    int64_t slice);

/* Seconds below which no kernel of the unit can multiply, at `clock` Hz. */
double lo_cuda_unit_seconds(const lo_cuda_state *s, const lo_product *p, lo_cuda_unit unit,
                            double clock);

/* All that a choice depends on. */
lo_tuned_key lo_cuda_plan_key(const lo_product *p);

/* The plan with this kernel in so many parts of k, or why it cannot be. */
const char *lo_cuda_plan_named(layerops_context *ctx, const lo_product *p, const char *kernel,
                               int split, lo_cuda_plan *plan);

/* Forgets the plans made before: what was tuned has changed. */
void lo_cuda_plans_forget(layerops_context *ctx);

/* Chooses, sets ctx->kernel, and says how much scratch memory the run needs. */
layerops_status lo_cuda_plan_product(layerops_context *ctx, const lo_product *p,
                                     lo_cuda_plan *plan);

/* Every way to run a product that is not refused, the cheapest by the rule first; at most `most`
 * are written, and the number is returned. */
int lo_cuda_plan_candidates(layerops_context *ctx, const lo_product *p, lo_cuda_plan *plans,
                            int most);

/* The type that the kernel takes an operand (of p) in: its own, or one of 16 bits. */
layerops_type lo_cuda_type_in(const lo_product *p, const layerops_matrix *m,
                              const lo_cuda_kernel *k);

/* Whether the kernel takes the operand (of p) through a copy, with rows on borders of 16 bytes and
 * zeros up to the next one. */
bool lo_cuda_is_copied(const lo_product *p, const layerops_matrix *m, const lo_cuda_kernel *k);
/* Bytes from a copied row of so many bytes to the next. A box's line of 128 bytes should lie in one
 * line of the second-level cache: out of two it comes at less than half the rate. */
static inline int64_t lo_cuda_pitch(int64_t row) {
  const int64_t border = row < 512 ? LO_CUDA_CHUNK : 128;
  return (row + border - 1) / border * border;
}

/* Bytes of the copies of both operands. */
int64_t lo_cuda_copy_bytes(const lo_product *p, const lo_cuda_kernel *k);

/* ops_product.c: an operand of a product; all of an epilogue but what is of 8-bit integers alone.
 */
#define LO_CUDA_LARGEST_GRID ((int64_t)1 << 30)
lo_cu_operand lo_cuda_operand(const layerops_matrix *m, int64_t extent, int k_inner);
void lo_cuda_set_epilogue(lo_cu_epilogue *out, const lo_epilogue *e, const layerops_matrix *c,
                          int64_t k);
/* Sums over the columns of dy, enough runs of rows to fill the device: what
 * lo_cuda_column_sum needs of scratch memory. */
int64_t lo_cuda_plan_column_sum(layerops_context *ctx, const layerops_matrix *dy,
                                lo_cu_column_sum *sum);
layerops_status lo_cuda_column_sum(layerops_context *ctx, lo_cu_column_sum *sum,
                                   const layerops_matrix *dz, const layerops_matrix *dbias,
                                   const layerops_scalar *beta, char *memory, const char *what);
/* `memory` holds plan->bytes. */
layerops_status lo_cuda_run_product(layerops_context *ctx, const lo_product *p,
                                    const lo_cuda_plan *plan, char *memory, const char *what);

/* ---- tuned.c: what tuning found for this device, read when a context is opened. */
void lo_cuda_tuned_open(layerops_context *ctx);
/* Whether the product is tuned, and can still be run so: `plan`. */
bool lo_cuda_tuned_plan(layerops_context *ctx, const lo_product *p, const lo_tuned_key *key,
                        lo_cuda_plan *plan);

/* ---- tune.c: tunes the product, unless that is done, with its own operands. Nothing where the
 * context is not tuning. */
layerops_status lo_cuda_tune_product(layerops_context *ctx, const lo_product *p);

/* ---- verify.c: runs the product with a plain epilogue (alpha 1, beta 0, nothing else) into
 * scratch memory and compares entries of the first and last rows and columns and of random ones
 * with float64. `memory` holds plan->bytes. */
typedef enum lo_cuda_verdict {
  LO_VERDICT_RIGHT,
  LO_VERDICT_WRONG,
  LO_VERDICT_NONE
} lo_cuda_verdict;
layerops_status lo_cuda_verify(layerops_context *ctx, const lo_product *p, const lo_cuda_plan *plan,
                               char *memory, lo_cuda_verdict *verdict, char *why, size_t why_size);

/* Whether a kernel for few lines has op(A) as the long operand. */
static inline bool lo_cuda_long_a(const lo_product *p, const lo_cuda_kernel *k) {
  return p->n < p->m && !(k->kinds & LO_KINDS_W8);
}

static inline int64_t lo_ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

#endif
