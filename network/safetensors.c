#include <config.h>

#include <string.h>

#include "common/error.h"
#include "network/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are copied as they are, and the format is little endian");

static const struct {
  const char *name;
  int64_t size;
} types[] = {{"F32", 4},  {"F16", 2}, {"BF16", 2},    {"F64", 8},     {"I64", 8},    {"I32", 4},
             {"I16", 2},  {"I8", 1},  {"U64", 8},     {"U32", 4},     {"U16", 2},    {"U8", 1},
             {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

int64_t lo_safetensors_type_size(const char *dtype) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, dtype)) return types[i].size;
  return 0;
}

layerops_status lo_safetensors_bytes(const char *path, const lo_tensor *t, int64_t *bytes) {
  *bytes = lo_safetensors_type_size(t->dtype);
  if (*bytes == 0)
    return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: tensor \"%.60s\": unknown dtype \"%.20s\"", path,
                   t->name, t->dtype);
  if (t->rank < 0 || t->rank > LO_SAFETENSORS_MAX_RANK)
    return lo_fail(LAYEROPS_ERROR_FORMAT,
                   "%s: tensor \"%.60s\": %d dimensions, at most %d are "
                   "handled",
                   path, t->name, t->rank, LO_SAFETENSORS_MAX_RANK);
  /* A dimension of 0 empties the tensor, but the others must still be sound. */
  int64_t others = *bytes;
  for (int i = 0; i < t->rank; i++) {
    if (t->shape[i] < 0)
      return lo_fail(LAYEROPS_ERROR_FORMAT, "%s: tensor \"%.60s\": dimension %d is %lld", path,
                     t->name, i, (long long)t->shape[i]);
    if (__builtin_mul_overflow(others, t->shape[i] ? t->shape[i] : 1, &others))
      return lo_fail(LAYEROPS_ERROR_OVERFLOW,
                     "%s: tensor \"%.60s\": its shape holds more than 2^63 "
                     "bytes at dimension %d of %lld",
                     path, t->name, i, (long long)t->shape[i]);
    *bytes *= t->shape[i];
  }
  return LAYEROPS_OK;
}

const lo_tensor *lo_safetensors_find(const lo_safetensors *file, const char *name) {
  for (int64_t i = 0; i < file->count; i++)
    if (!strcmp(file->tensors[i].name, name)) return &file->tensors[i];
  return NULL;
}

const char *lo_safetensors_metadata(const lo_safetensors *file, const char *key) {
  for (int64_t i = 0; i < file->metadata_count; i++)
    if (!strcmp(file->metadata[i].key, key)) return file->metadata[i].value;
  return NULL;
}
