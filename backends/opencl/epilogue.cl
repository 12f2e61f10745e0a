/* All that follows a product, on VW elements of a row at a time. The tile that a main loop leaves is
 * staged in memory, and one rolled loop comes here: never expanded for each accumulator. */
typedef struct lo_targets {
  lo_out c, preact;
  lo_in bias, residual, saved;
  float alpha, beta;
} lo_targets;

/* The arguments that every product has, and the struct made of them. */
#define LO_TARGETS                                                                                 \
  lo_out c, __global const float *alpha, __global const float *beta, lo_in bias, lo_out preact,    \
      lo_in residual, lo_in saved
#define LO_TARGETS_OF(e)                                                                           \
  {c,        preact, bias, residual, saved, lo_read_scalar(alpha, (e).alpha),                      \
   lo_read_scalar(beta, (e).beta)}

LO_FN long lo_at(const lo_cl_view *v, long batch, long i, long j) {
  return v->offset + batch * v->batch_stride + i * v->stride + j;
}

LO_FN void lo_finish(const lo_cl_epilogue *e, const lo_targets *t, lo_vec acc, long batch, long i,
                     long j, long count) {
  const long at = lo_at(&e->c, batch, i, j);
  lo_vec z = t->alpha == 0.0f ? (lo_vec)(0.0f) : t->alpha * acc;
  if (t->beta != 0.0f) z += t->beta * lo_load(t->c, at, e->c.type, count, 0.0f);
  if (e->bias.type)
    z += e->features_by_row ? (lo_vec)(lo_get(t->bias, e->bias.offset + i, e->bias.type))
                            : lo_load(t->bias, e->bias.offset + j, e->bias.type, count, 0.0f);
  if (e->preact.type) lo_store(t->preact, lo_at(&e->preact, batch, i, j), e->preact.type, count, z);
  lo_vec y = lo_activation(e->activation, z, e->slope);
  if (e->saved.type) {
    lo_vec s = lo_load(t->saved, lo_at(&e->saved, batch, i, j), e->saved.type, count, 0.0f);
    y *= lo_activation_derivative(e->derivative, s, e->derivative_slope);
  }
  if (e->residual.type)
    y += lo_load(t->residual, lo_at(&e->residual, batch, i, j), e->residual.type, count, 0.0f);
  lo_store(t->c, at, e->c.type, count, y);
}
