/* A program outside the project, in the subset of C99 and C++11: one layer on the CPU. */
#include <layerops/layerops.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, layerops_last_error());
  return 1;
}

int main(void) {
  const float x[] = {1, -2, 3}, w[] = {1, 2, 3, -1, -2, -3}, b[] = {1, -1};
  float y[2];
  layerops_context *ctx;
  layerops_linear_args args;

  if (layerops_version() != LAYEROPS_VERSION_NUMBER) return fail("version");
  if (layerops_open("cpu", &ctx) != LAYEROPS_OK) return fail("open");
  memset(&args, 0, sizeof args);
  args.x = layerops_host_matrix(x, LAYEROPS_F32, 1, 3);
  args.w = layerops_host_matrix(w, LAYEROPS_F32, 2, 3);
  args.bias = layerops_host_matrix(b, LAYEROPS_F32, 1, 2);
  args.y = layerops_host_matrix(y, LAYEROPS_F32, 1, 2);
  args.activation = LAYEROPS_RELU;
  if (layerops_linear_forward(ctx, &args) != LAYEROPS_OK) return fail("linear_forward");
  if (layerops_sync(ctx) != LAYEROPS_OK) return fail("sync");
  layerops_close(ctx);
  if (y[0] != 7 || y[1] != 0) {
    fprintf(stderr, "y = %g %g, expected 7 0\n", (double)y[0], (double)y[1]);
    return 1;
  }
  return 0;
}
