#include <config.h>

#include "bench/bound.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"

#define SCHEMA "layerops-device/1"

/* Where reading stands, for the sentence of a failure. */
struct reader {
  const char *path;
  char *why;
  size_t why_size;
};

static bool fail(const struct reader *r, const char *place, const char *what) {
  snprintf(r->why, r->why_size, "%s: %s: %s", r->path, place, what);
  bench_printable(r->why);
  return false;
}

/* A number of a device file is an object: its value, and where it comes from. */
static bool read_number(const struct reader *r, const json_t *parent, const char *place,
                        const char *key, double *value) {
  static const char *const texts[] = {"unit", "source", "date"};
  char where[96];
  snprintf(where, sizeof where, "%s.%s", place, key);
  const json_t *number = json_object_get(parent, key);
  if (!json_is_object(number)) return fail(r, where, "no object {value, unit, source, date} here");
  *value = json_number_value(json_object_get(number, "value"));
  if (!json_is_number(json_object_get(number, "value")) || !(*value >= 0) || !isfinite(*value))
    return fail(r, where, "value is not a number of 0 or more");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *text = json_string_value(json_object_get(number, texts[i]));
    if (!text || !*text) return fail(r, where, "unit, source or date is missing");
  }
  return true;
}

static bool read_peak(const struct reader *r, const char *dtype, const json_t *json,
                      struct bench_peak *peak) {
  char place[64];
  snprintf(place, sizeof place, "peaks.%s", dtype);
  if (strlen(dtype) >= sizeof peak->dtype) return fail(r, place, "name of a data type too long");
  strcpy(peak->dtype, dtype);
  if (!read_number(r, json, place, "units", &peak->units) ||
      !read_number(r, json, place, "lanes", &peak->lanes) ||
      !read_number(r, json, place, "clock", &peak->clock) ||
      !read_number(r, json, place, "flops", &peak->flops))
    return false;
  return peak->flops > 0 || fail(r, place, "flops is 0");
}

static bool read_peaks(const struct reader *r, json_t *json, struct bench_device *device) {
  const char *dtype;
  json_t *peak;
  json_object_foreach(json, dtype, peak) {
    if (device->peak_count == BENCH_BOUND_ENTRIES) return fail(r, "peaks", "too many entries");
    if (!read_peak(r, dtype, peak, &device->peaks[device->peak_count++])) return false;
  }
  return device->peak_count > 0 || fail(r, "peaks", "no entry");
}

static bool read_level(const struct reader *r, size_t index, const json_t *json,
                       struct bench_memory *memory) {
  char place[64];
  double threads = 0;
  snprintf(place, sizeof place, "memory[%zu]", index);
  const char *level = json_string_value(json_object_get(json, "level"));
  if (!level || !*level || strlen(level) >= sizeof memory->level)
    return fail(r, place, "no level, or its name is too long");
  strcpy(memory->level, level);
  if (json_object_get(json, "threads") && !read_number(r, json, place, "threads", &threads))
    return false;
  if (threads > 65536) return fail(r, place, "threads is larger than 65536");
  memory->threads = (int)threads;
  if (json_object_get(json, "capacity") &&
      !read_number(r, json, place, "capacity", &memory->capacity))
    return false;
  return read_number(r, json, place, "bandwidth", &memory->bandwidth) &&
         (memory->bandwidth > 0 || fail(r, place, "bandwidth is 0"));
}

static bool read_memory(const struct reader *r, json_t *json, struct bench_device *device) {
  size_t index;
  json_t *level;
  json_array_foreach(json, index, level) {
    if (device->memory_count == BENCH_BOUND_ENTRIES) return fail(r, "memory", "too many entries");
    if (!read_level(r, index, level, &device->memory[device->memory_count++])) return false;
  }
  return device->memory_count > 0 || fail(r, "memory", "no entry");
}

static bool has_string(const json_t *array, const char *text) {
  for (size_t i = 0; i < json_array_size(array); i++) {
    const char *entry = json_string_value(json_array_get(array, i));
    if (entry && !strcmp(entry, text)) return true;
  }
  return false;
}

static bool read_device(const struct reader *r, const json_t *json, struct bench_device *device) {
  const char *schema = json_string_value(json_object_get(json, "schema"));
  const char *name = json_string_value(json_object_get(json, "name"));
  *device = (struct bench_device){0};
  if (!schema || strcmp(schema, SCHEMA)) return fail(r, "schema", "is not " SCHEMA);
  if (!name || strlen(name) >= sizeof device->name)
    return fail(r, "name", "missing, or longer than 63 bytes");
  strcpy(device->name, name);
  if (!read_peaks(r, json_object_get(json, "peaks"), device) ||
      !read_memory(r, json_object_get(json, "memory"), device))
    return false;
  if (has_string(json_object_get(json, "kind"), "cpu"))
    device->threads = (int)fmin(device->peaks[0].units, 65536);
  return true;
}

static json_t *load(const struct reader *r) {
  json_error_t error;
  json_t *json = json_load_file(r->path, JSON_REJECT_DUPLICATES, &error);
  if (json) return json;
  snprintf(r->why, r->why_size, "%s:%d:%d: %s", r->path, error.line, error.column, error.text);
  bench_printable(r->why);
  return NULL;
}

bool bench_device_read(const char *path, struct bench_device *device, char *why, size_t why_size) {
  struct reader r = {path, why, why_size};
  json_t *json = load(&r);
  bool good = json && read_device(&r, json, device);
  json_decref(json);
  return good;
}

static bool matches(const json_t *json, const char *kind, const char *name) {
  const json_t *names = json_object_get(json, "match");
  if (!has_string(json_object_get(json, "kind"), kind)) return false;
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *part = json_string_value(json_array_get(names, i));
    if (part && *part && strstr(name, part)) return true;
  }
  return false;
}

/* 1: FILE describes the device and was read, 0: it does not, -1: it cannot be read. */
static int try_file(const char *path, const char *kind, const char *name,
                    struct bench_device *device, char *why, size_t why_size) {
  struct reader r = {path, why, why_size};
  json_t *json = load(&r);
  if (!json) return -1;
  int found = matches(json, kind, name);
  if (found && !read_device(&r, json, device)) found = -1;
  json_decref(json);
  return found;
}

static int is_json(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 5 && !strcmp(entry->d_name + length - 5, ".json");
}

bool bench_device_find(const char *folder, const char *kind, const char *name,
                       struct bench_device *device, char *why, size_t why_size) {
  struct dirent **files;
  int found = 0, count = scandir(folder, &files, is_json, alphasort);
  *why = 0;
  if (count < 0) {
    snprintf(why, why_size, "%s: %s", folder, strerror(errno));
    return false;
  }
  for (int i = 0; i < count; i++) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, files[i]->d_name);
    if (!found && length < (int)sizeof path)
      found = try_file(path, kind, name, device, why, why_size);
    free(files[i]);
  }
  free(files);
  return found > 0;
}

void bench_work(const struct bench_row *row, const struct bench_pattern *pattern,
                const struct bench_type *type, double *flops, double *bytes) {
  double m = (double)row->m, n = (double)row->n, k = (double)row->k;
  double weights = n * k, index = 0;
  if (pattern) {
    double kept = (double)bench_pattern_kept(pattern);
    weights = kept * (double)row->block * (double)row->block;
    index = sizeof(int32_t) * (kept + (double)pattern->rows + 1);
    if (!strcmp(bench_type_w(type)->element, "i8")) index += sizeof(float) * kept; /* scales */
  }
  *flops = 2 * m * weights;
  *bytes = (double)type->size * m * k + (double)bench_type_w(type)->size * weights +
           (double)bench_type_y(type)->size * (m * n + (pattern ? 0 : n)) + index;
}

/* Whether a level's entry is the one for so many threads: of several with its name, the one
   measured with the most threads that are not more. */
static bool fits_threads(const struct bench_device *device, int index, int threads) {
  const struct bench_memory *level = &device->memory[index];
  if (!device->threads || threads < 1 || !level->threads) return true;
  if (level->threads > threads) return false;
  for (int i = 0; i < device->memory_count; i++) {
    const struct bench_memory *other = &device->memory[i];
    if (!strcmp(other->level, level->level) && other->threads <= threads &&
        other->threads > level->threads)
      return false;
  }
  return true;
}

/* What the levels inside a level can hold need not come from it in a warm repetition; the rest
   must; in a cold one everything. */
static double transfer_time(const struct bench_device *device, int threads, double bytes,
                            bool cold) {
  double inner = 0, seconds = 0;
  for (int i = 0; i < device->memory_count; i++) {
    const struct bench_memory *level = &device->memory[i];
    if (!fits_threads(device, i, threads)) continue;
    seconds = fmax(seconds, (bytes - inner) / level->bandwidth);
    if (!cold) inner = level->capacity;
  }
  return seconds;
}

static double bound(const struct bench_device *device, const char *dtype, int threads, double flops,
                    double bytes, bool cold) {
  for (int i = 0; i < device->peak_count; i++) {
    if (strcmp(device->peaks[i].dtype, dtype)) continue;
    double share = device->threads && threads > 0 && threads < device->threads
                       ? (double)threads / device->threads
                       : 1;
    return fmax(flops / (device->peaks[i].flops * share),
                transfer_time(device, threads, bytes, cold));
  }
  return 0;
}

double bench_bound(const struct bench_device *device, const char *dtype, int threads, double flops,
                   double bytes) {
  return bound(device, dtype, threads, flops, bytes, false);
}

double bench_bound_cold(const struct bench_device *device, const char *dtype, int threads,
                        double flops, double bytes) {
  return bound(device, dtype, threads, flops, bytes, true);
}
