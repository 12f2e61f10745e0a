/* The reference, which judges the other backends, against values that PyTorch computed in float64
 * from the same float32 inputs (t/data/ops, t/pytorch/ops_reference.py says what is what), and
 * 8-bit floats against ml_dtypes (t/data/f8, t/pytorch/f8_reference.py). */
#include <config.h>

#include <layerops/layerops.h>
#include <math.h>

#include "t/npy.h"
#include "t/tap.h"

/* The reference computes in double and rounds to f32 once. A little more than half an ulp leaves
 * double's own rounding its place. */
#define U (1.001 * 0x1p-24)

static layerops_context *ctx;

static npy load(const char *format, ...) __attribute__((format(printf, 1, 2)));
static npy load(const char *format, ...) {
  char name[128] = "ops/";
  va_list list;
  va_start(list, format);
  vsnprintf(name + 4, sizeof name - 4, format, list);
  va_end(list);
  npy a = npy_load(name);
  if (!a.data) exit(1); /* without a plan: the program has failed */
  return a;
}

static layerops_matrix matrix(const void *data, layerops_type type, int64_t rows, int64_t cols) {
  return layerops_host_matrix(data, type, rows, cols);
}

static layerops_matrix view(const npy *a) {
  int64_t cols = a->shape[a->rank - 1];
  return matrix(a->data, npy_i32(a) ? LAYEROPS_I32 : LAYEROPS_F32, a->count / cols, cols);
}

static void succeeded(layerops_status status, const char *what) {
  if (status == LAYEROPS_OK) return;
  ok(0, "%s: %s", what, layerops_last_error());
}

/* |got - want| <= U |want| + slack[i], or 2^-149 where that is more: the least f32 step. slack may
 * be NULL. */
static void compare(const char *what, const float *got, const npy *want, const double *slack) {
  const double *w = npy_f64(want);
  double worst = 0;
  int64_t place = 0;
  for (int64_t i = 0; i < want->count; i++) {
    double bound = fmax(U * fabs(w[i]) + (slack ? slack[i] : 0), 0x1p-149);
    double ratio = fabs(got[i] - w[i]) / bound;
    if (ratio <= worst) continue;
    if (isnan(ratio)) ratio = INFINITY;
    worst = ratio;
    place = i;
  }
  if (!ok(worst <= 1, "%s: %.2f of the bound", what, worst))
    diag("element %lld: %.9g, PyTorch has %.9g", (long long)place, (double)got[place], w[place]);
}

/* PyTorch forms 1 + erf, 1 + tanh and 1 - tanh^2 in double, which loses 2^-53 where they cancel: so
 * much its GELUs and their derivatives can be off at z. */
static double pytorchs_own(const char *act, double z) {
  return strncmp(act, "gelu", 4) ? 0 : 0x1p-52 * (1 + fabs(z)) * (1 + z * z);
}

/* ---- linear layers ---- */

struct linear {
  int m, k, n;
  npy x, w, b, dy, z;
};

static void forward(const struct linear *l, const char *act, float *y, float *z) {
  char what[128];
  npy want = load("linear_%dx%dx%d_%s_y", l->m, l->k, l->n, act);
  layerops_linear_forward_args args = {.x = view(&l->x), .w = view(&l->w)};
  args.bias = matrix(l->b.data, LAYEROPS_F32, 1, l->n);
  args.y = matrix(y, LAYEROPS_F32, l->m, l->n);
  args.preact = matrix(z, LAYEROPS_F32, l->m, l->n);
  args.activation = layerops_activation_from_name(act);
  snprintf(what, sizeof what, "linear %dx%dx%d %s", l->m, l->k, l->n, act);
  succeeded(layerops_linear_forward(ctx, &args), what);
  double *slack = malloc((size_t)want.count * sizeof *slack);
  for (int64_t i = 0; i < want.count; i++) slack[i] = pytorchs_own(act, npy_f64(&l->z)[i]);
  compare(what, y, &want, slack);
  strcat(what, ", pre-activation");
  compare(what, z, &l->z, NULL);
  npy_free(&want);
  free(slack);
}

/* What an error e[i] in dZ adds to a product with it: rows of e times |other|. */
static void spread(const struct linear *l, const double *e, double *dx, double *dw, double *db) {
  for (int i = 0; i < l->m; i++)
    for (int j = 0; j < l->n; j++) {
      double error = e[i * l->n + j];
      db[j] += error;
      for (int p = 0; p < l->k; p++) {
        dx[i * l->k + p] += error * fabs((double)npy_f32(&l->w)[j * l->k + p]);
        dw[j * l->k + p] += error * fabs((double)npy_f32(&l->x)[i * l->k + p]);
      }
    }
}

/* The derivative is taken at a saved value s that was rounded to f32: |s act''(s)| <= 2 for all
 * activations (tanh: d/dy (1 - y^2) y = -2 y^2), so dZ is off by 2 U |dy| besides its own rounding.
 */
static void backward(const struct linear *l, const char *act, const float *y, const float *z) {
  static const char *const outputs[] = {"dz", "dx", "dw", "db"};
  const int64_t count[] = {l->m * l->n, l->m * l->k, l->n * l->k, l->n};
  const int64_t rows[] = {l->m, l->m, l->n, 1};
  float *got[4];
  double *slack[4];
  npy want[4];
  layerops_matrix views[4];
  for (int i = 0; i < 4; i++) {
    want[i] = load("linear_%dx%dx%d_%s_%s", l->m, l->k, l->n, act, outputs[i]);
    got[i] = calloc((size_t)count[i], sizeof(float));
    slack[i] = calloc((size_t)count[i], sizeof(double));
    views[i] = matrix(got[i], LAYEROPS_F32, rows[i], count[i] / rows[i]);
  }
  layerops_activation kind = layerops_activation_from_name(act);
  layerops_linear_backward_args args = {
      .dy = view(&l->dy), .x = view(&l->x), .w = view(&l->w), .activation = kind};
  args.saved = matrix(layerops_activation_saves_input(kind) ? z : y, LAYEROPS_F32, l->m, l->n);
  args.dz = views[0], args.dx = views[1], args.dw = views[2], args.dbias = views[3];
  succeeded(layerops_linear_backward(ctx, &args), act);
  for (int64_t i = 0; i < count[0]; i++)
    slack[0][i] = U * (2 * fabs((double)npy_f32(&l->dy)[i]) + fabs(npy_f64(&want[0])[i]));
  spread(l, slack[0], slack[1], slack[2], slack[3]);
  for (int i = 0; i < 4; i++) {
    char what[128];
    snprintf(what, sizeof what, "linear %dx%dx%d %s, %s", l->m, l->k, l->n, act, outputs[i]);
    compare(what, got[i], &want[i], slack[i]);
    free(got[i]);
    free(slack[i]);
    npy_free(&want[i]);
  }
}

static void linear(int m, int k, int n) {
  struct linear l = {m,
                     k,
                     n,
                     load("linear_%dx%dx%d_x", m, k, n),
                     load("linear_%dx%dx%d_w", m, k, n),
                     load("linear_%dx%dx%d_b", m, k, n),
                     load("linear_%dx%dx%d_dy", m, k, n),
                     load("linear_%dx%dx%d_z", m, k, n)};
  float *y = malloc((size_t)(m * n) * sizeof *y), *z = malloc((size_t)(m * n) * sizeof *z);
  for (int32_t a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++) {
    forward(&l, layerops_activation_name(a), y, z);
    backward(&l, layerops_activation_name(a), y, z);
  }
  free(y);
  free(z);
  npy_free(&l.x), npy_free(&l.w), npy_free(&l.b), npy_free(&l.dy), npy_free(&l.z);
}

/* ---- activations, softmax ---- */

static void activation(const char *act) {
  npy x = load("activation_x"), dy = load("activation_dy");
  npy want_y = load("activation_%s_y", act), want_dx = load("activation_%s_dx", act);
  layerops_activation kind = layerops_activation_from_name(act);
  float y[70], dx[70];
  double slack[70];
  char what[64];
  layerops_activation_forward_args forward_args = {
      .x = view(&x), .y = matrix(y, LAYEROPS_F32, 7, 10), .activation = kind};
  succeeded(layerops_activation_forward(ctx, &forward_args), act);
  snprintf(what, sizeof what, "activation %s", act);
  for (int i = 0; i < 70; i++) slack[i] = pytorchs_own(act, (double)npy_f32(&x)[i]);
  compare(what, y, &want_y, slack);
  layerops_activation_backward_args backward_args = {
      .dy = view(&dy), .dx = matrix(dx, LAYEROPS_F32, 7, 10), .activation = kind};
  backward_args.saved = layerops_activation_saves_input(kind) ? view(&x) : forward_args.y;
  succeeded(layerops_activation_backward(ctx, &backward_args), act);
  /* Where the saved value is y, it is rounded; where it is x, it is exact. */
  if (backward_args.saved.host == y)
    for (int i = 0; i < 70; i++) slack[i] = 2 * U * fabs((double)npy_f32(&dy)[i]);
  strcat(what, ", derivative");
  compare(what, dx, &want_dx, slack);
  npy_free(&x), npy_free(&dy), npy_free(&want_y), npy_free(&want_dx);
}

static void softmax(int m, int n) {
  npy x = load("softmax_%dx%d_x", m, n);
  float *y = malloc((size_t)x.count * sizeof *y);
  for (int log = 0; log < 2; log++) {
    char what[64];
    npy want = load("softmax_%dx%d_%s", m, n, log ? "log" : "y");
    layerops_softmax_args args = {.x = view(&x), .y = matrix(y, LAYEROPS_F32, m, n), .log = log};
    snprintf(what, sizeof what, "%ssoftmax %dx%d", log ? "log " : "", m, n);
    succeeded(layerops_softmax(ctx, &args), what);
    compare(what, y, &want, NULL);
    npy_free(&want);
  }
  npy_free(&x);
  free(y);
}

/* ---- losses ---- */

static void cross_entropy(int m, int n, int probabilities) {
  const char *prefix = probabilities ? "p_" : "";
  npy x = load("cross_entropy_%dx%d_x", m, n);
  npy target = load("cross_entropy_%dx%d_%s", m, n, probabilities ? "p" : "labels");
  npy want_loss = load("cross_entropy_%dx%d_%sloss", m, n, prefix);
  npy want_dx = load("cross_entropy_%dx%d_%sdx", m, n, prefix);
  float loss = -1, *dx = malloc((size_t)x.count * sizeof *dx);
  char what[64];
  layerops_cross_entropy_args args = {.logits = view(&x)};
  args.loss = matrix(&loss, LAYEROPS_F32, 1, 1);
  args.dlogits = matrix(dx, LAYEROPS_F32, m, n);
  *(probabilities ? &args.probabilities : &args.labels) = view(&target);
  if (!probabilities) args.ignore_label = layerops_value(-100);
  snprintf(what, sizeof what, "cross-entropy %dx%d with %s", m, n,
           probabilities ? "probabilities" : "labels");
  succeeded(layerops_cross_entropy(ctx, &args), what);
  compare(what, &loss, &want_loss, NULL);
  strcat(what, ", gradient");
  compare(what, dx, &want_dx, NULL);
  npy_free(&x), npy_free(&target), npy_free(&want_loss), npy_free(&want_dx);
  free(dx);
}

static void mse(int m, int n) {
  npy y = load("mse_%dx%d_y", m, n), target = load("mse_%dx%d_target", m, n);
  npy want_loss = load("mse_%dx%d_loss", m, n), want_dy = load("mse_%dx%d_dy", m, n);
  float loss = -1, *dy = malloc((size_t)y.count * sizeof *dy);
  char what[64];
  layerops_mse_args args = {.y = view(&y), .target = view(&target)};
  args.loss = matrix(&loss, LAYEROPS_F32, 1, 1);
  args.dy = matrix(dy, LAYEROPS_F32, m, n);
  snprintf(what, sizeof what, "mean squared error %dx%d", m, n);
  succeeded(layerops_mse(ctx, &args), what);
  compare(what, &loss, &want_loss, NULL);
  strcat(what, ", gradient");
  compare(what, dy, &want_dy, NULL);
  npy_free(&y), npy_free(&target), npy_free(&want_loss), npy_free(&want_dy);
  free(dy);
}

/* ---- optimizers ---- */

enum { WEIGHTS = 5 * 13 };

static layerops_status sgd(layerops_matrix w, layerops_matrix g, layerops_matrix state[2],
                           const char *name) {
  layerops_sgd_args args = {.w = w, .g = g, .lr = layerops_value(0.1)};
  if (strcmp(name, "sgd")) {
    args.velocity = state[0];
    args.momentum = layerops_value(0.9);
    args.weight_decay = layerops_value(0.01);
    args.nesterov = !strcmp(name, "sgd_nesterov");
  }
  return layerops_sgd(ctx, &args);
}

static layerops_status adam(layerops_matrix w, layerops_matrix g, layerops_matrix state[2],
                            const char *name, int step) {
  layerops_adam_args args = {.w = w, .g = g, .m = state[0], .v = state[1]};
  args.lr = layerops_value(0.01);
  args.step = layerops_value(step);
  if (strcmp(name, "adam")) args.weight_decay = layerops_value(0.1);
  args.decoupled = !strcmp(name, "adamw");
  return layerops_adam(ctx, &args);
}

/* Weights and their states are stored in f32 after each of three steps. |w| <= 1 and the sums of
 * gradients stay below 3, so three steps round w by 4 U and the state, whose part of a step is at
 * most lr 0.1 of it, moves w by less than 3 U. */
static void optimizer(const char *name) {
  npy first = load("optimizer_w"), g = load("optimizer_g"), want = load("optimizer_%s_w", name);
  float w[WEIGHTS], states[2][WEIGHTS] = {{0}}, steps[3 * WEIGHTS];
  double slack[3 * WEIGHTS];
  memcpy(w, first.data, sizeof w);
  layerops_matrix state[2] = {matrix(states[0], LAYEROPS_F32, 5, 13),
                              matrix(states[1], LAYEROPS_F32, 5, 13)};
  for (int step = 0; step < 3; step++) {
    layerops_matrix gradient = matrix(npy_f32(&g) + step * WEIGHTS, LAYEROPS_F32, 5, 13);
    layerops_matrix weights = matrix(w, LAYEROPS_F32, 5, 13);
    succeeded(name[0] == 's' ? sgd(weights, gradient, state, name)
                             : adam(weights, gradient, state, name, step + 1),
              name);
    memcpy(steps + step * WEIGHTS, w, sizeof w);
  }
  for (int i = 0; i < 3 * WEIGHTS; i++) slack[i] = 7 * U;
  compare(name, steps, &want, slack);
  npy_free(&first), npy_free(&g), npy_free(&want);
}

/* ---- 8-bit floats ---- */

static void cast(layerops_type from, const void *x, layerops_type to, void *y, int64_t n) {
  layerops_copy_args args = {.x = matrix(x, from, 1, n), .y = matrix(y, to, 1, n)};
  succeeded(layerops_copy(ctx, &args), "copy");
}

/* All codes, and the code of each of many numbers. */
static void f8(layerops_type type, const char *name) {
  npy values = load("../f8/%s_values", name), x = load("../f8/x"), want = load("../f8/x_%s", name);
  uint8_t codes[256], *got = malloc((size_t)x.count);
  float decoded[256];
  int64_t wrong = 0, place = 0;
  for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
  cast(type, codes, LAYEROPS_F32, decoded, 256);
  for (int i = 0; i < 256; i++) {
    const float v = npy_f32(&values)[i];
    wrong += isnan(v) ? !isnan(decoded[i]) : memcmp(&v, &decoded[i], sizeof v) != 0;
  }
  ok(values.count == 256 && !wrong, "%s: the values of all codes (%lld are wrong)", name,
     (long long)wrong);
  cast(LAYEROPS_F32, x.data, type, got, x.count);
  wrong = 0;
  for (int64_t i = 0; i < x.count; i++) {
    const int nan = isnan(npy_f32(&x)[i]);
    if ((nan ? got[i] & 0x7f : got[i]) == npy_i32(&want)[i]) continue;
    if (!wrong++) place = i;
  }
  if (!ok(x.count > 5000 && !wrong, "%s: the codes of %lld numbers", name, (long long)x.count))
    diag("%lld differ; the first: %a is %02x, not %02x", (long long)wrong,
         (double)npy_f32(&x)[place], got[place], (unsigned)npy_i32(&want)[place]);
  free(got);
  npy_free(&values), npy_free(&x), npy_free(&want);
}

int main(void) {
  static const char *const optimizers[] = {"sgd",  "sgd_momentum", "sgd_nesterov",
                                           "adam", "adam_decay",   "adamw"};
  if (!ok(layerops_open("reference", &ctx) == LAYEROPS_OK, "the reference opens")) return done();
  linear(7, 5, 3);
  linear(17, 33, 65);
  linear(1, 1, 1);
  for (int32_t a = 0; a < LAYEROPS_ACTIVATION_COUNT; a++) activation(layerops_activation_name(a));
  for (int i = 0; i < 2; i++) {
    softmax(i ? 17 : 7, i ? 65 : 5);
    cross_entropy(i ? 17 : 7, i ? 65 : 5, 0);
    cross_entropy(i ? 17 : 7, i ? 65 : 5, 1);
    mse(i ? 17 : 7, i ? 33 : 5);
  }
  for (int i = 0; i < 6; i++) optimizer(optimizers[i]);
  f8(LAYEROPS_F8E4M3, "e4m3");
  f8(LAYEROPS_F8E5M2, "e5m2");
  layerops_close(ctx);
  return done();
}
