/* Tuning: measuring which kernel is the fastest for a product on this device. It is never needed:
 * without it a rule chooses from the sizes. Only CUDA devices have something to choose from. */
#ifndef LAYEROPS_TUNE_H
#define LAYEROPS_TUNE_H

#include <layerops/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A product C [m,n] = op(A) op(B) over k, as gemm, linear_forward and linear_backward (dX, dW) make
 * it, with what else the choice depends on, and what was found. */
typedef struct layerops_tuned {
  int64_t m, n, k, batch;
  int32_t trans_a, trans_b;
  layerops_type type; /* of A */
  uint32_t flags;
  int32_t row_sum;                  /* 1: sums over rows are made with it (dbias) */
  int32_t align;                    /* bytes that the rows of A and B are aligned to: 1 to 16 */
  const char *kernel, *rule_kernel; /* the fastest, and what the rule chooses; "" where `reason` is
                                       set */
  int32_t parts, rule_parts;        /* in so many parts of k */
  double seconds, rule_seconds;     /* what they take, with operands that no cache holds */
  const char *reason;               /* NULL, or why the product was left untuned */
  layerops_type b_type;             /* of B */
  int32_t reserved;
} layerops_tuned;

/* `product` and its texts are valid until it returns. */
typedef void (*layerops_tuned_fn)(void *user, const layerops_tuned *product);

typedef struct layerops_tune_args {
  double seconds; /* from now on products are tuned for so long; later ones are left */
  int32_t again;  /* 1: also those that were tuned before */
  int32_t reserved;
  layerops_tuned_fn told; /* called for each product that is tuned or left untuned, once, within
                             the call that makes it; may be NULL; must not use the context */
  void *user;
} layerops_tune_args;

/* From now on each product of this context that is not tuned yet is tuned when it is called, with
 * the call's own operands, before the call itself runs: its kernels, in as many parts of k as may
 * do, are measured on copies of the operands, nothing but scratch memory is written, and the
 * fastest is compared with float64 at sampled entries before it is taken. Such a call waits for the
 * device, and its time in LAYEROPS_VERBOSE's line has the tuning in it. The choice holds for the
 * context, and is kept for others that are opened later on the same device with the same driver and
 * library, in $XDG_CACHE_HOME/layerops (or
 * ~/.cache/layerops), where LAYEROPS_CACHE=0 and open_args.no_cache do not forbid it. Results of
 * another kernel may differ in their last bits.
 *
 * A product is left untuned where the time is over, its scratch memory cannot be had, or no entry
 * of its operands is finite. Calls that are recorded, prepared or captured are not tuned.
 *
 * UNSUPPORTED where the device has nothing to choose from, or LAYEROPS_CUDA_KERNEL has chosen;
 * STATE while recording or tuning already; INVALID unless seconds is positive and finite and again
 * 0 or 1. Used by the context's thread. */
LAYEROPS_API layerops_status layerops_tune_begin_(layerops_context *ctx,
                                                  const layerops_tune_args *args, size_t size);
static inline layerops_status layerops_tune_begin(layerops_context *ctx,
                                                  const layerops_tune_args *args) {
  return layerops_tune_begin_(ctx, args, sizeof(layerops_tune_args));
}

/* Ends it (so does closing the context). IO, with the reason, where something was found that could
 * not be kept in the cache: it holds for this context all the same. STATE where it is not on. */
LAYEROPS_API layerops_status layerops_tune_end(layerops_context *ctx);

/* Calls `told` for each tuned product that the context knows: those of the cache when it was
 * opened, and its own since. UNSUPPORTED as above; INVALID where `told` is NULL. Used by the
 * context's thread. */
LAYEROPS_API layerops_status layerops_tune_list(layerops_context *ctx, layerops_tuned_fn told,
                                                void *user);

/* Forgets them all, in the cache too: IO where that fails. UNSUPPORTED as above; STATE while
 * tuning. */
LAYEROPS_API layerops_status layerops_tune_clear(layerops_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
