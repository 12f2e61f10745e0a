/* The gradients of the reference against finite differences of its losses. */
#include <config.h>

#include "t/oracle.h"

/* The loss of a layer and a half: mse(act(x w^T + b) + r, t), summed. */
enum { M = 3, K = 4, N = 2 };
typedef struct model {
  float x[M * K], w[N * K], b[N], target[M * N], y[M * N], z[M * N];
  layerops_activation kind;
} model;

static double loss_of(model *m) {
  float loss;
  layerops_linear_args args = {.x = mat(m->x, M, K),
                               .w = mat(m->w, N, K),
                               .bias = vec(m->b, N),
                               .preact = mat(m->z, M, N),
                               .y = mat(m->y, M, N),
                               .activation = m->kind};
  works(layerops_linear_forward(oracle, &args), "linear_forward");
  layerops_mse_args mse = {.y = mat(m->y, M, N),
                           .target = mat(m->target, M, N),
                           .loss = vec(&loss, 1),
                           .reduction = LAYEROPS_SUM};
  works(layerops_mse(oracle, &mse), "mse");
  return loss;
}

/* (f(v + h) - f(v - h)) / 2h with h = 2^-6 is off by h^2/6 f''' (f''' below 30 here: 1.3e-3) and by
 * two roundings of a loss of up to 30, 30 u / h = 1.2e-4. */
static void differences(model *m, float *values, const float *gradient, int64_t count,
                        const char *what) {
  double worst = 0;
  for (int64_t i = 0; i < count; i++) {
    float old = values[i];
    values[i] = old + 0x1p-6f;
    double up = loss_of(m);
    values[i] = old - 0x1p-6f;
    double down = loss_of(m);
    values[i] = old;
    worst = fmax(worst, fabs((up - down) * 32 - gradient[i]));
  }
  ok(worst < 1.5e-3, "%s: %s is the slope of the loss (off by at most %.2g)",
     layerops_activation_name(m->kind), what, worst);
}

static void test_differences(void) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    model m = {.kind = kind};
    /* no pre-activation is near 0, where relu has a kink */
    for (int i = 0; i < M * K; i++) m.x[i] = (float)((i * 7) % 11 - 5) / 5;
    for (int i = 0; i < N * K; i++) m.w[i] = (float)((i * 5) % 7 - 3) / 4;
    for (int i = 0; i < N; i++) m.b[i] = 0.3f - (float)i;
    for (int i = 0; i < M * N; i++) m.target[i] = (float)(i % 3) / 2;
    loss_of(&m);
    for (int i = 0; i < M * N; i++)
      if (fabsf(m.z[i]) < 0.1f) ok(0, "z[%d] = %g is too near the kink", i, (double)m.z[i]);
    float dy[M * N], dx[M * K], dw[N * K], db[N], loss;
    layerops_mse_args mse = {.y = mat(m.y, M, N),
                             .target = mat(m.target, M, N),
                             .loss = vec(&loss, 1),
                             .dy = mat(dy, M, N),
                             .reduction = LAYEROPS_SUM};
    works(layerops_mse(oracle, &mse), "mse");
    layerops_linear_backward_args back = {.dy = mat(dy, M, N),
                                          .x = mat(m.x, M, K),
                                          .w = mat(m.w, N, K),
                                          .dx = mat(dx, M, K),
                                          .dw = mat(dw, N, K),
                                          .dbias = vec(db, N),
                                          .activation = kind};
    back.saved = mat(layerops_activation_saves_input(kind) ? m.z : m.y, M, N);
    works(layerops_linear_backward(oracle, &back), "linear_backward");
    differences(&m, m.x, dx, M * K, "dx");
    differences(&m, m.w, dw, N * K, "dw");
    differences(&m, m.b, db, N, "dbias");
  }
}

/* ---- The block-sparse layer: 2 x 2 ragged blocks of 4 x 8, of which 3 are kept, with gates ----
 */

enum { BM = 3, BK = 11, BN = 6, KEPT = 3 };
typedef struct sparse_model {
  float x[BM * BK], b[BN], gate[KEPT], target[BM * BN], y[BM * BN], z[BM * BN];
  layerops_bsr *w;
  layerops_activation kind;
} sparse_model;

static double sparse_loss_of(sparse_model *m) {
  float loss;
  layerops_bsr_linear_forward_args args = {.x = mat(m->x, BM, BK),
                                           .w = m->w,
                                           .bias = vec(m->b, BN),
                                           .gate = vec(m->gate, KEPT),
                                           .preact = mat(m->z, BM, BN),
                                           .y = mat(m->y, BM, BN),
                                           .activation = m->kind};
  works(layerops_bsr_linear_forward(oracle, &args), "bsr_linear_forward");
  layerops_mse_args mse = {.y = mat(m->y, BM, BN),
                           .target = mat(m->target, BM, BN),
                           .loss = vec(&loss, 1),
                           .reduction = LAYEROPS_SUM};
  works(layerops_mse(oracle, &mse), "mse");
  return loss;
}

/* Bounded as above. Elements outside of W have no part in the loss, and the gradient 0. */
static void sparse_differences(sparse_model *m, float *values, const float *gradient, int64_t count,
                               const char *what) {
  double worst = 0;
  for (int64_t i = 0; i < count; i++) {
    const float old = values[i];
    values[i] = old + 0x1p-6f;
    const double up = sparse_loss_of(m);
    values[i] = old - 0x1p-6f;
    const double down = sparse_loss_of(m);
    values[i] = old;
    worst = fmax(worst, fabs((up - down) * 32 - gradient[i]));
  }
  ok(worst < 1.5e-3, "block-sparse, %s: %s is the slope of the loss (off by at most %.2g)",
     layerops_activation_name(m->kind), what, worst);
}

static layerops_bsr *sparse_weights(void) {
  static const int32_t row_start[] = {0, 2, 3}, column[] = {0, 1, 1};
  float values[KEPT * 32];
  for (int i = 0; i < KEPT * 32; i++) values[i] = (float)((i * 5) % 13 - 6) / 12;
  layerops_bsr_args args = {.rows = BN,
                            .cols = BK,
                            .block = 4,
                            .width = 8,
                            .count = KEPT,
                            .row_start = row_start,
                            .column = column,
                            .values = values,
                            .type = LAYEROPS_F32};
  layerops_bsr *w = NULL;
  works(layerops_bsr_create(oracle, &args, &w), "bsr_create");
  return w;
}

static void fill_sparse_model(sparse_model *m) {
  for (int i = 0; i < BM * BK; i++) m->x[i] = (float)((i * 7) % 11 - 5) / 8;
  for (int i = 0; i < BN; i++) m->b[i] = 0.3f - 0.21f * (float)i;
  for (int i = 0; i < BM * BN; i++) m->target[i] = (float)(i % 3) / 2;
  sparse_loss_of(m);
  for (int i = 0; i < BM * BN; i++)
    if (fabsf(m->z[i]) < 0.02f) ok(0, "z[%d] = %g is too near the kink", i, (double)m->z[i]);
}

static void test_sparse_differences(void) {
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    sparse_model m = {.gate = {1, -0.5f, 0.75f}, .w = sparse_weights(), .kind = kind};
    float dy[BM * BN], dx[BM * BK], dw[KEPT * 32], db[BN], dgate[KEPT], loss;
    fill_sparse_model(&m);
    layerops_mse_args mse = {.y = mat(m.y, BM, BN),
                             .target = mat(m.target, BM, BN),
                             .loss = vec(&loss, 1),
                             .dy = mat(dy, BM, BN),
                             .reduction = LAYEROPS_SUM};
    works(layerops_mse(oracle, &mse), "mse");
    layerops_bsr_linear_backward_args back = {.dy = mat(dy, BM, BN),
                                              .x = mat(m.x, BM, BK),
                                              .w = m.w,
                                              .gate = vec(m.gate, KEPT),
                                              .dx = mat(dx, BM, BK),
                                              .dw = mat(dw, KEPT * 4, 8),
                                              .dbias = vec(db, BN),
                                              .dgate = vec(dgate, KEPT),
                                              .activation = kind};
    back.saved = mat(layerops_activation_saves_input(kind) ? m.z : m.y, BM, BN);
    works(layerops_bsr_linear_backward(oracle, &back), "bsr_linear_backward");
    sparse_differences(&m, m.x, dx, BM * BK, "dx");
    sparse_differences(&m, layerops_buffer_native(layerops_bsr_values(m.w).buffer), dw, KEPT * 32,
                       "dw");
    sparse_differences(&m, m.b, db, BN, "dbias");
    sparse_differences(&m, m.gate, dgate, KEPT, "dgate");
    layerops_bsr_destroy(m.w);
  }
}

static void test_cross_entropy_differences(void) {
  float x[10] = {0.5f, -1, 2, 0.25f, -0.5f, 1, 1, 0, -2, 0.75f}, d[10];
  const float p[10] = {0.2f, 0.3f, 0, 0.5f, 0.25f, 1, 0, 0, 0.5f, 0};
  for (int truth = 0; truth < 2; truth++) {
    const int32_t labels[] = {3, 0};
    float loss;
    double worst = 0;
    layerops_cross_entropy_args args = {.logits = mat(x, 2, 5), .loss = vec(&loss, 1)};
    if (truth)
      args.probabilities = mat(p, 2, 5);
    else
      args.labels = ints(labels, 2);
    for (int i = -1; i < 10; i++) {
      double sides[2];
      args.dlogits = i < 0 ? mat(d, 2, 5) : (layerops_matrix){0};
      for (int side = 0; side < 2; side++) {
        float old = i < 0 ? 0 : x[i];
        if (i >= 0) x[i] = old + (side ? -0x1p-6f : 0x1p-6f);
        works(layerops_cross_entropy(oracle, &args), "cross_entropy");
        sides[side] = loss;
        if (i >= 0) x[i] = old;
      }
      if (i >= 0) worst = fmax(worst, fabs((sides[0] - sides[1]) * 32 - d[i]));
    }
    /* third derivatives below 0.1, roundings of a loss of about 2: 8 u / h */
    ok(worst < 5e-5,
       "cross-entropy with %s: dlogits is the slope of the loss (off by at most %.2g)",
       truth ? "probabilities" : "labels", worst);
  }
}

int main(void) {
  oracle_open();
  test_differences();
  test_sparse_differences();
  test_cross_entropy_differences();
  layerops_close(oracle);
  return done();
}
