/* Run where CUDA and OpenCL are absent: each must say why, and the CPU must work all the same. */
#include <layerops/layerops.h>
#include <stdio.h>
#include <string.h>

static int faults;

static void expect(int condition, const char *what, const char *device) {
  if (condition) return;
  fprintf(stderr, "%s: %s (%s)\n", device, what, layerops_last_error());
  faults++;
}

static void expect_absent(const char *device) {
  layerops_context *ctx = NULL;
  expect(layerops_open(device, &ctx) == LAYEROPS_ERROR_NO_DEVICE, "opening it is no error", device);
  expect(layerops_last_error()[0] != '\0', "no reason", device);
  printf("%s: %s\n", device, layerops_last_error());
}

int main(void) {
  layerops_device_info list[16];
  layerops_context *ctx = NULL;
  size_t i, count = 0;
  expect(layerops_devices(list, 16, &count) == LAYEROPS_OK, "listing fails", "all");
  for (i = 0; i < count && i < 16; i++) {
    printf("%s: %s %s\n", list[i].name, list[i].available ? "available" : "absent", list[i].reason);
    expect(list[i].available || list[i].reason[0] != '\0', "absent without a reason", list[i].name);
    expect(!list[i].available || !strchr(list[i].name, ':'), "available", list[i].name);
  }
  expect_absent("cuda:0");
  expect_absent("opencl:0.0");
  expect(layerops_open("auto", &ctx) == LAYEROPS_OK, "does not open", "auto");
  layerops_close(ctx);
  return faults != 0;
}
