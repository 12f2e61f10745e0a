/* A test on every device found. One that is absent is a skip with its reason, or a failure where
 * LAYEROPS_TEST_REQUIRE names it ("cuda,opencl"). */
#ifndef LO_TEST_DEVICES_H
#define LO_TEST_DEVICES_H

#include <stdlib.h>
#include <string.h>

#include <layerops/layerops.h>

#include "t/tap.h"

static inline int device_required(const char *name) {
  const char *list = getenv("LAYEROPS_TEST_REQUIRE");
  size_t length = strcspn(name, ":");
  while (list && *list) {
    size_t n = strcspn(list, ",");
    if (n == length && !strncmp(list, name, n)) return 1;
    list += n + (list[n] == ',');
  }
  return 0;
}

static inline void on_each_device(void (*test)(layerops_context *ctx, const char *device)) {
  layerops_device_info list[64];
  size_t count = 0;
  if (!ok(!layerops_devices(list, 64, &count), "devices can be listed")) return;
  for (size_t i = 0; i < count && i < 64; i++) {
    layerops_context *ctx = NULL;
    if (!list[i].available) {
      if (device_required(list[i].name))
        ok(0, "%s is required, but absent: %s", list[i].name, list[i].reason);
      else
        skip(list[i].name, "%s", list[i].reason);
    } else if (ok(!layerops_open(list[i].name, &ctx), "%s opens", list[i].name)) {
      test(ctx, list[i].name);
      ok(!layerops_sync(ctx), "%s: nothing went wrong unseen", list[i].name);
      layerops_close(ctx);
    } else {
      diag("%s", layerops_last_error());
    }
  }
}

#endif
