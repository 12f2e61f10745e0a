/* Every kernel for block-sparse products of 16-bit types by name (LAYEROPS_CUDA_KERNEL), in both
 * directions and for the gradient of the values: numbers whose products and sums are exact must
 * give the reference's bits, and whatever follows the sums the bits of every other kernel. */
#include <config.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

enum { FORWARD, DGRAD, WGRAD };

/* The sides of blocks that a kernel takes, along the outputs (of wgrad: their height) and along k,
 * are at least these, and at most `most`; aligned: it wants rows of X on borders of 16 bytes. */
typedef struct kernel {
  const char *name;
  int from; /* architecture */
  int out, k, most;
  bool aligned;
} kernel;

static const kernel line_kernels[] = {
    {"bsr_wgmma_256x128", 90, 128, 64, 128, true},
    {"bsr_wgmma_256x64", 90, 64, 64, 128, true},
    {"bsr_wgmma_128x64", 90, 64, 64, 128, true},
    {"bsr_boxes", 90, 16, 16, 128, true},
    {"bsr_group", 80, 16, 16, 128, true},
    {"bsr_slab", 80, 8, 8, 8, true},
    {"bsr_rings_32x32", 80, 32, 8, 128, true},
    {"bsr_rings_64x32", 80, 32, 8, 128, true},
    {"bsr_rings_32x16", 80, 16, 8, 16, true},
    {"bsr_direct_32x32", 80, 32, 8, 128, false},
    {"bsr_direct_32x32_w8", 80, 32, 8, 128, false},
    {"bsr_direct_32x32_w2", 80, 32, 8, 128, false},
    {"bsr_direct_64x16", 80, 16, 8, 16, false},
    {"bsr_direct_32x8", 80, 8, 8, 8, false},
    {NULL},
};
static const kernel wgrad_kernels[] = {
    {"bsr_wgrad_wgmma", 90, 64, 64, 128, true},
    {"bsr_wgrad_boxes", 90, 16, 16, 128, true},
    {"bsr_wgrad", 80, 16, 16, 128, true},
    {"bsr_wgrad_direct", 80, 8, 8, 128, false},
    {NULL},
};

/* What follows the sums. */
typedef struct ending {
  const char *name;
  layerops_activation activation;    /* dgrad: whose derivative */
  double alpha, beta;                /* beta: wgrad's */
  bool wide, bias, residual, preact; /* wide: f32 is stored */
  int room;                          /* elements between rows of the result */
} ending;

static const ending forward_endings[] = {
    {"straight", .alpha = 1},
    {"bias, ReLU", .alpha = 1, .activation = LAYEROPS_RELU, .bias = true, .room = 8},
    {"bias, ReLU, odd", .alpha = 0.3, .activation = LAYEROPS_RELU, .bias = true, .room = 3},
    {"bias, GELU", .alpha = 0.01, .activation = LAYEROPS_GELU, .bias = true},
    {"SiLU", .alpha = 0.02, .activation = LAYEROPS_SILU},
    {"sigmoid, residual", .alpha = 0.01, .activation = LAYEROPS_SIGMOID, .residual = true},
    {"bias, tanh, preact", .alpha = 0.01, .activation = LAYEROPS_TANH, .bias = true, .preact = true,
     .room = 1},
    {"bias, residual, f32", .alpha = 1, .wide = true, .bias = true, .residual = true},
    {"nothing of the sums", .alpha = 0, .bias = true},
    {NULL},
};
static const ending dgrad_endings[] = {
    {"straight", .alpha = 1},
    {"derivative of ReLU, f32", .alpha = 1, .activation = LAYEROPS_RELU, .wide = true},
    {"derivative of tanh, odd", .alpha = 1, .activation = LAYEROPS_TANH, .room = 1},
    {NULL},
};
static const ending wgrad_endings[] = {
    {"straight", .alpha = 1},
    {"added to, odd", .alpha = 1, .beta = 1, .room = 3},
    {"half added to, f32", .alpha = 1, .beta = 0.5, .wide = true},
    {NULL},
};
static const struct {
  const char *name;
  const kernel *kernels;
  const ending *endings;
} products[] = {{"forward", line_kernels, forward_endings},
                {"dgrad", line_kernels, dgrad_endings},
                {"wgrad", wgrad_kernels, wgrad_endings}};

/* X [m, k], W [n, k] in blocks. */
typedef struct shape {
  int64_t height, width, m, n, k;
  int percent; /* of blocks that are kept */
  int room;    /* elements between rows of X and dY */
} shape;

static const shape shapes[] = {
    {64, 64, 1, 64, 64, 100, 0},      {64, 64, 130, 200, 456, 40, 0},
    {64, 64, 515, 456, 200, 60, 8},   {64, 64, 7, 256, 320, 0, 0},
    {64, 64, 1030, 4168, 256, 10, 0}, {128, 128, 300, 392, 1000, 50, 0},
    {128, 128, 67, 128, 256, 100, 8}, {128, 64, 258, 520, 456, 40, 0},
    {64, 128, 258, 456, 520, 40, 0},  {32, 32, 130, 200, 168, 40, 0},
    {32, 32, 1030, 2088, 512, 10, 0}, {64, 32, 300, 200, 456, 40, 8},
    {32, 128, 258, 168, 520, 40, 0},  {16, 64, 65, 96, 256, 40, 0},
    {16, 16, 33, 104, 88, 50, 0},     {8, 8, 33, 50, 41, 50, 1},
    {64, 64, 33, 130, 131, 50, 1},
};

/* Small whole numbers. */
static unsigned seed;
static int whole(void) {
  seed = seed * 1664525u + 1013904223u;
  return (int)(seed >> 28) - 8;
}
static uint16_t narrow(float f, layerops_type type) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if (type == LAYEROPS_BF16 || f == 0) return (uint16_t)(u >> 16);
  return (uint16_t)((u >> 16 & 0x8000) | (((u >> 13) & 0x3ffff) - (112 << 10))); /* the bias */
}

/* A matrix in host memory, and how it was filled: what stands between its rows too. */
typedef struct operand {
  layerops_matrix view;
  char *memory, *before;
  size_t bytes;
} operand;

static operand make(layerops_type type, int64_t rows, int64_t cols, int room) {
  const int64_t stride = cols + room, count = rows * stride;
  const size_t size = layerops_type_size(type);
  operand o = {.bytes = (size_t)count * size};
  o.memory = malloc(o.bytes + 1);
  o.before = malloc(o.bytes + 1);
  for (int64_t i = 0; i < count; i++) {
    const float f = (float)whole();
    const uint16_t h = narrow(f, type);
    memcpy(o.before + (size_t)i * size, type == LAYEROPS_F32 ? (const void *)&f : &h, size);
  }
  memcpy(o.memory, o.before, o.bytes);
  o.view = layerops_host_matrix(o.memory, type, rows, cols);
  o.view.stride = stride;
  return o;
}
static void drop(operand *o) {
  free(o->memory);
  free(o->before);
}

typedef struct layer {
  shape s;
  layerops_type type;
  operand x, dy;
  uint8_t *mask;
  uint16_t *values;
  int64_t count;
} layer;

static layer make_layer(shape s, layerops_type type) {
  const int64_t rows = (s.n + s.height - 1) / s.height, cols = (s.k + s.width - 1) / s.width;
  layer l = {.s = s, .type = type};
  seed = (unsigned)(s.m + s.n);
  l.x = make(type, s.m, s.k, s.room);
  l.dy = make(type, s.m, s.n, s.room);
  l.mask = malloc((size_t)(rows * cols));
  for (int64_t i = 0; i < rows * cols; i++)
    l.count += l.mask[i] = (whole() + 8) * 100 < s.percent * 16;
  const int64_t elements = l.count * s.height * s.width;
  l.values = malloc((size_t)elements * 2 + 1);
  for (int64_t i = 0; i < elements; i++) l.values[i] = narrow((float)whole(), type);
  return l;
}
static void drop_layer(layer *l) {
  drop(&l->x);
  drop(&l->dy);
  free(l->mask);
  free(l->values);
}
static layerops_bsr *make_weights(layerops_context *ctx, const layer *l) {
  layerops_bsr *w = NULL;
  const layerops_bsr_args args = {.rows = l->s.n,
                                  .cols = l->s.k,
                                  .block = l->s.height,
                                  .width = l->s.width,
                                  .values = l->values,
                                  .type = l->type,
                                  .mask = l->mask};
  if (layerops_bsr_create(ctx, &args, &w)) diag("%s", layerops_last_error());
  return w;
}

/* The result, and the pre-activation or what the derivative is of. */
typedef struct result {
  operand to, beside;
  layerops_status status;
} result;

static layerops_status forward(layerops_context *ctx, const layer *l, const layerops_bsr *w,
                               const ending *e, result *r) {
  operand bias = make(LAYEROPS_F32, 1, l->s.n, 0);
  operand residual = make(l->type, l->s.m, l->s.n, e->room);
  r->to = make(e->wide ? LAYEROPS_F32 : l->type, l->s.m, l->s.n, e->room);
  r->beside = make(LAYEROPS_F32, l->s.m, l->s.n, e->room);
  layerops_bsr_linear_forward_args args = {.x = l->x.view,
                                           .w = w,
                                           .y = r->to.view,
                                           .activation = e->activation,
                                           .alpha = layerops_value(e->alpha)};
  if (e->bias) args.bias = bias.view;
  if (e->residual) args.residual = residual.view;
  if (e->preact) args.preact = r->beside.view;
  const layerops_status status = layerops_bsr_linear_forward(ctx, &args);
  drop(&bias);
  drop(&residual);
  return status;
}

static layerops_status dgrad(layerops_context *ctx, const layer *l, const layerops_bsr *w,
                             const ending *e, result *r) {
  r->to = make(e->wide ? LAYEROPS_F32 : l->type, l->s.m, l->s.k, e->room);
  r->beside = make(r->to.view.type, l->s.m, l->s.k, e->room);
  layerops_bsr_linear_backward_args args = {
      .dy = l->dy.view, .w = w, .dx = r->to.view, .dx_activation = e->activation};
  if (e->activation) args.dx_saved = r->beside.view;
  return layerops_bsr_linear_backward(ctx, &args);
}

static layerops_status wgrad(layerops_context *ctx, const layer *l, const layerops_bsr *w,
                             const ending *e, result *r) {
  r->to = make(e->wide ? LAYEROPS_F32 : l->type, l->count * l->s.height, l->s.width, e->room);
  r->beside = make(LAYEROPS_F32, 1, 1, 0);
  layerops_bsr_linear_backward_args args = {.dy = l->dy.view, .x = l->x.view, .w = w};
  args.dw = r->to.view;
  if (e->beta) args.beta = layerops_value(e->beta);
  return layerops_bsr_linear_backward(ctx, &args);
}

static result run(layerops_context *ctx, const layer *l, const layerops_bsr *w, int product,
                  const ending *e) {
  static layerops_status (*const functions[])(layerops_context *, const layer *,
                                              const layerops_bsr *, const ending *,
                                              result *) = {forward, dgrad, wgrad};
  result r = {0};
  seed = 7;
  r.status = functions[product](ctx, l, w, e, &r);
  return r;
}
static void drop_result(result *r) {
  drop(&r->to);
  drop(&r->beside);
}
static bool same(const result *a, const result *b) {
  return !memcmp(a->to.memory, b->to.memory, a->to.bytes) &&
         !memcmp(a->beside.memory, b->beside.memory, a->beside.bytes);
}

static bool is_exact(int product, const ending *e) {
  if (product == DGRAD && e->activation > LAYEROPS_RELU) return false;
  return e->activation <= LAYEROPS_RELU && (e->alpha == 1 || e->alpha == 0);
}

static bool takes(const kernel *k, const shape *s, int product, int device) {
  const int64_t out = product == DGRAD ? s->width : s->height;
  const int64_t along = product == DGRAD ? s->height : s->width;
  if (device < k->from || out < k->out || out > k->most || along < k->k) return false;
  const int64_t row = product == FORWARD ? s->k : s->n;
  const bool aligned = (row + s->room) % 8 == 0 && (product != WGRAD || (s->k + s->room) % 8 == 0);
  return s->percent && (aligned || !k->aligned);
}

static layerops_context *open_with(const char *name) {
  layerops_context *ctx = NULL;
  setenv("LAYEROPS_CUDA_KERNEL", name, 1);
  const layerops_status status = layerops_open("cuda", &ctx);
  unsetenv("LAYEROPS_CUDA_KERNEL");
  if (status) diag("%s", layerops_last_error());
  return ctx;
}

typedef struct sides {
  layerops_bsr *on_device, *on_reference;
  layerops_context *reference;
} sides;

static void try_kernel(const kernel *k, const layer *l, const sides *w, int product,
                       const ending *e, const result *wanted, result *first) {
  layerops_context *ctx = open_with(k->name);
  if (!ctx) {
    ok(0, "a context for %s", k->name);
    return;
  }
  result got = run(ctx, l, w->on_device, product, e);
  const bool named = !got.status && !strcmp(layerops_last_kernel(ctx), k->name);
  const result *against = is_exact(product, e) ? wanted : first->to.memory ? first : &got;
  ok(named && same(&got, against),
     "%s, %s %s: %lld samples, W %lld x %lld in blocks of %lld x %lld, %s%s%s", k->name,
     products[product].name, layerops_type_name(l->type), (long long)l->s.m, (long long)l->s.n,
     (long long)l->s.k, (long long)l->s.height, (long long)l->s.width, e->name, named ? "" : ": ",
     got.status ? layerops_last_error()
     : named    ? ""
                : layerops_last_kernel(ctx));
  if (first->to.memory)
    drop_result(&got);
  else
    *first = got;
  layerops_close(ctx);
}

static void try_ending(const layer *l, const sides *w, int product, const ending *e, int device,
                       const char *only) {
  result wanted = {0}, first = {0};
  if (is_exact(product, e)) {
    wanted = run(w->reference, l, w->on_reference, product, e);
    if (!ok(!wanted.status, "the reference, %s, %s", products[product].name, e->name))
      diag("%s", layerops_last_error());
  }
  for (const kernel *k = products[product].kernels; k->name; k++)
    if (takes(k, &l->s, product, device) && !strncmp(k->name, only, strlen(only)))
      try_kernel(k, l, w, product, e, &wanted, &first);
  drop_result(&wanted);
  drop_result(&first);
}

static void try_shape(shape s, layerops_type type, int device, const char *only) {
  layer l = make_layer(s, type);
  layerops_context *ctx = NULL;
  sides w = {0};
  if (layerops_open("cuda", &ctx) || layerops_open("reference", &w.reference))
    diag("%s", layerops_last_error());
  w.on_device = make_weights(ctx, &l);
  w.on_reference = make_weights(w.reference, &l);
  if (ok(w.on_device && w.on_reference, "weights"))
    for (int product = FORWARD; product <= WGRAD; product++)
      for (const ending *e = products[product].endings; e->name; e++)
        try_ending(&l, &w, product, e, device, only);
  layerops_bsr_destroy(w.on_device);
  layerops_bsr_destroy(w.on_reference);
  layerops_close(w.reference);
  layerops_close(ctx);
  drop_layer(&l);
}

static int device_architecture(const char **why_not) {
  static layerops_device_info list[64];
  size_t count = 0;
  *why_not = "cuda is not listed";
  if (layerops_devices(list, 64, &count)) *why_not = layerops_last_error();
  for (size_t i = 0; i < count && i < 64; i++)
    if (!strncmp(list[i].name, "cuda", 4)) {
      *why_not = list[i].available ? NULL : list[i].reason;
      return list[i].available ? atoi(list[i].isa + strlen("sm_")) : 0;
    }
  return 0;
}

/* An argument: only the kernels whose name begins with it. */
int main(int argc, char **argv) {
  const char *reason, *required = getenv("LAYEROPS_TEST_REQUIRE");
  const int device = device_architecture(&reason);
  if (reason && required && strstr(required, "cuda"))
    ok(0, "cuda is required, but absent: %s", reason);
  else if (reason)
    skip("block-sparse kernels", "%s", reason);
  for (size_t i = 0; !reason && i < sizeof shapes / sizeof *shapes; i++) {
    try_shape(shapes[i], LAYEROPS_F16, device, argc > 1 ? argv[1] : "");
    try_shape(shapes[i], LAYEROPS_BF16, device, argc > 1 ? argv[1] : "");
  }
  return done();
}
