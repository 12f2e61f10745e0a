/* The .safetensors format: 8 bytes of header length, a JSON header, the tensors' bytes. */
#ifndef LO_SAFETENSORS_H
#define LO_SAFETENSORS_H

#include <layerops/base.h>

#define LO_SAFETENSORS_MAX_RANK   8
#define LO_SAFETENSORS_MAX_HEADER 100000000 /* the format's own limit */

typedef struct lo_tensor {
  const char *name;
  const char *dtype; /* "F32", "F16", "BF16", "I32", ... */
  int32_t rank;
  int64_t shape[LO_SAFETENSORS_MAX_RANK];
  const void *data; /* little endian; aligned to nothing where data types are mixed */
  int64_t bytes;    /* set by reading; writing takes it from dtype and shape */
} lo_tensor;

typedef struct lo_metadata {
  const char *key, *value;
} lo_metadata;

typedef struct lo_safetensors {
  lo_tensor *tensors;
  int64_t count;
  lo_metadata *metadata;
  int64_t metadata_count;
  void *header, *data; /* what reading allocated; names and values point into it */
} lo_safetensors;

/* Checks everything before it hands anything out. After a failure *file is empty. */
layerops_status lo_safetensors_read(const char *path, lo_safetensors *file);
void lo_safetensors_free(lo_safetensors *file); /* after reading only; harmless on an empty one */

/* Writes beside path and renames: path is the old file or the whole new one. */
layerops_status lo_safetensors_write(const char *path, const lo_safetensors *file);

/* NULL where there is none. */
const lo_tensor *lo_safetensors_find(const lo_safetensors *file, const char *name);
const char *lo_safetensors_metadata(const lo_safetensors *file, const char *key);

/* Bytes of one element, 0 for an unknown name. */
int64_t lo_safetensors_type_size(const char *dtype);

/* Product of shape and type size into *bytes. */
layerops_status lo_safetensors_bytes(const char *path, const lo_tensor *tensor, int64_t *bytes);

#endif
