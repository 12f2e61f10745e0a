/* Valid files are damaged at random, 2000 times each: every reader must answer with an error or
 * with sound data. LAYEROPS_TEST_SEED repeats a run; under a sanitizer it shows what it touches. */
#include <config.h>

#include <math.h>
#include <time.h>

#include "common/philox.h"
#include "network/safetensors.h"
#include "t/scratch.h"
#include "t/tap.h"
#include "tools/dataset.h"

#define ROUNDS  2000
#define LARGEST 4096

static uint64_t seed;

/* Word `n` of this file's round. */
static uint32_t draw(uint32_t file, uint32_t round, uint32_t n) {
  uint32_t words[4];
  lo_philox(seed, file, round, n, words);
  return words[0];
}

/* One of the ways in which files go wrong; returns the new size. */
static size_t damage(unsigned char *data, size_t size, uint32_t kind, uint32_t place,
                     uint32_t value) {
  static const unsigned char telling[] = {0,   1,   0x7f, 0x80, 0xff, '0',
                                          '9', '-', ',',  '"',  '\n', '}'};
  size_t at = size ? place % size : 0, n = size ? value % (size - at) + 1 : 0;
  switch (size ? kind % 7 : 5) {
  case 0:
    data[at] ^= (unsigned char)(1u << value % 8);
    return size;
  case 1:
    data[at] = telling[value % sizeof telling];
    return size;
  case 2:
    data[at] = (unsigned char)value;
    return size;
  case 3:
    return at; /* truncated */
  case 4:
    memmove(data + at, data + at + n, size - at - n);
    return size - n;
  case 5: /* inserted */
    if (size == LARGEST) return size;
    memmove(data + at + 1, data + at, size - at);
    data[at] = telling[value % sizeof telling];
    return size + 1;
  default: /* a stretch twice */
    if (n > LARGEST - size) n = LARGEST - size;
    memmove(data + at + n, data + at, size - at);
    return size + n;
  }
}

static const char *check_part(const struct dataset *d, const struct dataset_part *part) {
  for (int64_t i = 0; i < part->count * d->features; i++)
    if (!isfinite(part->x[i])) return "a value that is not finite";
  for (int64_t i = 0; part->labels && i < part->count; i++)
    if (part->labels[i] < 0 || part->labels[i] >= d->classes) return "a label out of range";
  return NULL;
}

/* What is wrong with the reader's answer; NULL for nothing. */
static const char *try_dataset(const char *name, int *accepted) {
  struct dataset_options options = {.use = DATASET_PREDICT, .max_bytes = 1 << 24};
  struct dataset d;
  const char *wrong = NULL;
  if (dataset_load(&d, scratch_path(name), &options)) {
    wrong = d.error[0] == 0 ? "an error without a message" : d.owned[0] ? "memory kept" : NULL;
  } else {
    ++*accepted;
    wrong = d.test.count < 1 || d.features < 1 ? "success without rows" : check_part(&d, &d.test);
  }
  dataset_free(&d);
  return wrong;
}

static const char *try_safetensors(const char *name, int *accepted) {
  lo_safetensors file;
  const char *wrong = NULL;
  if (lo_safetensors_read(scratch_path(name), &file)) return file.data ? "memory kept" : NULL;
  ++*accepted;
  unsigned sum = 0;
  for (int64_t i = 0; i < file.count; i++) {
    int64_t bytes;
    if (lo_safetensors_bytes(name, &file.tensors[i], &bytes) || bytes != file.tensors[i].bytes)
      wrong = "a size that disagrees with the shape";
    for (int64_t j = 0; j < file.tensors[i].bytes; j++)
      sum += ((const unsigned char *)file.tensors[i].data)[j];
  }
  if (sum == 0xffffffff) diag("every byte was read");
  lo_safetensors_free(&file);
  return wrong;
}

typedef const char *(*reader)(const char *name, int *accepted);

static void fuzz(uint32_t file, const char *damaged, const char *opened, reader try) {
  unsigned char data[LARGEST];
  size_t size;
  unsigned char *valid = scratch_read(damaged, &size);
  int accepted = 0, whole = 0;
  const char *wrong = try(opened, &whole);
  uint32_t round = 0;
  for (; round < ROUNDS && !wrong; round++) {
    size_t n = size;
    memcpy(data, valid, size);
    for (uint32_t i = 0; i <= draw(file, round, 0) % 3; i++)
      n = damage(data, n, draw(file, round, 3 * i + 1), draw(file, round, 3 * i + 2),
                 draw(file, round, 3 * i + 3));
    scratch_write(damaged, data, n);
    wrong = try(opened, &accepted);
  }
  ok(!wrong && whole == 1, "%s: %d damaged files, %d of them still valid", damaged, ROUNDS,
     accepted);
  if (wrong) diag("round %u: %s", round, wrong);
  free(valid);
}

#define IMAGES     "\0\0\x08\3\0\0\0\3\0\0\0\2\0\0\0\2\0\1\2\3\xff\xfe\x80\x7f\4\5\6\7"
#define LABELS     "\0\0\x08\1\0\0\0\3\0\2\1"
#define DICTIONARY "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"

static void make_files(void) {
  char npy[256] = "\x93NUMPY\1\0";
  const float values[6] = {1, 2, 3, 4, 5, -6};
  scratch_write("a-images-idx3-ubyte", IMAGES, sizeof IMAGES - 1);
  scratch_write("a-labels-idx1-ubyte", LABELS, sizeof LABELS - 1);
  scratch_write_gz("b.idx.gz", IMAGES, sizeof IMAGES - 1);
  scratch_text("c.csv", "a,\"b, b\",label\n1,2.5,0\n\"3\",-4e-2,1\n5, 6 ,2\n");
  npy[8] = sizeof DICTIONARY - 1;
  memcpy(npy + 10, DICTIONARY, sizeof DICTIONARY - 1);
  memcpy(npy + 10 + sizeof DICTIONARY - 1, values, sizeof values);
  scratch_write("d.npy", npy, 10 + sizeof DICTIONARY - 1 + sizeof values);
  lo_tensor tensors[] = {
      {.name = "w", .dtype = "F32", .rank = 2, .shape = {2, 3}, .data = values},
      {.name = "b", .dtype = "BF16", .rank = 1, .shape = {4}, .data = values},
  };
  lo_metadata metadata = {"format", "1"};
  lo_safetensors_write(scratch_path("e.safetensors"),
                       &(lo_safetensors){tensors, 2, &metadata, 1, NULL, NULL});
}

int main(void) {
  const char *asked = getenv("LAYEROPS_TEST_SEED");
  seed = asked ? strtoull(asked, NULL, 0) : (uint64_t)time(NULL);
  diag("LAYEROPS_TEST_SEED=%llu", (unsigned long long)seed);
  scratch_begin();
  make_files();
  fuzz(0, "a-images-idx3-ubyte", "a-images-idx3-ubyte", try_dataset);
  make_files();
  fuzz(1, "a-labels-idx1-ubyte", "a-images-idx3-ubyte", try_dataset);
  fuzz(2, "b.idx.gz", "b.idx.gz", try_dataset);
  fuzz(3, "c.csv", "c.csv", try_dataset);
  fuzz(4, "d.npy", "d.npy", try_dataset);
  fuzz(5, "e.safetensors", "e.safetensors", try_safetensors);
  return done();
}
