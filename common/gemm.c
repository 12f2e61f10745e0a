#include <config.h>

#include "common/again.h"

/* A and B have as many matrices as C, or one for all. */
static layerops_status check_batch(lo_door *door, const layerops_gemm_args *a) {
  int64_t batch = a->c.batch;
  if ((a->a.batch != batch && a->a.batch != 1) || (a->b.batch != batch && a->b.batch != 1))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "a has batch %lld and b %lld, but c has %lld: give as many, or 1",
                          (long long)a->a.batch, (long long)a->b.batch, (long long)batch);
  return LAYEROPS_OK;
}

/* C of integers is the sum as it stands. */
static layerops_status check_plain(lo_door *door, const layerops_gemm_args *a) {
  if (a->c.type != LAYEROPS_I32) return LAYEROPS_OK;
  if (lo_present(&a->scale_a) || lo_present(&a->scale_b))
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID, "%s is set, but c is i32",
                          lo_present(&a->scale_a) ? "scale_a" : "scale_b");
  if (a->alpha.kind != 1 || a->alpha.value != 1 || a->beta.kind != 1 || a->beta.value != 0)
    return lo_door_refuse(door, LAYEROPS_ERROR_INVALID,
                          "alpha and beta must be 1 and 0 where c is i32");
  return LAYEROPS_OK;
}

layerops_status layerops_gemm_(layerops_context *ctx, const layerops_gemm_args *args, size_t size) {
  lo_door door;
  LO_CALL_AGAIN(ctx, LAYEROPS_OP_gemm, args, size);
  LO_TRY(lo_door_open(&door, ctx, LAYEROPS_OP_gemm, sizeof *args, args, size));
  layerops_gemm_args *a = &door.call.args.gemm;
  LO_TRY(lo_door_flags(&door, a->flags));
  LO_TRY(lo_door_reserved(&door, a->reserved));
  LO_TRY(lo_door_one_of(&door, "trans_a", a->trans_a, 2));
  LO_TRY(lo_door_one_of(&door, "trans_b", a->trans_b, 2));
  LO_TRY(lo_door_matrix(&door, "a", &a->a, LO_IN, LO_MULTIPLIED, LO_ANY, LO_ANY));
  int64_t m = a->trans_a ? a->a.cols : a->a.rows, k = a->trans_a ? a->a.rows : a->a.cols;
  const lo_product_types types = lo_product_types_of(a->a.type);
  LO_TRY(lo_door_matrix(&door, "b", &a->b, LO_IN, types.b, a->trans_b ? LO_ANY : k,
                        a->trans_b ? k : LO_ANY));
  int64_t n = a->trans_b ? a->b.rows : a->b.cols;
  LO_TRY(lo_door_matrix(&door, "c", &a->c, LO_INOUT, types.beside | types.sums, m, n));
  LO_TRY(check_batch(&door, a));
  LO_TRY(lo_door_scalar(&door, "alpha", &a->alpha, 1));
  LO_TRY(lo_door_scalar(&door, "beta", &a->beta, 0));
  const lo_scale scales[] = {{"scale_a", &a->scale_a, LAYEROPS_F32, m, "a", &a->a, LO_BYTES},
                             {"scale_b", &a->scale_b, LAYEROPS_F32, n, "b", &a->b, LO_BYTES},
                             {"zero_a", &a->zero_a, LAYEROPS_I32, m, "a", &a->a, LO_INT8}};
  LO_TRY(lo_door_scales(&door, scales, 3));
  LO_TRY(lo_door_sums(&door, a->a.type, k));
  LO_TRY(check_plain(&door, a));
  lo_door_describe(&door, m, n, k, 2.0 * (double)m * (double)n * (double)k * (double)a->c.batch,
                   a->a.type, a->c.type);
  lo_door_pair(&door, a->b.type);
  lo_door_detail(&door, a->c.batch, "trans=%c%c", a->trans_a ? 't' : 'n', a->trans_b ? 't' : 'n');
  return lo_door_pass(&door);
}
