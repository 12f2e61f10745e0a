/* The oracle against PyTorch's values (t/data/ops, float64), and gradients against finite
 * differences. */
#include <config.h>

#include "t/npy.h"
#include "t/oracle.h"

enum { MOST = 4096 }; /* elements of the largest array here */

static npy load(const char *format, const char *name, const char *what) {
  char path[160];
  int used = snprintf(path, sizeof path, "ops/");
  snprintf(path + used, sizeof path - (size_t)used, format, name, what);
  npy a = npy_load(path);
  if (!a.data || a.count > MOST) {
    ok(0, "%s is there", path);
    exit(done());
  }
  return a;
}

static layerops_matrix view(const npy *a) {
  int64_t rows = a->rank == 2 ? a->shape[0] : 1;
  return layerops_host_matrix(a->data, strcmp(a->type, "<i4") ? LAYEROPS_F32 : LAYEROPS_I32, rows,
                              a->count / rows);
}

/* Within one rounding to f32; `slack` more where an input was itself rounded. */
static void equals(const float *got, const char *format, const char *name, const char *what,
                   double slack) {
  char text[160];
  npy want = load(format, name, what);
  snprintf(text, sizeof text, format, name, what);
  same(got, npy_f64(&want), want.count, slack + 1e-13, text);
  npy_free(&want);
}

/* An output that was rounded to f32 before its derivative is taken is off by 2^-24 of 1; sums of up
 * to 33 such products with inputs of up to 2. */
static double saved_slack(layerops_activation kind) {
  return kind == LAYEROPS_SIGMOID || kind == LAYEROPS_TANH ? 70 * 0x1p-24 : 0;
}

static void linear_with(const char *shape, layerops_activation kind, npy in[4]) {
  static float y[MOST], z[MOST], dz[MOST], dx[MOST], dw[MOST], db[MOST];
  const char *act = kind ? layerops_activation_name(kind) : "identity";
  layerops_matrix x = view(&in[0]), w = view(&in[1]);
  layerops_linear_args args = {.x = x,
                               .w = w,
                               .bias = view(&in[2]),
                               .preact = mat(z, x.rows, w.rows),
                               .y = mat(y, x.rows, w.rows),
                               .activation = kind};
  works(layerops_linear_forward(oracle, &args), "linear_forward");
  char format[80];
  snprintf(format, sizeof format, "linear_%s_%%s_%%s", shape);
  equals(y, format, act, "y", 0);
  layerops_linear_backward_args back = {.dy = view(&in[3]),
                                        .x = x,
                                        .w = w,
                                        .dz = mat(dz, x.rows, w.rows),
                                        .dx = mat(dx, x.rows, x.cols),
                                        .dw = mat(dw, w.rows, w.cols),
                                        .dbias = vec(db, w.rows),
                                        .activation = kind};
  /* f32 rounds z too: it moves act'' |dz| 2^-24, and |z| is up to 30 here */
  double slack = kind ? 70 * 0x1p-24 : 0;
  if (layerops_activation_saves_input(kind)) slack *= 30;
  if (kind == LAYEROPS_RELU || kind == LAYEROPS_LEAKY_RELU) slack = 0;
  back.saved = mat(layerops_activation_saves_input(kind) ? z : y, x.rows, w.rows);
  if (!kind) back.saved = (layerops_matrix){0};
  works(layerops_linear_backward(oracle, &back), "linear_backward");
  equals(dz, format, act, "dz", slack);
  equals(dx, format, act, "dx", slack);
  equals(dw, format, act, "dw", slack);
  equals(db, format, act, "db", slack);
}

static void test_linear(void) {
  static const char *const shapes[] = {"7x5x3", "17x33x65", "1x1x1"}, *const inputs[] = {"x", "w",
                                                                                         "b", "dy"};
  for (int64_t i = 0; i < COUNT(shapes); i++) {
    npy in[4];
    for (int j = 0; j < 4; j++) in[j] = load("linear_%s_%s", shapes[i], inputs[j]);
    for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++)
      linear_with(shapes[i], kind, in);
    for (int j = 0; j < 4; j++) npy_free(&in[j]);
  }
}

static void test_activations(void) {
  npy x = load("activation_%s%s", "x", ""), dy = load("activation_%s%s", "dy", "");
  for (layerops_activation kind = 0; kind < LAYEROPS_ACTIVATION_COUNT; kind++) {
    float y[MOST], dx[MOST];
    const char *name = kind ? layerops_activation_name(kind) : "identity";
    layerops_activation_forward_args args = {.x = view(&x), .y = mat(y, 7, 10), .activation = kind};
    works(layerops_activation_forward(oracle, &args), "activation_forward");
    equals(y, "activation_%s_%s", name, "y", 0);
    layerops_activation_backward_args back = {
        .dy = view(&dy), .dx = mat(dx, 7, 10), .activation = kind};
    back.saved = saved_slack(kind) > 0 ? mat(y, 7, 10) : view(&x);
    works(layerops_activation_backward(oracle, &back), "activation_backward");
    equals(dx, "activation_%s_%s", name, "dx", saved_slack(kind) / 35);
  }
  npy_free(&x);
  npy_free(&dy);
}

static void test_softmax(void) {
  static const char *const shapes[] = {"7x5", "17x65"};
  for (int64_t i = 0; i < COUNT(shapes); i++) {
    float y[MOST];
    npy x = load("softmax_%s_%s", shapes[i], "x");
    for (int log = 0; log < 2; log++) {
      layerops_softmax_args args = {.x = view(&x), .y = view(&x), .log = log};
      args.y.host = y;
      works(layerops_softmax(oracle, &args), "softmax");
      equals(y, "softmax_%s_%s", shapes[i], log ? "log" : "y", 0);
    }
    npy_free(&x);
  }
}

static void test_cross_entropy(void) {
  static const char *const shapes[] = {"7x5", "17x65"};
  for (int64_t i = 0; i < COUNT(shapes); i++) {
    float loss, d[MOST];
    npy x = load("cross_entropy_%s_%s", shapes[i], "x");
    npy labels = load("cross_entropy_%s_%s", shapes[i], "labels");
    npy p = load("cross_entropy_%s_%s", shapes[i], "p");
    layerops_cross_entropy_args args = {.logits = view(&x),
                                        .labels = view(&labels),
                                        .ignore_label = layerops_value(-100),
                                        .loss = vec(&loss, 1),
                                        .dlogits = view(&x)};
    args.dlogits.host = d;
    works(layerops_cross_entropy(oracle, &args), "cross_entropy");
    equals(&loss, "cross_entropy_%s_%s", shapes[i], "loss", 0);
    equals(d, "cross_entropy_%s_%s", shapes[i], "dx", 0);
    args.labels = (layerops_matrix){0};
    args.ignore_label = (layerops_scalar){0};
    args.probabilities = view(&p);
    works(layerops_cross_entropy(oracle, &args), "cross_entropy");
    equals(&loss, "cross_entropy_%s_%s", shapes[i], "p_loss", 0);
    equals(d, "cross_entropy_%s_%s", shapes[i], "p_dx", 0);
    npy_free(&x);
    npy_free(&labels);
    npy_free(&p);
  }
}

static void test_mse(void) {
  static const char *const shapes[] = {"7x5", "17x33"};
  for (int64_t i = 0; i < COUNT(shapes); i++) {
    float loss, d[MOST];
    npy y = load("mse_%s_%s", shapes[i], "y"), target = load("mse_%s_%s", shapes[i], "target");
    layerops_mse_args args = {
        .y = view(&y), .target = view(&target), .loss = vec(&loss, 1), .dy = view(&y)};
    args.dy.host = d;
    works(layerops_mse(oracle, &args), "mse");
    equals(&loss, "mse_%s_%s", shapes[i], "loss", 0);
    equals(d, "mse_%s_%s", shapes[i], "dy", 0);
    npy_free(&y);
    npy_free(&target);
  }
}

/* Three steps; weights and moments are rounded to f32 after each. */
static void test_optimizers(void) {
  static const char *const names[] = {"sgd",  "sgd_momentum", "sgd_nesterov",
                                      "adam", "adam_decay",   "adamw"};
  enum { N = 65 };
  npy w0 = load("optimizer_%s%s", "w", ""), g = load("optimizer_%s%s", "g", "");
  for (int64_t i = 0; i < COUNT(names); i++) {
    float w[N], v[N] = {0}, m[N] = {0}, steps[3 * N];
    memcpy(w, w0.data, sizeof w);
    for (int step = 0; step < 3; step++) {
      layerops_matrix grad = vec(npy_f32(&g) + step * N, N);
      layerops_sgd_args sgd = {.w = vec(w, N), .g = grad, .lr = layerops_value(0.1)};
      if (i) {
        sgd.velocity = vec(v, N);
        sgd.momentum = layerops_value(0.9);
        sgd.weight_decay = layerops_value(0.01);
        sgd.nesterov = i == 2;
      }
      layerops_adam_args adam = {.w = vec(w, N),
                                 .g = grad,
                                 .m = vec(m, N),
                                 .v = vec(v, N),
                                 .lr = layerops_value(0.01),
                                 .step = layerops_value(step + 1),
                                 .weight_decay = layerops_value(i > 3 ? 0.1 : 0),
                                 .decoupled = i == 5};
      works(i < 3 ? layerops_sgd(oracle, &sgd) : layerops_adam(oracle, &adam), names[i]);
      memcpy(steps + step * N, w, sizeof w);
    }
    equals(steps, "optimizer_%s_%s", names[i], "w", 4 * 0x1p-24);
  }
  npy_free(&w0);
  npy_free(&g);
}

/* ---- finite differences ---- */

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
  test_linear();
  test_activations();
  test_softmax();
  test_cross_entropy();
  test_mse();
  test_optimizers();
  test_differences();
  test_cross_entropy_differences();
  layerops_close(oracle);
  return done();
}
