/* The conformance suite on every device. OPS, given by the Makefile, says which operations: one
 * program a family, so that they run in parallel. LAYEROPS_TEST_FULL=1 runs all shapes;
 * LAYEROPS_TEST_SEED, LAYEROPS_TEST_STRICT and LAYEROPS_TEST_KERNELS do what the options are
 * called. */
#include <config.h>

#include "t/conformance/conformance.h"
#include "t/devices.h"

static void report(void *device, cf_result result, const char *name, const char *detail) {
  if (result == CF_SKIPPED) {
    char text[256];
    snprintf(text, sizeof text, "%s: %s", (const char *)device, name);
    skip(text, "%s", detail);
  } else if (!ok(result == CF_PASSED, "%s: %s (%s)", (const char *)device, name,
                 result == CF_PASSED ? detail : "see below")) {
    diag("%s", detail);
  }
}

static int flag(const char *name) {
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0");
}

static void run(const char *device) {
  const char *seed = getenv("LAYEROPS_TEST_SEED");
  cf_options options = {.device = device,
                        .only = OPS,
                        .full = flag("LAYEROPS_TEST_FULL"),
                        .kernels = flag("LAYEROPS_TEST_KERNELS"),
                        .strict = flag("LAYEROPS_TEST_STRICT"),
                        .seed = seed ? strtoull(seed, NULL, 0) : 1,
                        .report = report,
                        .user = (void *)device};
  diag("%s: seed %llu", device, (unsigned long long)options.seed);
  if (cf_run(&options)) ok(0, "%s: %s", device, layerops_last_error());
}

int main(void) {
  for_each_device(run);
  return done();
}
