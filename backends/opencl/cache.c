/* Compiled programs on disk: a file each (common/cache_file.h), named by a hash of all that the
 * program depends on, which stands whole in the file. Whatever goes wrong here only costs a
 * compilation, so nothing is reported. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "common/cache_file.h"

enum { LARGEST = 256 << 20 };

/* What a file begins with; the key and the binary follow. */
typedef struct header {
  char magic[8];
  uint64_t key_size, size, sum;
} header;

static const char magic[8] = "loclbin2";

/* FNV-1a. */
static uint64_t hash(const void *bytes, size_t size, uint64_t h) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

static void name_of(const char *key, size_t key_size, char *name, size_t size) {
  snprintf(name, size, "%016llx%016llx.clbin",
           (unsigned long long)hash(key, key_size, 0xcbf29ce484222325u),
           (unsigned long long)hash(key, key_size, 0x9e3779b97f4a7c15u));
}

static header header_of(size_t key_size, const unsigned char *binary, size_t size) {
  header h = {.key_size = key_size, .size = size, .sum = hash(binary, size, size)};
  memcpy(h.magic, magic, sizeof magic);
  return h;
}

/* The binary in a file's content; NULL where it is not the one of this key, or not whole. */
static const unsigned char *find_binary(const char *file, size_t file_size, const char *key,
                                        size_t key_size, size_t *size) {
  header h;
  if (file_size <= sizeof h + key_size) return NULL;
  memcpy(&h, file, sizeof h);
  *size = file_size - sizeof h - key_size;
  const unsigned char *binary = (const unsigned char *)file + sizeof h + key_size;
  header want = header_of(key_size, binary, *size);
  return !memcmp(&h, &want, sizeof h) && !memcmp(file + sizeof h, key, key_size) ? binary : NULL;
}

unsigned char *lo_cl_cache_load(const layerops_open_args *args, const char *key, size_t key_size,
                                size_t *size) {
  char name[48], why[LO_CACHE_WHY];
  size_t file_size;
  name_of(key, key_size, name, sizeof name);
  char *file = lo_cache_read(args, name, LARGEST, &file_size, why);
  const unsigned char *found = file ? find_binary(file, file_size, key, key_size, size) : NULL;
  if (!found) {
    free(file);
    return NULL;
  }
  memmove(file, found, *size);
  return (unsigned char *)file;
}

void lo_cl_cache_save(const layerops_open_args *args, const char *key, size_t key_size,
                      const unsigned char *binary, size_t size) {
  char name[48], why[LO_CACHE_WHY];
  header h = header_of(key_size, binary, size);
  if (!lo_cache_on(args) || size > LARGEST - sizeof h - key_size) return;
  char *file = malloc(sizeof h + key_size + size);
  if (!file) return;
  memcpy(file, &h, sizeof h);
  memcpy(file + sizeof h, key, key_size);
  memcpy(file + sizeof h + key_size, binary, size);
  name_of(key, key_size, name, sizeof name);
  lo_cache_write(args, name, file, sizeof h + key_size + size, why);
  free(file);
}
