/* Compiled programs on disk: one file each in $XDG_CACHE_HOME/layerops (or ~/.cache/layerops),
 * named by a hash of all that it depends on. LAYEROPS_CACHE=0 turns it off. Whatever goes wrong
 * here only costs a compilation, so nothing is reported. */
#include <config.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"

enum { LARGEST = 256 << 20 };

typedef struct header {
  char magic[8];
  uint64_t key[2], size, sum;
} header;

static const char magic[8] = "loclbin1";

/* FNV-1a. */
static uint64_t hash(const void *bytes, size_t size, uint64_t h) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

static header header_of(const char *text, size_t text_size, const unsigned char *binary,
                        size_t size) {
  header h = {.size = size};
  memcpy(h.magic, magic, sizeof magic);
  h.key[0] = hash(text, text_size, 0xcbf29ce484222325u);
  h.key[1] = hash(text, text_size, 0x9e3779b97f4a7c15u);
  h.sum = hash(binary, size, h.key[0]);
  return h;
}

/* Makes each folder of the path; the last is what counts, and opening the file will tell. */
static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
}

/* The file's path; false where there is to be no cache. */
static bool path_of(const header *h, char *path, size_t size) {
  const char *off = getenv("LAYEROPS_CACHE"), *base = getenv("XDG_CACHE_HOME");
  const char *below = "";
  if (off && !strcmp(off, "0")) return false;
  if (!base || base[0] != '/') {
    base = getenv("HOME");
    below = "/.cache";
  }
  if (!base || base[0] != '/') return false;
  int length = snprintf(path, size, "%s%s/layerops/%016llx%016llx.clbin", base, below,
                        (unsigned long long)h->key[0], (unsigned long long)h->key[1]);
  return length > 0 && (size_t)length < size;
}

static unsigned char *read_file(FILE *file, const header *want, size_t *size) {
  header have;
  if (fread(&have, sizeof have, 1, file) != 1) return NULL;
  if (memcmp(have.magic, magic, sizeof magic) || have.key[0] != want->key[0] ||
      have.key[1] != want->key[1] || have.size == 0 || have.size > LARGEST)
    return NULL;
  unsigned char *binary = malloc(have.size);
  if (!binary) return NULL;
  if (fread(binary, 1, have.size, file) != have.size || fgetc(file) != EOF ||
      hash(binary, have.size, have.key[0]) != have.sum) {
    free(binary);
    return NULL;
  }
  *size = have.size;
  return binary;
}

unsigned char *lo_cl_cache_load(const char *text, size_t text_size, size_t *size) {
  char path[4096];
  header want = header_of(text, text_size, NULL, 0);
  if (!path_of(&want, path, sizeof path)) return NULL;
  FILE *file = fopen(path, "rbe");
  if (!file) return NULL;
  unsigned char *binary = read_file(file, &want, size);
  fclose(file);
  return binary;
}

static bool write_all(int fd, const void *bytes, size_t size) {
  const char *p = bytes;
  while (size) {
    ssize_t n = write(fd, p, size);
    if (n <= 0) return false;
    p += n;
    size -= (size_t)n;
  }
  return true;
}

void lo_cl_cache_save(const char *text, size_t text_size, const unsigned char *binary,
                      size_t size) {
  char path[4096], temporary[4128];
  header h = header_of(text, text_size, binary, size);
  if (!path_of(&h, path, sizeof path)) return;
  make_folders(path);
  snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
  int fd = mkstemp(temporary);
  if (fd < 0) return;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  bool done = write_all(fd, &h, sizeof h) && write_all(fd, binary, size);
  done = !close(fd) && done;
  if (!done || rename(temporary, path)) unlink(temporary);
}
