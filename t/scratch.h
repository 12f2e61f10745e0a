/* A temporary folder for tests that make files, and the files. */
#ifndef LO_SCRATCH_H
#define LO_SCRATCH_H

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char scratch[4096];

static inline int scratch_remove(const char *path, const struct stat *st, int kind,
                                 struct FTW *ftw) {
  (void)st, (void)kind, (void)ftw;
  return remove(path);
}

static inline void scratch_end(void) {
  nftw(scratch, scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void scratch_begin(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(scratch, sizeof scratch, "%s/layerops-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(scratch)) {
    perror(scratch);
    exit(1);
  }
  atexit(scratch_end);
}

/* The full path of a file in the folder; up to four results live at once. */
static inline const char *scratch_path(const char *name) {
  static char paths[4][8192];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
  return path;
}

static inline void scratch_write(const char *name, const void *data, size_t size) {
  remove(scratch_path(name)); /* ext4 waits for the disk where a file is truncated and rewritten */
  FILE *file = fopen(scratch_path(name), "wb");
  if (!file || (size && fwrite(data, size, 1, file) != 1) || fclose(file)) {
    perror(name);
    exit(1);
  }
}

static inline void scratch_write_gz(const char *name, const void *data, size_t size) {
  gzFile file = gzopen(scratch_path(name), "wb9");
  if (!file || (size && gzwrite(file, data, (unsigned)size) != (int)size) ||
      gzclose(file) != Z_OK) {
    fprintf(stderr, "%s: cannot be written\n", name);
    exit(1);
  }
}

static inline void scratch_text(const char *name, const char *text) {
  scratch_write(name, text, strlen(text));
}

/* The whole file; the caller frees it. */
static inline unsigned char *scratch_read(const char *name, size_t *size) {
  FILE *file = fopen(scratch_path(name), "rb");
  *size = 0;
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long length = ftell(file);
  rewind(file);
  unsigned char *data = malloc((size_t)length + 1);
  *size = fread(data, 1, (size_t)length, file);
  fclose(file);
  return data;
}

#endif
