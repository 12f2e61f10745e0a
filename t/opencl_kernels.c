/* Every kernel of every program compiles, for each class of devices. A class is chosen once in a
 * process, so each has one of its own. */
#include <config.h>

#include "backends/opencl/opencl.h"
#include "t/devices.h"

enum { MOST_KERNELS = 5 };

typedef struct program {
  lo_cl_source source;
  const char *class; /* how its name begins; NULL: all */
  const char *kernels[MOST_KERNELS];
  int numbers[24][LO_CL_NUMBERS]; /* up to the first of zeros */
} program;

/* KIND: 4 * type + 2 * (A along k) + (B along k). */
#define KINDS(...)                                                                                 \
  {__VA_ARGS__, 4}, {__VA_ARGS__, 5}, {__VA_ARGS__, 6}, {__VA_ARGS__, 7}, {__VA_ARGS__, 8},        \
      {__VA_ARGS__, 9}, {__VA_ARGS__, 10}, {__VA_ARGS__, 11}, {__VA_ARGS__, 12},                   \
      {__VA_ARGS__, 13}, {__VA_ARGS__, 14}, {                                                      \
    __VA_ARGS__, 15                                                                                \
  }

/* KIND of block-sparse products: 16 * type of the samples + that of W, the same or i8. */
#define SAMPLES(...)                                                                               \
  {__VA_ARGS__, 17}, {__VA_ARGS__, 34}, {__VA_ARGS__, 51}, {__VA_ARGS__, 21}, {__VA_ARGS__, 37}, { \
    __VA_ARGS__, 53                                                                                \
  }

static const program programs[] = {
    {LO_CL_PACK, "cpu16", {"pack"}, {{8}, {16}, {32}, {48}, {64}, {128}}},
    {LO_CL_PACK, "cpu8", {"pack"}, {{4}, {8}, {16}, {24}, {32}, {64}, {128}}},
    {LO_CL_PACK, "cpu4", {"pack"}, {{4}, {8}, {16}, {32}, {64}, {128}}},
    {LO_CL_PRODUCT_CPU, "cpu16", {"product"}, {{3}}},
    {LO_CL_PRODUCT_CPU, "cpu8", {"product"}, {{3}}},
    {LO_CL_PRODUCT_CPU, "cpu4", {"product"}, {{2}}},
    {LO_CL_PRODUCT_GPU, "gpu", {"product"}, {KINDS(128, 64, 8, 4), KINDS(32, 32, 2, 2)}},
    {LO_CL_PRODUCT_SKINNY, "cpu", {"product"}, {{0}}},
    {LO_CL_PRODUCT_PLAIN, NULL, {"product"}, {{0}}},
    {LO_CL_BSR_CPU, "cpu", {"lines"}, {{1, 0}, {1, 1}, {2, 0}, {2, 1}}},
    {LO_CL_BSR_SKINNY, "cpu", {"lines"}, {{1}, {2}}},
    {LO_CL_BSR_GPU,
     "gpu",
     {"lines"},
     {SAMPLES(128, 64, 8, 4),
      SAMPLES(32, 16, 4, 2),
      {32, 64, 4, 4, 17},
      {128, 32, 8, 4, 17},
      {32, 32, 4, 4, 17},
      {128, 16, 8, 4, 17},
      {128, 8, 4, 4, 17},
      {32, 8, 2, 2, 17}}},
    {LO_CL_BSR_WGRAD_CPU, "cpu16", {"wgrad"}, {{2, 16}, {2, 8}}},
    {LO_CL_BSR_WGRAD_CPU, "cpu8", {"wgrad"}, {{2, 8}}},
    {LO_CL_BSR_WGRAD_CPU, "cpu4", {"wgrad"}, {{2, 4}}},
    {LO_CL_BSR_WGRAD_GPU,
     "gpu",
     {"wgrad", "finish"},
     {{64, 64, 8, 4, 4}, {32, 64, 8, 4, 8}, {16, 64, 4, 4, 12}, {8, 64, 4, 2, 4}}},
    {LO_CL_BSR_VALUES, NULL, {"widen", "gates"}, {{0}}},
    {LO_CL_SUM, NULL, {"columns", "rows", "chunks", "total"}, {{0}}},
    {LO_CL_MAP, NULL, {"forward", "backward", "mse"}, {{0}}},
    {LO_CL_OPTIMIZER, NULL, {"sgd", "adam"}, {{0}}},
    {LO_CL_ROWS, NULL, {"softmax", "count_labels", "cross_entropy", "summary"}, {{0}}},
    {LO_CL_MOVE, NULL, {"fill", "copy", "gather", "transpose"}, {{0}}},
};

static int built;

/* Prints what fails. */
static int build(layerops_context *ctx, const program *p, const int *number) {
  cl_program compiled;
  if (lo_cl_program_get(ctx, lo_cl_of(ctx)->world, p->source, number, &compiled)) {
    printf("source %d, numbers %d...: %s\n", (int)p->source, number[0], layerops_last_error());
    return 1;
  }
  for (int i = 0; i < MOST_KERNELS && p->kernels[i]; i++) {
    cl_int error = CL_SUCCESS;
    cl_kernel kernel = lo_cl.clCreateKernel(compiled, p->kernels[i], &error);
    if (!kernel) {
      printf("source %d has no kernel %s: %s\n", (int)p->source, p->kernels[i],
             lo_cl_error_name(error));
      return 1;
    }
    lo_cl.clReleaseKernel(kernel);
    built++;
  }
  return 0;
}

static int build_class(const char *class) {
  layerops_context *ctx;
  if (layerops_open("opencl", &ctx) || strcmp(lo_cl_of(ctx)->device->class.name, class)) {
    printf("no context of class %s: %s\n", class, layerops_last_error());
    return 1;
  }
  int failed = 0;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    const program *p = &programs[i];
    if (p->class && strncmp(p->class, class, strlen(p->class))) continue;
    for (int n = 0; n < 24 && (n == 0 || p->numbers[n][0]); n++)
      failed += build(ctx, p, p->numbers[n]);
  }
  layerops_close(ctx);
  printf("built %d\n", built);
  return failed;
}

static void test_class(const char *self, const char *class) {
  char command[8192], line[1024];
  snprintf(command, sizeof command, "LAYEROPS_OPENCL_CLASS=%s '%s' %s 2>&1", class, self, class);
  FILE *pipe = popen(command, "r");
  int count = 0;
  while (pipe && fgets(line, sizeof line, pipe)) {
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "built %d", &count) != 1) diag("%s", line);
  }
  int status = pipe ? pclose(pipe) : -1;
  ok(status == 0 && count > 0, "%d kernels compile as for a %s", count, class);
}

int main(int argc, char **argv) {
  if (argc > 1) return build_class(argv[1]) != 0;
  char reason[256];
  if (!lo_cl_count(reason, sizeof reason)) {
    if (devices_listed(getenv("LAYEROPS_TEST_REQUIRE"), "opencl"))
      ok(0, "opencl is required, but absent: %s", reason);
    else
      skip("opencl", "%s", reason);
    return done();
  }
  test_class(argv[0], "cpu16");
  test_class(argv[0], "cpu8");
  test_class(argv[0], "cpu4");
  test_class(argv[0], "gpu");
  return done();
}
