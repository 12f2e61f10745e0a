/* layerops devices */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tool.h"

#define COMMAND "devices"

struct settings {
  bool json;
};

static const struct tool_option options[] = {
    {"json", NULL, NULL, "print JSON", parse_switch, offsetof(struct settings, json)},
};
static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "[--json]",
    .text = "Lists the devices that --device takes, and the backends without any and why.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static void print_size(char *text, size_t size, int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  snprintf(text, size, value < 10 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void print_caches(const layerops_device_info *d) {
  const int64_t sizes[] = {d->l1, d->l2, d->l3};
  for (int i = 0; i < 3; i++) {
    char text[32];
    print_size(text, sizeof text, sizes[i]);
    if (sizes[i] > 0) printf(", L%d %s", i + 1, text);
  }
}

static void print_device(const layerops_device_info *d) {
  printf("%-12s ", d->name);
  if (!d->available) {
    printf("absent: %s\n", d->reason);
    return;
  }
  char memory[32];
  print_size(memory, sizeof memory, d->memory);
  printf("%s\n%-12s %d %s", d->description[0] ? d->description : "(no description)", "", d->units,
         d->units == 1 ? "unit" : "units");
  if (d->clock_mhz) printf(" at %d MHz", d->clock_mhz);
  if (d->memory) printf(", %s", memory);
  print_caches(d);
  printf("\n");
  if (d->isa[0]) printf("%-12s %s\n", "", d->isa);
  if (d->driver[0]) printf("%-12s driver %s\n", "", d->driver);
}

static json_t *describe(const layerops_device_info *d) {
  return json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:i, s:i, s:b, s:I, s:I, s:I, s:I}", "name",
                   d->name, "available", d->available, "reason", d->reason, "description",
                   d->description, "driver", d->driver, "isa", d->isa, "units", (int)d->units,
                   "clock_mhz", (int)d->clock_mhz, "gpu", d->is_gpu, "memory",
                   (json_int_t)d->memory, "l1", (json_int_t)d->l1, "l2", (json_int_t)d->l2, "l3",
                   (json_int_t)d->l3);
}

static int print_json(const layerops_device_info *list, size_t count) {
  json_t *devices = json_array();
  bool good = true;
  for (size_t i = 0; i < count; i++)
    good = !json_array_append_new(devices, describe(&list[i])) && good;
  json_t *root = json_pack("{s:s, s:o}", "version", layerops_version_string(), "devices", devices);
  char *text = good && root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  if (!text) return tool_fail(COMMAND, "no memory, or a driver's text is not UTF-8");
  printf("%s\n", text);
  free(text);
  return TOOL_OK;
}

int tool_devices(int argc, char **argv) {
  struct settings settings = {0};
  int status = tool_parse(&usage, argc, argv, &settings);
  if (status >= 0) return status;
  size_t count = 0;
  if (layerops_devices(NULL, 0, &count)) return tool_library_failed(COMMAND);
  layerops_device_info *list = calloc(count ? count : 1, sizeof *list);
  if (!list) return tool_fail(COMMAND, "out of memory");
  size_t capacity = count;
  if (layerops_devices(list, capacity, &count)) {
    free(list);
    return tool_library_failed(COMMAND);
  }
  if (count > capacity) count = capacity; /* one came in between */
  status = TOOL_OK;
  if (settings.json)
    status = print_json(list, count);
  else
    for (size_t i = 0; i < count; i++) print_device(&list[i]);
  free(list);
  return status;
}
