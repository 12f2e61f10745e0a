/* The conformance suite: every operation of a device against the reference. It stands on the public
 * API alone, so that `layerops selftest` runs the same checks as `make check`. */
#ifndef CF_CONFORMANCE_H
#define CF_CONFORMANCE_H

#include <layerops/layerops.h>

typedef enum cf_result { CF_FAILED = 0, CF_PASSED = 1, CF_SKIPPED = 2 } cf_result;

typedef struct cf_options {
  const char *device;
  const char
      *only;   /* NULL, or a comma-separated list of what operations begin with: "linear,mse" */
  int full;    /* all shapes, not a selection */
  int kernels; /* what may tell kernels apart alone: memory between pages without access where a
                  check has it, no buffers then, no replays, nothing twice */
  int strict;  /* an operation that the device lacks is a failure, not a skip */
  uint64_t seed;
  /* One line a check: "gemm f32: tile edges", and what there is to say (never NULL). */
  void (*report)(void *user, cf_result result, const char *name, const char *detail);
  void *user;
} cf_options;

/* Runs all checks. A status other than OK: the device or the reference did not open. */
layerops_status cf_run(const cf_options *options);

#endif
