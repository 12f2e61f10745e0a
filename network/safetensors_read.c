#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "network/safetensors.h"

static layerops_status no_memory(const char *path) {
  return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
}

static layerops_status read_bytes(int fd, const char *path, void *out, int64_t size) {
  char *p = out;
  while (size > 0) {
    ssize_t n = read(fd, p, size < 1 << 30 ? (size_t)size : 1u << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return lo_fail(LAYEROPS_ERROR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (n == 0) return lo_fail(LAYEROPS_ERROR_IO, "%s: became shorter while it was read", path);
    p += n;
    size -= n;
  }
  return LAYEROPS_OK;
}

static layerops_status open_file(const char *path, int *fd, int64_t *size) {
  struct stat st;
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not wait for a writer */
  if (*fd < 0 || fstat(*fd, &st))
    return lo_fail(LAYEROPS_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return lo_fail(LAYEROPS_ERROR_IO, "%s: is not a regular file", path);
  *size = st.st_size;
  return LAYEROPS_OK;
}

static layerops_status read_header_text(int fd, const char *path, int64_t size, char **text,
                                        size_t *length) {
  uint64_t n = 0;
  if (size < 8)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %lld bytes are too few for a .safetensors file",
                   path, (long long)size);
  LO_TRY(read_bytes(fd, path, &n, 8));
  if (n > LO_SAFETENSORS_MAX_HEADER)
    return lo_fail(
        LAYEROPS_ERROR_FORMAT,
        "%s: not a .safetensors file, or damaged: a header of %llu bytes; at most %d are allowed",
        path, (unsigned long long)n, LO_SAFETENSORS_MAX_HEADER);
  if ((int64_t)n > size - 8)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: truncated or lying: a header of %llu bytes in a file "
                   "of %lld",
                   path, (unsigned long long)n, (long long)size);
  *text = malloc(n + 1);
  if (!*text) return no_memory(path);
  *length = n;
  return read_bytes(fd, path, *text, (int64_t)n);
}

static layerops_status parse_header(const char *path, const char *text, size_t length,
                                    json_t **header) {
  json_error_t error;
  if (length == 0 || text[0] != '{')
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: the header does not begin with '{'", path);
  *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  if (*header) return LAYEROPS_OK;
  if (json_error_code(&error) == json_error_out_of_memory) return no_memory(path);
  return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: header, byte %d: %s", path, error.position,
                 error.text);
}

/* An array of `least` to `most` integers from 0 up. */
static layerops_status get_integers(const char *path, const char *name, const char *what,
                                    const json_t *array, size_t least, size_t most, int64_t *out) {
  size_t n = json_array_size(array);
  if (!json_is_array(array) || n < least || n > most)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: tensor \"%.60s\": %s is not an array of %zu to %zu "
                   "numbers",
                   path, name, what, least, most);
  for (size_t i = 0; i < n; i++) {
    const json_t *value = json_array_get(array, i);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
      return lo_fail(LAYEROPS_ERROR_FORMAT,
                     "%s: tensor \"%.60s\": %s[%zu] is not an integer from 0 "
                     "up",
                     path, name, what, i);
    out[i] = json_integer_value(value);
  }
  return LAYEROPS_OK;
}

struct range {
  int64_t begin, end;
  const char *name;
};

static layerops_status get_tensor(const char *path, const char *name, const json_t *entry,
                                  lo_tensor *t, struct range *range) {
  const json_t *shape = json_object_get(entry, "shape");
  int64_t offsets[2], bytes;
  t->name = range->name = name;
  t->dtype = json_string_value(json_object_get(entry, "dtype"));
  if (!json_is_object(entry) || !t->dtype)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: tensor \"%.60s\": no object with a dtype", path,
                   name);
  LO_TRY(get_integers(path, name, "shape", shape, 0, LO_SAFETENSORS_MAX_RANK, t->shape));
  LO_TRY(get_integers(path, name, "data_offsets", json_object_get(entry, "data_offsets"), 2, 2,
                      offsets));
  t->rank = (int32_t)json_array_size(shape);
  LO_TRY(lo_safetensors_bytes(path, t, &bytes));
  if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != bytes)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: tensor \"%.60s\": data_offsets %lld to %lld; its "
                   "shape and dtype take %lld bytes",
                   path, name, (long long)offsets[0], (long long)offsets[1], (long long)bytes);
  t->bytes = bytes;
  range->begin = offsets[0];
  range->end = offsets[1];
  return LAYEROPS_OK;
}

static int by_place(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

/* The tensors must lie end to end and fill the data section: no byte is shared or unexplained. */
static layerops_status check_ranges(const char *path, struct range *ranges, int64_t count,
                                    int64_t size) {
  int64_t at = 0;
  if (count > 0) qsort(ranges, (size_t)count, sizeof *ranges, by_place);
  for (int64_t i = 0; i < count; at = ranges[i++].end) {
    const struct range *r = &ranges[i];
    if (r->end > size)
      return lo_fail(LAYEROPS_ERROR_FORMAT,
                     "%s: truncated or lying: tensor \"%.60s\" ends at byte "
                     "%lld of the data, which has %lld",
                     path, r->name, (long long)r->end, (long long)size);
    if (r->begin != at)
      return lo_fail(LAYEROPS_ERROR_FORMAT,
                     "%s: tensor \"%.60s\" begins at byte %lld of the data, "
                     "%s byte %lld",
                     path, r->name, (long long)r->begin,
                     r->begin < at ? "inside the tensor that ends at" : "leaving a hole from",
                     (long long)at);
  }
  if (at == size) return LAYEROPS_OK;
  return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: %lld bytes follow the last tensor", path,
                 (long long)(size - at));
}

static layerops_status get_metadata(const char *path, json_t *object, lo_safetensors *file) {
  const char *key;
  json_t *value;
  if (!json_is_object(object))
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: __metadata__ is not an object", path);
  file->metadata = calloc(json_object_size(object) + 1, sizeof *file->metadata);
  if (!file->metadata) return no_memory(path);
  json_object_foreach(object, key, value) {
    if (!json_is_string(value))
      return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: __metadata__: \"%.60s\" is not a string", path,
                     key);
    file->metadata[file->metadata_count++] = (lo_metadata){key, json_string_value(value)};
  }
  return LAYEROPS_OK;
}

static layerops_status get_entries(const char *path, lo_safetensors *file, struct range *ranges) {
  const char *name;
  json_t *entry;
  json_object_foreach((json_t *)file->header, name, entry) {
    if (!strcmp(name, "__metadata__")) {
      LO_TRY(get_metadata(path, entry, file));
    } else {
      LO_TRY(get_tensor(path, name, entry, &file->tensors[file->count], &ranges[file->count]));
      file->count++;
    }
  }
  return LAYEROPS_OK;
}

/* data_offsets become pointers; ranges are in the tensors' order. */
static layerops_status read_data(int fd, const char *path, int64_t size, lo_safetensors *file,
                                 const struct range *ranges) {
  file->data = malloc(size > 0 ? (size_t)size : 1);
  if (!file->data) return no_memory(path);
  for (int64_t i = 0; i < file->count; i++)
    file->tensors[i].data = (char *)file->data + ranges[i].begin;
  return read_bytes(fd, path, file->data, size);
}

static layerops_status read_tensors(int fd, const char *path, int64_t size, lo_safetensors *file) {
  size_t most = json_object_size(file->header);
  struct range *ranges = calloc(2 * most + 1, sizeof *ranges), *sorted = ranges + most;
  file->tensors = calloc(most + 1, sizeof *file->tensors);
  layerops_status status = LAYEROPS_OK;
  if (!ranges || !file->tensors) status = no_memory(path);
  if (!status) status = get_entries(path, file, ranges);
  if (!status && most > 0) memcpy(sorted, ranges, most * sizeof *ranges);
  if (!status) status = check_ranges(path, sorted, file->count, size);
  if (!status) status = read_data(fd, path, size, file, ranges);
  free(ranges);
  return status;
}

static layerops_status read_file(int fd, const char *path, int64_t size, lo_safetensors *file) {
  char *text = NULL;
  size_t length = 0;
  json_t *header = NULL;
  layerops_status status = read_header_text(fd, path, size, &text, &length);
  if (!status) status = parse_header(path, text, length, &header);
  free(text);
  file->header = header;
  return status ? status : read_tensors(fd, path, size - 8 - (int64_t)length, file);
}

layerops_status lo_safetensors_read(const char *path, lo_safetensors *file) {
  int fd;
  int64_t size = 0;
  *file = (lo_safetensors){0};
  layerops_status status = open_file(path, &fd, &size);
  if (!status) status = read_file(fd, path, size, file);
  if (fd >= 0) close(fd);
  if (status) lo_safetensors_free(file);
  return status;
}

void lo_safetensors_free(lo_safetensors *file) {
  json_decref(file->header);
  free(file->tensors);
  free(file->metadata);
  free(file->data);
  *file = (lo_safetensors){0};
}
