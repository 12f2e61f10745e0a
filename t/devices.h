/* The devices that a test runs on: all that are found, or those that LAYEROPS_TEST_DEVICES lists
 * ("cpu", "cpu,opencl"). An absent backend is a SKIP with its reason;
 * LAYEROPS_TEST_REQUIRE=cuda,opencl makes it a failure. */
#ifndef LO_TEST_DEVICES_H
#define LO_TEST_DEVICES_H

#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

#define DEVICES_MAX 64

/* Whether a comma-separated list has the device or its backend ("opencl" stands for all of them).
 */
static inline int devices_listed(const char *list, const char *name) {
  size_t backend = strcspn(name, ":");
  for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
    size_t length = strcspn(p, ",");
    if (length == strlen(name) && !strncmp(p, name, length)) return 1;
    if (length == backend && !strncmp(p, name, length)) return 1;
  }
  return 0;
}

/* Calls run for each device but the reference, which is what the others are compared with. */
static inline void for_each_device(void (*run)(const char *name)) {
  const char *only = getenv("LAYEROPS_TEST_DEVICES"), *required = getenv("LAYEROPS_TEST_REQUIRE");
  static layerops_device_info list[DEVICES_MAX];
  size_t count = 0;
  int status = layerops_devices(list, DEVICES_MAX, &count);
  ok(!status && count <= DEVICES_MAX, "%zu devices are listed", count);
  for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
    const layerops_device_info *device = &list[i];
    int listed = devices_listed(only, device->name);
    if (!strcmp(device->name, "reference") && !listed) continue;
    if (only && *only && !listed) continue;
    if (device->available)
      run(device->name);
    else if (devices_listed(required, device->name))
      ok(0, "%s is required, but absent: %s", device->name, device->reason);
    else
      skip(device->name, "%s", device->reason);
  }
}

static void (*device_test)(layerops_context *ctx, const char *name);

static inline void run_device_test(const char *name) {
  layerops_context *ctx = NULL;
  if (!ok(!layerops_open(name, &ctx), "%s opens", name)) {
    diag("%s", layerops_last_error());
    return;
  }
  device_test(ctx, name);
  ok(!layerops_sync(ctx), "%s: nothing went wrong unseen", name);
  layerops_close(ctx);
}

/* The test runs with a context on each device, and on the reference too unless devices are listed.
 */
static inline void on_each_device(void (*test)(layerops_context *ctx, const char *name)) {
  const char *only = getenv("LAYEROPS_TEST_DEVICES");
  device_test = test;
  for_each_device(run_device_test);
  if (!only || !*only) run_device_test("reference");
}

#endif
