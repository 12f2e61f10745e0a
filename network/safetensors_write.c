#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "network/replace_file.h"
#include "network/safetensors.h"

static layerops_status add_metadata(const char *path, const lo_safetensors *file, json_t *header) {
  json_t *object = json_object();
  for (int64_t i = 0; i < file->metadata_count; i++)
    if (json_object_set_new(object, file->metadata[i].key, json_string(file->metadata[i].value))) {
      json_decref(object);
      return lo_fail(LAYEROPS_ERROR_INVALID, "%s: metadata %lld: its key or value is not UTF-8",
                     path, (long long)i);
    }
  if (file->metadata_count == 0) {
    json_decref(object);
    return LAYEROPS_OK;
  }
  if (json_object_set_new(header, "__metadata__", object))
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  return LAYEROPS_OK;
}

static layerops_status add_tensor(const char *path, const lo_tensor *t, json_t *header,
                                  int64_t *at) {
  int64_t bytes, end;
  LO_TRY(lo_safetensors_bytes(path, t, &bytes));
  if (__builtin_add_overflow(*at, bytes, &end))
    return lo_fail(LAYEROPS_ERROR_OVERFLOW, "%s: tensor \"%.60s\" ends beyond 2^63 bytes", path,
                   t->name);
  if (json_object_get(header, t->name) || !strcmp(t->name, "__metadata__"))
    return lo_fail(LAYEROPS_ERROR_INVALID, "%s: tensor name \"%.60s\" is taken", path, t->name);
  json_t *shape = json_array();
  for (int i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer(t->shape[i]));
  json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                            "data_offsets", (json_int_t)*at, (json_int_t)end);
  if (json_object_set_new(header, t->name, entry))
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "%s: tensor name \"%.60s\" is not UTF-8, or out of memory", path, t->name);
  *at = end;
  return LAYEROPS_OK;
}

/* Calls back for each tensor, the widest types first: every tensor is aligned to its type then. */
#define FOR_EACH_TENSOR(file, t)                                                                   \
  for (int64_t size_ = 8; size_ > 0; size_ /= 2)                                                   \
    for (const lo_tensor *t = (file)->tensors; t < (file)->tensors + (file)->count; t++)           \
      if (lo_safetensors_type_size(t->dtype) == size_)

static layerops_status make_header(const char *path, const lo_safetensors *file, json_t *header) {
  int64_t at = 0;
  for (int64_t i = 0; i < file->count; i++)
    if (lo_safetensors_type_size(file->tensors[i].dtype) == 0)
      return lo_fail(LAYEROPS_ERROR_INVALID, "%s: tensor \"%.60s\": unknown dtype \"%.20s\"", path,
                     file->tensors[i].name, file->tensors[i].dtype);
  FOR_EACH_TENSOR(file, t) LO_TRY(add_tensor(path, t, header, &at));
  return add_metadata(path, file, header);
}

/* The length and the header, padded so that the data begin at a multiple of 8. */
static layerops_status write_header(lo_replacement *r, const char *path, const char *text) {
  uint64_t length = strlen(text), padded = (length + 7) / 8 * 8;
  if (padded > LO_SAFETENSORS_MAX_HEADER)
    return lo_fail(LAYEROPS_ERROR_INVALID,
                   "%s: the names and metadata make a header of %llu bytes; "
                   "at most %d are allowed",
                   path, (unsigned long long)padded, LO_SAFETENSORS_MAX_HEADER);
  LO_TRY(lo_replacement_write(r, &padded, sizeof padded));
  LO_TRY(lo_replacement_write(r, text, length));
  return lo_replacement_write(r, "       ", padded - length);
}

static layerops_status write_tensors(lo_replacement *r, const char *path,
                                     const lo_safetensors *file) {
  FOR_EACH_TENSOR(file, t) {
    int64_t bytes;
    LO_TRY(lo_safetensors_bytes(path, t, &bytes));
    LO_TRY(lo_replacement_write(r, t->data, (size_t)bytes));
  }
  return LAYEROPS_OK;
}

static layerops_status write_file(const char *path, const lo_safetensors *file, const char *text) {
  lo_replacement r;
  LO_TRY(lo_replacement_open(&r, path));
  layerops_status status = write_header(&r, path, text);
  if (!status) status = write_tensors(&r, path, file);
  if (!status) return lo_replacement_commit(&r);
  lo_replacement_cancel(&r);
  return status;
}

layerops_status lo_safetensors_write(const char *path, const lo_safetensors *file) {
  json_t *header = json_object();
  char *text = NULL;
  layerops_status status = LAYEROPS_OK;
  if (header) status = make_header(path, file, header);
  if (header && !status) text = json_dumps(header, JSON_COMPACT);
  if (!status && !text) status = lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
  if (!status) status = write_file(path, file, text);
  free(text);
  json_decref(header);
  return status;
}
