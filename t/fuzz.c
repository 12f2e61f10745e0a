/* Valid files are damaged at random, 2000 times each: every reader must answer with an error or
 * with sound data. LAYEROPS_TEST_SEED repeats a run; under a sanitizer it shows what it touches. */
#include <config.h>

#include <math.h>
#include <time.h>

#include "common/philox.h"
#include <layerops/layerops.h>

#include "network/safetensors.h"
#include "t/scratch.h"
#include "t/tap.h"
#include "tools/dataset.h"

#define ROUNDS  2000
#define LARGEST 8192

static uint64_t seed;
static layerops_context *ctx;

/* Word `n` of this file's round. */
static uint32_t draw(uint32_t file, uint32_t round, uint32_t n) {
  uint32_t words[4];
  lo_philox(seed, file, round, n, words);
  return words[0];
}

/* One of the ways in which files go wrong; returns the new size. */
static size_t damage(unsigned char *data, size_t size, size_t largest, uint32_t kind,
                     uint32_t place, uint32_t value) {
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
    if (size == largest) return size;
    memmove(data + at + 1, data + at, size - at);
    data[at] = telling[value % sizeof telling];
    return size + 1;
  default: /* a stretch twice */
    if (n > largest - size) n = largest - size;
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

/* The pattern is one that kernels may follow. */
static const char *check_sparse(const layerops_bsr *sparse) {
  layerops_bsr_info w;
  if (!sparse) return NULL;
  if (layerops_bsr_describe(sparse, &w)) return "no pattern";
  if (w.row_start[0] || w.row_start[w.block_rows] != w.count) return "wrong ends of row_start";
  for (int64_t r = 0; r < w.block_rows; r++)
    for (int64_t i = w.row_start[r]; i < w.row_start[r + 1]; i++)
      if (w.column[i] < 0 || w.column[i] >= w.block_cols ||
          (i > w.row_start[r] && w.column[i] <= w.column[i - 1]))
        return "a column that is out of range or order";
  return NULL;
}

/* A sample goes through it; it can be saved. */
static const char *check_network(layerops_network *net) {
  static const float in[LARGEST];
  static float out[LARGEST];
  layerops_network_info info;
  const char *wrong = NULL;
  if (layerops_network_get_info(net, &info)) return "no description";
  for (int64_t i = 0; i + 1 < info.count && !wrong; i++) {
    const layerops_bsr *sparse;
    wrong = layerops_network_sparse(net, i, &sparse) ? "no layer" : check_sparse(sparse);
  }
  const int64_t inputs = info.widths[0], outputs = info.widths[info.count - 1];
  if (wrong || inputs > LARGEST || outputs > LARGEST) return wrong;
  const layerops_matrix x = layerops_host_matrix(in, LAYEROPS_F32, 1, inputs);
  const layerops_matrix y = layerops_host_matrix(out, LAYEROPS_F32, 1, outputs);
  if (layerops_network_predict(net, &x, &y)) return "no prediction";
  return layerops_network_save(net, scratch_path("saved")) ? "cannot be saved" : NULL;
}

static const char *try_network(const char *name, int *accepted) {
  layerops_network *net;
  if (layerops_network_load(ctx, scratch_path(name), &net))
    return net ? "a network in spite of the error" : NULL;
  ++*accepted;
  const char *wrong = check_network(net);
  if (wrong) diag("%s", layerops_last_error());
  layerops_network_destroy(net);
  return wrong;
}

typedef const char *(*reader)(const char *name, int *accepted);

/* The first `from` bytes stay as they are. */
static void fuzz_behind(size_t from, uint32_t file, const char *damaged, const char *opened,
                        reader try) {
  unsigned char data[LARGEST];
  size_t size;
  unsigned char *valid = scratch_read(damaged, &size);
  int accepted = 0, whole = 0;
  const char *wrong = try(opened, &whole);
  uint32_t round = 0;
  for (; round < ROUNDS && !wrong; round++) {
    size_t n = size - from;
    memcpy(data, valid, size);
    for (uint32_t i = 0; i <= draw(file, round, 0) % 3; i++)
      n = damage(data + from, n, LARGEST - from, draw(file, round, 3 * i + 1),
                 draw(file, round, 3 * i + 2), draw(file, round, 3 * i + 3));
    scratch_write(damaged, data, from + n);
    wrong = try(opened, &accepted);
  }
  ok(!wrong && whole == 1, "%s: %d damaged files, %d of them still valid", damaged, ROUNDS,
     accepted);
  if (wrong) diag("round %u: %s", round, wrong);
  free(valid);
}

static void fuzz(uint32_t file, const char *damaged, const char *opened, reader try) {
  fuzz_behind(0, file, damaged, opened, try);
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

/* Two layers, in blocks that stand out. Returns where the data begin. */
static size_t make_network(const char *name) {
  const int64_t widths[] = {10, 9, 3};
  layerops_network_args args = {.widths = widths, .count = 3, .activation = LAYEROPS_RELU};
  layerops_network_prune_args prune = {.count = 2, .block = 4, .width = 8, .density = 0.7};
  layerops_network *net = NULL;
  size_t size;
  uint64_t header = 0;
  ok(!layerops_network_create(ctx, &args, &net) && !layerops_network_prune(net, &prune) &&
         !layerops_network_save(net, scratch_path(name)),
     "%s: a network is pruned and saved", name);
  layerops_network_destroy(net);
  unsigned char *data = scratch_read(name, &size);
  if (data) memcpy(&header, data, sizeof header);
  free(data);
  return sizeof header + (size_t)header;
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
  if (ok(!layerops_open("cpu", &ctx), "cpu opens")) {
    make_network("f.safetensors");
    fuzz(6, "f.safetensors", "f.safetensors", try_network);
    fuzz_behind(make_network("g.safetensors"), 7, "g.safetensors", "g.safetensors", try_network);
  }
  layerops_close(ctx);
  return done();
}
