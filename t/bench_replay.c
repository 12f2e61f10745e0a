/* Lines of LAYEROPS_VERBOSE: each operation's line, read and repeated, prints the same line again.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "bench/replay.h"
#include "bench/timing.h"
#include "t/tap.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What the call says between the kernel and the time. */
static const struct {
  const char *op, *rest;
  double flops, bytes;
} lines[] = {
    {"gemm", "m=5 n=6 k=7 batch=3 type=f32 out=f32 trans=tn", 1260, 3 * 4 * (35 + 42 + 30)},
    {"gemm", "m=5 n=6 k=7 batch=1 type=f16 out=f32 trans=nt", 420, 2 * (35 + 42) + 4 * 30},
    {"gemm", "m=5 n=6 k=7 batch=1 type=u8 out=i32 trans=nt", 420, 35 + 42 + 4 * 30},
    {"linear_forward", "m=4 n=3 k=9 batch=1 type=u8 out=f32 trans=nt activation=relu packed=1", 216,
     36 + 27 + 4 * 12},
    {"gemm", "m=5 n=6 k=7 batch=1 type=f8e4m3 out=f16 trans=nt", 420, 35 + 42 + 2 * 30},
    {"gemm", "m=5 n=6 k=7 batch=2 type=f8e4m3 w=f8e5m2 out=f32 trans=tt fast_accum=1", 840,
     2 * (35 + 42 + 4 * 30)},
    {"gemm", "m=5 n=6 k=7 batch=1 type=f16 w=i8 out=f16 trans=nn", 420, 2 * 35 + 42 + 2 * 30},
    {"linear_forward",
     "m=4 n=3 k=9 batch=1 type=f8e5m2 out=f8e4m3 trans=nt activation=relu packed=1 fast_accum=1",
     216, 36 + 27 + 12},
    {"linear_forward", "m=4 n=3 k=9 batch=1 type=bf16 w=f8e5m2 out=bf16 trans=nt activation=silu",
     216, 2 * 36 + 27 + 2 * 12},
    {"linear_forward", "m=4 n=3 k=9 batch=1 type=f32 out=f32 trans=nt activation=gelu", 216,
     4 * (36 + 27 + 12)},
    {"linear_forward", "m=4 n=3 k=9 batch=1 type=bf16 out=bf16 trans=nt activation=none", 216,
     2 * (36 + 27 + 12)},
    {"linear_backward", "m=4 n=3 k=9 batch=1 type=f32 out=f32 wants=xwb activation=relu", 432,
     4 * (12 + 2 * (36 + 27))},
    {"linear_backward", "m=4 n=3 k=9 batch=1 type=f32 out=f32 wants=wb activation=none", 216,
     4 * (12 + 36 + 27)},
    {"linear_backward", "m=4 n=3 k=9 batch=1 type=f32 out=f32 wants=x activation=tanh", 216,
     4 * (12 + 36 + 27)},
    {"linear_forward", "m=4 n=3 k=9 batch=1 type=f32 out=f32 trans=nt activation=relu packed=1",
     216, 4 * (36 + 27 + 12)},
    {"linear_backward", "m=4 n=3 k=9 batch=1 type=f32 out=f32 wants=xw activation=none packed=1",
     432, 4 * (12 + 2 * (36 + 27))},
    {"activation_forward", "m=4 n=3 k=0 batch=1 type=f32 out=f16 activation=silu", 12,
     12 * (4 + 2)},
    {"activation_backward", "m=4 n=3 k=0 batch=1 type=f32 out=f32 activation=sigmoid", 24, 144},
    {"softmax", "m=4 n=3 k=0 batch=1 type=f32 out=f32 log=1", 48, 96},
    {"cross_entropy", "m=4 n=3 k=0 batch=1 type=f32 out=f32 truth=labels", 72, 96},
    {"cross_entropy", "m=4 n=3 k=0 batch=1 type=f32 out=f32 truth=probabilities", 72, 96},
    {"mse", "m=4 n=3 k=0 batch=1 type=f32 out=f32", 48, 144},
    {"sgd", "m=4 n=3 k=0 batch=1 type=f32 out=f32", 48, 144},
    {"adam", "m=4 n=3 k=0 batch=1 type=f32 out=f32", 144, 12 * 4 * 7},
    {"fill", "m=4 n=3 k=0 batch=1 type=f16 out=f16", 0, 24},
    {"copy", "m=4 n=3 k=0 batch=1 type=f32 out=bf16", 0, 72},
    {"copy", "m=4 n=3 k=0 batch=1 type=i32 out=i8", 0, 60},
    {"copy", "m=4 n=3 k=0 batch=1 type=f8e5m2 out=f8e4m3", 0, 24},
    {"transpose", "m=4 n=3 k=0 batch=1 type=u8 out=u8", 0, 24},
    {"gather", "m=4 n=3 k=0 batch=1 type=f32 out=f32", 0, 96},
    {"bsr_linear_forward",
     "m=4 n=32 k=64 batch=1 type=f32 out=f32 block=16 blocks=5 activation=relu", 10240,
     4 * (256 + 128) + 4 * 5 * 256},
    {"bsr_linear_forward",
     "m=4 n=30 k=61 batch=1 type=f16 w=i8 out=f32 block=8 width=16 blocks=5 activation=relu "
     "layout=features gate=1",
     5120, 2 * 244 + 5 * 128 + 4 * 120},
    {"bsr_linear_backward",
     "m=4 n=32 k=64 batch=1 type=f32 out=f32 wants=xwbg block=8 blocks=5 activation=relu gate=1",
     5120, 4 * (128 + 2 * (256 + 320))},
    {"bsr_linear_backward",
     "m=4 n=31 k=64 batch=1 type=f32 out=f32 wants=w block=8 width=4 blocks=5 activation=none "
     "layout=features",
     1280, 4 * (124 + 256 + 160)},
};

static char printed[1024];

static void keep_line(void *user, int level, const char *line) {
  (void)user;
  if (level == 1) snprintf(printed, sizeof printed, "%s", line);
}

static layerops_context *open_reference(void) {
  layerops_open_args args = {.device = "reference", .verbose = 1, .log = keep_line};
  layerops_context *ctx = NULL;
  return layerops_open_with(&args, &ctx) == LAYEROPS_OK ? ctx : NULL;
}

/* "layerops: OP device=reference kernel=K REST ms=T gflops=G" without K, T and G. */
static void plain_line(const char *line, char *plain, size_t size) {
  const char *kernel = strstr(line, " kernel="), *shape = strstr(line, " m=");
  const char *time = strstr(line, " ms=");
  if (!kernel || !shape || !time) {
    snprintf(plain, size, "?");
    return;
  }
  snprintf(plain, size, "%.*s%.*s", (int)(kernel - line), line, (int)(time - shape), shape);
}

static void test_line(layerops_context *ctx, size_t i) {
  char text[512], wanted[512], got[512], why[256] = "";
  struct bench_line line;
  struct bench_call call;
  double flops, bytes;
  snprintf(text, sizeof text, "layerops: %s device=reference kernel=k %s ms=1.5 gflops=2",
           lines[i].op, lines[i].rest);
  if (!ok(bench_line_read(text, &line, why, sizeof why), "%s is read %s", text, why)) return;
  bench_line_work(&line, &flops, &bytes);
  ok(flops == lines[i].flops && bytes == lines[i].bytes, "%s: %g flops, %g bytes", lines[i].op,
     flops, bytes);
  layerops_status status = bench_line_call(ctx, &line, &call);
  *printed = 0;
  if (status == LAYEROPS_OK && !bench_call_run(&call, 1)) status = call.failed;
  if (status == LAYEROPS_ERROR_UNSUPPORTED) {
    skip(lines[i].op, "%s", layerops_last_error());
  } else {
    plain_line(text, wanted, sizeof wanted);
    plain_line(printed, got, sizeof got);
    ok(status == LAYEROPS_OK && !strcmp(wanted, got), "it prints: %s (%s)", printed,
       status == LAYEROPS_OK ? "done" : layerops_last_error());
  }
  bench_call_free(&call);
}

static const struct {
  const char *text, *why;
} wrong_lines[] = {
    {"", "not a line of LAYEROPS_VERBOSE"},
    {"some text", "not a line of LAYEROPS_VERBOSE"},
    {"layerops: ", "'' is not an operation"},
    {"layerops: conv device=cpu", "'conv' is not an operation"},
    {"layerops: gemm device=cpu m=-1 type=f32 out=f32", "'m=-1' is not understood"},
    {"layerops: gemm device=cpu m=1e3 type=f32 out=f32", "'m=1e3' is not understood"},
    {"layerops: gemm device=cpu m=99999999999999999999 type=f32", "'m=9999"},
    {"layerops: gemm device=cpu m type=f32 out=f32", "'m' is not understood"},
    {"layerops: gemm device=cpu type=f64 out=f32", "'type=f64' is not understood"},
    {"layerops: gemm device=cpu type=f32 out=f32 activation=swish", "'activation=swish' is not"},
    {"layerops: gemm device=cpu type=f32 out=f32 colour=red", "'colour=red' is not understood"},
    {"layerops: gemm device=a-name-that-is-much-longer-than-any-device type=f32 out=f32",
     "'device=a-name"},
    {"layerops: gemm device=cpu m=1", "device, type or out is missing"},
    {"layerops: gemm type=f32 out=f32 m=1", "device, type or out is missing"},
};

static void test_wrong_lines(void) {
  struct bench_line line;
  char why[256];
  for (size_t i = 0; i < COUNT(wrong_lines); i++) {
    *why = 0;
    ok(!bench_line_read(wrong_lines[i].text, &line, why, sizeof why) &&
           strstr(why, wrong_lines[i].why),
       "wrong line %zu: %s", i, why);
  }
}

/* Lines that can be read but not repeated. */
static const char *const refused[] = {
    "layerops: bsr_linear_forward device=reference m=1 n=32 k=32 type=f32 out=f32 block=0 blocks=1",
    "layerops: bsr_linear_backward device=reference m=1 n=33 k=32 type=f32 out=f32 block=16 "
    "blocks=7",
    "layerops: bsr_linear_forward device=reference m=1 n=32 k=32 type=f32 out=f32 block=16 "
    "blocks=5",
    "layerops: fill device=reference m=1099511627776 n=1099511627776 type=f32 out=f32",
    "layerops: gemm device=reference m=1099511627776 n=1 k=1099511627776 type=f32 out=f32 trans=nn",
};

static void test_refused(layerops_context *ctx) {
  struct bench_line line;
  struct bench_call call;
  char why[256] = "";
  for (size_t i = 0; i < COUNT(refused); i++) {
    bool read = bench_line_read(refused[i], &line, why, sizeof why);
    layerops_status status = read ? bench_line_call(ctx, &line, &call) : LAYEROPS_OK;
    ok(read && status != LAYEROPS_OK, "refused: %s: %s", refused[i], layerops_status_text(status));
    if (read) bench_call_free(&call);
  }
}

int main(void) {
  layerops_context *ctx = open_reference();
  if (!ok(ctx != NULL, "the reference opens")) return done();
  for (size_t i = 0; i < COUNT(lines); i++) test_line(ctx, i);
  test_wrong_lines();
  test_refused(ctx);
  layerops_close(ctx);
  return done();
}
