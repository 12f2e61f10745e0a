/* layerops selftest: the conformance suite, the same that the tests of the build run. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "t/conformance/conformance.h"
#include "tools/tool.h"

#define COMMAND "selftest"

struct settings {
  const char *device, *ops;
  bool full, strict;
  uint64_t seed;
};

/* Each word of the list begins an operation's name. */
static bool parse_ops(const char *text, void *field) {
  *(const char **)field = text;
  for (const char *word = text;; word++) {
    size_t length = strcspn(word, ",");
    bool known = false;
    for (int op = 1; op < LAYEROPS_OP_COUNT; op++)
      known = known || !strncmp(layerops_op_name((layerops_op)op), word, length);
    if (!length || !known) return false;
    word += length;
    if (!*word) return true;
  }
}

static const struct tool_option options[] = {
    {"device", "NAME", "a device", "test this device; without it each that is found", parse_text,
     offsetof(struct settings, device)},
    {"ops", "LIST", "a comma-separated list of what operations begin with: gemm,linear",
     "only operations whose name begins with a word of the list", parse_ops,
     offsetof(struct settings, ops)},
    {"full", NULL, NULL, "all shapes in place of a selection", parse_switch,
     offsetof(struct settings, full)},
    {"strict", NULL, NULL, "an operation that the device lacks is a failure", parse_switch,
     offsetof(struct settings, strict)},
    {"seed", "N", "a number from 0 to 2^64 - 1", "seed of the random data (default 1)", parse_seed,
     offsetof(struct settings, seed)},
};
static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "[OPTION]...",
    .text = "Checks every operation of a device against the reference: values within derived\n"
            "tolerances, edges of tiles, empty sizes, strides, NaN and infinity, in-place calls,\n"
            "labels out of range, replays, the same bits twice, no stray write. Prints TAP.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

struct tally {
  const char *device;
  long count, failed;
};

static void report(void *user, cf_result result, const char *name, const char *detail) {
  struct tally *t = user;
  t->count++;
  t->failed += result == CF_FAILED;
  printf("%sok %ld - %s: %s%s\n", result == CF_FAILED ? "not " : "", t->count, t->device, name,
         result == CF_SKIPPED ? " # SKIP" : "");
  printf("# %s\n", detail);
}

static void test_device(const struct settings *s, struct tally *t, const char *device) {
  cf_options run = {.device = device,
                    .only = s->ops,
                    .full = s->full,
                    .strict = s->strict,
                    .seed = s->seed,
                    .report = report,
                    .user = t};
  t->device = device;
  if (cf_run(&run)) report(t, CF_FAILED, "opens", layerops_last_error());
}

static int test_all(const struct settings *s, struct tally *t) {
  size_t count = 0;
  if (layerops_devices(NULL, 0, &count)) return tool_library_failed(COMMAND);
  layerops_device_info *list = calloc(count + 1, sizeof *list);
  if (!list) return tool_fail(COMMAND, "out of memory");
  size_t capacity = count;
  layerops_status status = layerops_devices(list, capacity, &count);
  for (size_t i = 0; !status && i < count && i < capacity; i++) {
    t->device = list[i].name;
    if (!list[i].available) report(t, CF_SKIPPED, "all operations", list[i].reason);
    /* the reference is what the others are compared with */
    if (list[i].available && strcmp(list[i].name, "reference")) test_device(s, t, list[i].name);
  }
  free(list);
  return status ? tool_library_failed(COMMAND) : TOOL_OK;
}

int tool_selftest(int argc, char **argv) {
  struct settings settings = {.seed = 1};
  int status = tool_parse(&usage, argc, argv, &settings);
  if (status >= 0) return status;
  struct tally tally = {0};
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  status = TOOL_OK;
  if (settings.device) {
    layerops_context *ctx; /* a wrong name is a mistake, not a failed check */
    if (layerops_open(settings.device, &ctx)) return tool_library_failed(COMMAND);
    layerops_close(ctx);
    test_device(&settings, &tally, settings.device);
  } else {
    status = test_all(&settings, &tally);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("# %ld checks, %ld failed, in %.1f s\n1..%ld\n", tally.count, tally.failed,
         (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec),
         tally.count);
  return status != TOOL_OK || tally.failed ? TOOL_FAILED : TOOL_OK;
}
