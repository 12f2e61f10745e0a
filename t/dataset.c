/* The data-set readers: what they read, and what they say about damaged and hostile files. */
#include <config.h>

#include <math.h>
#include <sys/stat.h>

#include "t/scratch.h"
#include "t/is.h"
#include "tools/dataset.h"

#define BYTES(text) text, sizeof text - 1

static struct dataset d;

static int load(const char *name, const struct dataset_options *options) {
  dataset_free(&d);
  return (int)dataset_load(&d, scratch_path(name), options);
}

static const struct dataset_options predict = {.use = DATASET_PREDICT};

/* The failure's status, its text, and that the text begins with the file's path. */
static void fails(const char *name, const struct dataset_options *options, int status,
                  const char *text) {
  int got = load(name, options);
  const char *path = scratch_path(name);
  int good = got == status && strstr(d.error, text) && !strncmp(d.error, path, strlen(path));
  ok(good, "%s: %s", name, text);
  if (!good) diag("status %d, want %d: \"%s\"", got, status, d.error);
  ok(!d.train.x && !d.test.x && !d.owned[0] && !d.owned[2], "%s: holds nothing after it", name);
}

/* ---- IDX ---- */

/* Three 2 x 2 images and their labels, and a fourth of each kind for the test part. */
#define IMAGES  "\0\0\x08\3\0\0\0\3\0\0\0\2\0\0\0\2\0\1\2\3\xff\xfe\x80\x7f\4\5\6\7"
#define LABELS  "\0\0\x08\1\0\0\0\3\0\2\1"
#define IMAGES1 "\0\0\x08\3\0\0\0\1\0\0\0\2\0\0\0\2\x09\x08\x07\x06"
#define LABELS1 "\0\0\x08\1\0\0\0\1\4"

static void make_directory(const char *name, const char *suffix) {
  char path[256];
  static const struct {
    const char *name, *bytes;
    size_t size;
  } files[] = {{"train-images-idx3-ubyte", BYTES(IMAGES)},
               {"train-labels-idx1-ubyte", BYTES(LABELS)},
               {"t10k-images-idx3-ubyte", BYTES(IMAGES1)},
               {"t10k-labels-idx1-ubyte", BYTES(LABELS1)}};
  mkdir(scratch_path(name), 0777);
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s%s", name, files[i].name, suffix);
    (*suffix ? scratch_write_gz : scratch_write)(path, files[i].bytes, files[i].size);
  }
}

static void idx_directory(const char *name, const char *suffix) {
  make_directory(name, suffix);
  is_int(load(name, NULL), DATASET_OK, "%s: loads", name);
  diag("%s", d.error);
  ok(d.train.count == 3 && d.test.count == 1 && d.features == 4 && d.classes == 5 && !d.subset,
     "%s: 3 + 1 rows of 4, 5 classes", name);
  is_str(d.name, name, "%s: its name", name);
  is_str(d.note, "", "%s: nothing to note", name);
  ok(d.train.x[4] == 1 && d.train.x[6] == 128 / 255.f && d.test.x[0] == 9 / 255.f,
     "%s: pixels are divided by 255", name);
  ok(d.train.labels[1] == 2 && d.test.labels[0] == 4, "%s: labels", name);
  is_int(load(name, &predict), DATASET_OK, "%s: loads for prediction", name);
  ok(d.train.count == 0 && d.test.count == 1, "%s: the test part alone is read", name);
}

static void idx_pixels(void) {
  unsigned char all[16 + 256] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, 16};
  int good = 1;
  for (int i = 0; i < 256; i++) all[16 + i] = (unsigned char)i;
  scratch_write("all-images-idx3-ubyte", all, sizeof all);
  is_int(load("all-images-idx3-ubyte", &predict), DATASET_OK, "a lone file of images is read");
  for (int i = 0; i < 256 && good; i++) good = d.test.x[i] == (float)i / 255.f;
  ok(good && d.test.count == 2 && d.features == 128 && !d.test.labels && d.classes == 0,
     "all 256 values are those of a float32 division");
  struct dataset_options raw = {.use = DATASET_PREDICT, .scale = 1};
  is_int(load("all-images-idx3-ubyte", &raw), DATASET_OK, "scale 1");
  ok(d.test.x[255] == 255, "scale 1 keeps the values");
  fails("all-images-idx3-ubyte", NULL, DATASET_ERROR_FORMAT, "has no labels, which training needs");
}

static void idx_types(void) {
  static const struct {
    const char *name, *bytes;
    size_t size;
    float want[2];
  } cases[] = {
      {"i1.idx", BYTES("\0\0\x09\2\0\0\0\1\0\0\0\2\xff\x7f"), {-1, 127}},
      {"i2.idx", BYTES("\0\0\x0b\2\0\0\0\1\0\0\0\2\xff\xfe\1\0"), {-2, 256}},
      {"i4.idx", BYTES("\0\0\x0c\2\0\0\0\1\0\0\0\2\xff\xff\xff\xfd\0\1\0\0"), {-3, 65536}},
      {"f4.idx", BYTES("\0\0\x0d\2\0\0\0\1\0\0\0\2\x3f\x80\0\0\xc0\0\0\0"), {1, -2}},
      {"f8.idx",
       BYTES("\0\0\x0e\2\0\0\0\1\0\0\0\2\x3f\xf0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0"),
       {1, -2}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    scratch_write(cases[i].name, cases[i].bytes, cases[i].size);
    int status = load(cases[i].name, &predict);
    ok(!status && d.test.x[0] == cases[i].want[0] && d.test.x[1] == cases[i].want[1], "%s: %s",
       cases[i].name, status ? d.error : "big-endian values");
  }
}

static void idx_pair(void) {
  scratch_write("a-images-idx3-ubyte", BYTES(IMAGES));
  scratch_write("a-labels-idx1-ubyte", BYTES(LABELS));
  is_int(load("a-images-idx3-ubyte", NULL), DATASET_OK, "labels are found beside the images");
  ok(d.train.count == 2 && d.test.count == 1 && d.test.labels[0] == 1 && d.test.x[0] == 4 / 255.f,
     "no test part: the last rows are split off");
  is_str(d.note, "a-images-idx3-ubyte has no test part: its last 1 of 3 rows are kept for the test",
         "the split is noted");
  is_int(load("a-images-idx3-ubyte", &predict), DATASET_OK, "for prediction");
  ok(d.test.count == 3 && d.train.count == 0, "nothing is split off for prediction");
  struct dataset_options two = {.classes = 2};
  int status = load("a-images-idx3-ubyte", &two);
  contains(d.error,
           "a-labels-idx1-ubyte: row 1 (from 0): label 2 is not below the number of classes; "
           "labels are integers from 0 to 1",
           "too few classes");
  is_int(status, DATASET_ERROR_FORMAT, "too few classes: status");
}

static void idx_hostile(void) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *text;
  } cases[] = {
      {BYTES(""), "is empty"},
      {BYTES("\0\0\x08"), "truncated: the file ends in its IDX header"},
      {BYTES("\0\0\x08\3\0\0\0\3\0\0"), "truncated: the file ends in its IDX header"},
      {BYTES("\0\1\x08\3\0\0\0\3\0\0\0\2\0\0\0\2"), "not an IDX file: it begins with 00 01"},
      {BYTES("\0\0\x0a\3\0\0\0\3\0\0\0\2\0\0\0\2"), "unknown IDX data type 0x0a"},
      {BYTES("\0\0\x08\0"), "0 dimensions; IDX files of 1 to 8 are read"},
      {BYTES("\0\0\x08\xff"), "255 dimensions; IDX files of 1 to 8 are read"},
      {BYTES("\0\0\x08\1\0\0\0\3\0\2\1"), "has 1 dimension: labels, perhaps"},
      {BYTES("\0\0\x08\3\0\0\0\3\0\0\0\3\0\0\0\3\0\1\2\3"),
       "truncated or lying: the header promises 3 x 3 x 3 elements of 1 bytes, the file can hold "
       "at "
       "most 20 bytes"},
      {BYTES("\0\0\x08\3\0\0\0\1\0\0\0\2\0\0\0\2\0\1"),
       "truncated: the header promises 1 x 2 x 2 elements, the data ends after 2"},
      {BYTES(IMAGES "\0"), "goes on after the 3 x 2 x 2 elements that its header promises"},
      {BYTES("\0\0\x08\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
       "truncated or lying: the header promises 4294967295 x 4294967295 x 4294967295 elements"},
      {BYTES("\0\0\x0e\2\x80\0\0\0\x20\0\0\0"), "truncated or lying"},
      {BYTES("\0\0\x08\3\0\0\0\0\0\0\0\2\0\0\0\2"), "holds no rows: its shape is 0 x 2 x 2"},
      {BYTES("\0\0\x08\3\0\0\0\2\0\0\0\0\0\0\0\2"), "holds no rows: its shape is 2 x 0 x 2"},
      {BYTES("\0\0\x0d\2\0\0\0\1\0\0\0\2\x3f\x80\0\0\x7f\xc0\0\0"),
       "row 0, column 1 (from 0): nan is not a finite float32"},
      {BYTES("\0\0\x0e\2\0\0\0\1\0\0\0\1\x7f\xe0\0\0\0\0\0\0"),
       "row 0, column 0 (from 0): 8.98847e+307 is not a finite float32"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char name[64];
    snprintf(name, sizeof name, "hostile%zu.idx", i);
    scratch_write(name, cases[i].bytes, cases[i].size);
    fails(name, &predict, DATASET_ERROR_FORMAT, cases[i].text);
    if (cases[i].size == 0) continue;
    strcat(name, ".gz");
    scratch_write_gz(name, cases[i].bytes, cases[i].size);
    int status = load(name, &predict);
    ok(status == DATASET_ERROR_FORMAT && !d.owned[2], "%s: refused when packed, too: %s", name,
       d.error);
  }
}

static void idx_label_files(void) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *text;
  } cases[] = {
      {BYTES("\0\0\x08\1\0\0\0\2\0\2"), "2 labels, but "},
      {BYTES("\0\0\x08\2\0\0\0\3\0\0\0\2\0\0\0\0\0\0"),
       "its shape is 3 x 2; labels are one integer a row"},
      {BYTES("\0\0\x09\1\0\0\0\3\0\xff\1"), "row 1 (from 0): label -1 is negative"},
      {BYTES("\0\0\x0d\1\0\0\0\3\0\0\0\0\x3f\0\0\0\0\0\0\0"),
       "row 1 (from 0): label 0.5 is not an integer"},
      {BYTES("\0\0\x0d\1\0\0\0\3\x7f\xc0\0\0\x3f\0\0\0\0\0\0\0"),
       "row 0 (from 0): label nan is not an integer"},
      {BYTES("\0\0\x0c\1\0\0\0\3\0\0\0\0\x7f\xff\xff\xff\0\0\0\0"),
       "row 1 (from 0): label 2147483647 is too large to be a class; labels are integers from 0 to "
       "1048575"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    scratch_write("b-images-idx3-ubyte", BYTES(IMAGES));
    scratch_write("b-labels-idx1-ubyte", cases[i].bytes, cases[i].size);
    is_int(load("b-images-idx3-ubyte", NULL), DATASET_ERROR_FORMAT, "labels %zu: refused", i);
    contains(d.error, cases[i].text, "labels %zu: %s", i, cases[i].text);
    contains(d.error, "b-labels-idx1-ubyte: ", "labels %zu: names the file", i);
  }
}

static void directories(void) {
  mkdir(scratch_path("empty"), 0777);
  fails("empty", NULL, DATASET_ERROR_FILE,
        "no data set here: train_x.npy, train-images-idx3-ubyte or train.csv, each also with .gz");
  fails("nowhere", NULL, DATASET_ERROR_FILE, "cannot open: No such file or directory");
  make_directory("part", "");
  unlink(scratch_path("part/t10k-labels-idx1-ubyte"));
  fails("part", NULL, DATASET_ERROR_FILE,
        ": t10k-labels-idx1-ubyte (or t10k-labels-idx1-ubyte.gz) is missing beside "
        "t10k-images-idx3-ubyte");
  unlink(scratch_path("part/t10k-images-idx3-ubyte"));
  is_int(load("part", NULL), DATASET_OK, "a directory without a test part is split");
  ok(d.train.count == 2 && d.test.count == 1 && d.note[0], "2 + 1 rows, noted");
  unlink(scratch_path("part/train-images-idx3-ubyte"));
  fails("part", NULL, DATASET_ERROR_FILE, ": train-images-idx3-ubyte (or ");
  make_directory("testonly", "");
  unlink(scratch_path("testonly/train-images-idx3-ubyte"));
  unlink(scratch_path("testonly/train-labels-idx1-ubyte"));
  fails("testonly", NULL, DATASET_ERROR_FILE, "holds a test part, but no training part");
  is_int(load("testonly", &predict), DATASET_OK, "a test part alone serves prediction");
  make_directory("widths", "");
  scratch_write("widths/t10k-images-idx3-ubyte", BYTES("\0\0\x08\2\0\0\0\1\0\0\0\3\1\2\3"));
  is_int(load("widths", NULL), DATASET_ERROR_FORMAT, "parts of different widths");
  contains(d.error, "t10k-images-idx3-ubyte: rows of 3 values; the training part has 4", "says so");
  mkdir(scratch_path("folder.csv"), 0777);
  make_directory("asdir", "");
  unlink(scratch_path("asdir/train-images-idx3-ubyte"));
  mkdir(scratch_path("asdir/train-images-idx3-ubyte"), 0777);
  is_int(load("asdir", NULL), DATASET_ERROR_FILE, "a directory in place of a file");
  contains(d.error, "train-images-idx3-ubyte: is a directory, not a regular file", "says so");
}

static void special_files(void) {
  if (mkfifo(scratch_path("pipe"), 0666) == 0)
    fails("pipe", NULL, DATASET_ERROR_FILE, "is a pipe, not a regular file");
  scratch_text("secret.csv", "1,2\n");
  chmod(scratch_path("secret.csv"), 0);
  /* Root reads everything, so that the test gives the right away for a moment. */
  uid_t user = geteuid();
  if (user != 0 || seteuid(65534) == 0) {
    fails("secret.csv", NULL, DATASET_ERROR_FILE, "cannot open: Permission denied");
    if (user == 0 && seteuid(0)) exit(1);
  } else {
    skip("an unreadable file", "root reads everything and cannot become nobody");
  }
  dataset_free(&d);
  is_int(dataset_load(&d, "/dev/zero", NULL), DATASET_ERROR_FILE, "a device is refused");
  is_str(d.error, "/dev/zero: is a device, not a regular file", "and named");
  scratch_text("what.bin", "hello\n");
  fails("what.bin", NULL, DATASET_ERROR_FORMAT, "of no known format: neither .npy, IDX nor CSV");
  scratch_text("e\033[31m.bin", "hello\n");
  is_int(load("e\033[31m.bin", NULL), DATASET_ERROR_FORMAT, "a name with control characters");
  ok(!strchr(d.error, '\033'), "is not sent to the terminal");
}

static void subset(void) {
  make_directory("sub", "");
  scratch_text("sub/SUBSET", "A subset: 3 of 60\nmore\n");
  is_int(load("sub", NULL), DATASET_OK, "a subset loads");
  ok(d.subset, "and is told as one");
  is_str(d.name, "A subset: 3 of 60", "by its name");
}

/* The subset that the repository brings along: as many of each class. */
static void bundled(void) {
  char path[4096];
  const char *source = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/data/fashion-mnist-subset", source ? source : ".");
  setenv("LAYEROPS_DATA", path, 1);
  is_str(dataset_default_path(), path, "LAYEROPS_DATA names the default");
  dataset_free(&d);
  is_int(dataset_load(&d, path, NULL), DATASET_OK, "the bundled subset loads: %s", d.error);
  ok(d.subset && d.train.count == 4000 && d.test.count == 1000 && d.features == 784 &&
         d.classes == 10,
     "4000 + 1000 images, told as a subset");
  int count[2][10] = {{0}}, even = 1;
  for (int i = 0; i < d.train.count; i++) count[0][d.train.labels[i]]++;
  for (int i = 0; i < d.test.count; i++) count[1][d.test.labels[i]]++;
  for (int i = 0; i < 10; i++) even = even && count[0][i] == 400 && count[1][i] == 100;
  ok(even, "400 + 100 of each class");
  contains(d.name, "subset", "its name says subset: %s", d.name);
  unsetenv("LAYEROPS_DATA");
  const char *found = dataset_default_path();
  ok(found && access(found, R_OK) == 0, "without LAYEROPS_DATA: %s", found ? found : "nothing");
}

/* ---- gzip ---- */

static void gzip_hostile(void) {
  size_t size;
  scratch_write_gz("g.idx.gz", BYTES(IMAGES));
  unsigned char *whole = scratch_read("g.idx.gz", &size);
  int refused = 1;
  for (size_t n = 2; n < size; n++) {
    scratch_write("cut.idx.gz", whole, n);
    refused = refused && load("cut.idx.gz", &predict) == DATASET_ERROR_FORMAT;
  }
  ok(refused, "a packed file cut at any of its %zu bytes is refused", size);
  contains(d.error, "truncated: the file of ", "the last cut says: truncated");
  whole[size - 6] ^= 1; /* of the checksum */
  scratch_write("crc.idx.gz", whole, size);
  fails("crc.idx.gz", &predict, DATASET_ERROR_FORMAT, "damaged gzip data: incorrect data check");
  whole[size - 6] ^= 1;
  unsigned char *twice = malloc(2 * size);
  memcpy(twice, whole, size);
  memcpy(twice + size, whole, size);
  memcpy(twice + size, "garbage", 7);
  scratch_write("tail.idx.gz", twice, size + 7);
  fails("tail.idx.gz", &predict, DATASET_ERROR_FORMAT,
        "bytes that are not gzip follow the end of the gzip data");
  memcpy(twice + size, whole, size);
  scratch_write("twice.idx.gz", twice, 2 * size);
  fails("twice.idx.gz", &predict, DATASET_ERROR_FORMAT, "goes on after the 3 x 2 x 2 elements");
  free(twice);
  free(whole);
}

/* A small file that unpacks to 64 MiB: what the header does not promise is not unpacked. */
static void gzip_bomb(void) {
  enum { SIZE = 1 << 26 };
  unsigned char *zeros = calloc(SIZE, 1);
  memcpy(zeros, IMAGES, sizeof IMAGES - 1);
  scratch_write_gz("bomb.idx.gz", zeros, SIZE);
  fails("bomb.idx.gz", &predict, DATASET_ERROR_FORMAT, "goes on after the 3 x 2 x 2 elements");
  memset(zeros, '1', SIZE);
  scratch_write_gz("line.csv.gz", zeros, SIZE);
  fails("line.csv.gz", &predict, DATASET_ERROR_FORMAT,
        ":1:1: the line is longer than 16777216 bytes");
  for (int i = 1; i < SIZE; i += 2) zeros[i] = i % 4 == 1 ? ',' : '\n';
  scratch_write_gz("rows.csv.gz", zeros, SIZE);
  struct dataset_options limited = {.max_bytes = 1 << 20};
  fails("rows.csv.gz", &limited, DATASET_ERROR_MEMORY,
        "the rows need more than the limit of 1048576 bytes");
  memcpy(zeros, "\0\0\x08\2\0\1\0\0\0\0\4\0", 12); /* 65536 x 1024 */
  scratch_write_gz("large.idx.gz", zeros, SIZE);
  limited.use = DATASET_PREDICT;
  fails("large.idx.gz", &limited, DATASET_ERROR_MEMORY,
        "65536 x 1024 values of 4 bytes are more than the limit of 1048576 bytes");
  free(zeros);
}

/* ---- .npy ---- */

/* A version 1 header with this dictionary, and the data. */
static void npy(const char *name, const char *dictionary, const void *data, size_t size) {
  unsigned char file[1024] = "\x93NUMPY\1\0";
  size_t n = strlen(dictionary);
  file[8] = (unsigned char)n;
  file[9] = (unsigned char)(n >> 8);
  memcpy(file + 10, dictionary, n);
  memcpy(file + 10 + n, data, size);
  scratch_write(name, file, 10 + n + size);
}

#define NPY(descr, shape)                                                                          \
  "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }          \n"

static void npy_reads(void) {
  static const float x[6] = {1, -2, 3.5f, 0, 1e-3f, 7};
  static const int64_t y[3] = {2, 0, 1};
  mkdir(scratch_path("n"), 0777);
  npy("n/train_x.npy", NPY("<f4", "(3, 2)"), x, sizeof x);
  npy("n/train_y.npy", NPY("<i8", "(3,)"), y, sizeof y);
  npy("n/test_x.npy", NPY("|u1", "(1, 1, 2)"), "\xff\1", 2);
  npy("n/test_y.npy", NPY(">i4", "(1, 1)"), "\0\0\0\3", 4);
  is_int(load("n", NULL), DATASET_OK, "a directory of .npy: %s", d.error);
  ok(d.train.count == 3 && d.features == 2 && d.classes == 4 && !memcmp(d.train.x, x, sizeof x) &&
         d.train.labels[0] == 2 && d.test.x[0] == 1 && d.test.labels[0] == 3,
     "f4, i8, u1 and big-endian i4 are read");
  is_int(load("n/train_x.npy", NULL), DATASET_OK, "x.npy takes its labels from y.npy");
  ok(d.train.count == 2 && d.test.labels[0] == 1, "and is split");
  static const double f8[2] = {0.5, -1.25};
  npy("f8.npy", "{\"shape\":(2,1),\"fortran_order\":False,\"descr\":\"<f8\"}", f8, sizeof f8);
  is_int(load("f8.npy", &predict), DATASET_OK, "f8, keys in another order, other quotes: %s",
         d.error);
  ok(d.test.x[0] == 0.5f && d.test.x[1] == -1.25f, "its values");
  static const char v2[] =
      "\x93NUMPY\2\0\x3c\0\0\0{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1)}  \n\x33";
  scratch_write("v2.npy", v2, sizeof v2 - 1);
  is_int(load("v2.npy", &predict), DATASET_OK, "version 2: %s", d.error);
  ok(d.test.x && d.test.x[0] == 0x33 / 255.f, "its value");
}

static void npy_hostile(void) {
  static const struct {
    const char *dictionary, *text;
  } cases[] = {
      {"", ".npy header: '{' expected at \"\""},
      {"{", "a short string expected"},
      {"{'descr", "a short string expected"},
      {"{'descr': '<f4'}", "descr, fortran_order or shape is missing"},
      {"{'descr': '<f4', 'descr': '<f4'}", "a key twice"},
      {"{'x': 1}", "an unknown key"},
      {"{'descr' '<f4'}", "':' expected"},
      {"{'descr': [('a', '<f4')]}", "structured data types are not read"},
      {NPY("<f2", "(1, 1)"), ".npy data type '<f2'; u1, i1, i2, i4, i8, f4 and f8 are read"},
      {NPY("<c16", "(1, 1)"), ".npy data type '<c16'"},
      {NPY("|O", "(1, 1)"), ".npy data type '|O'"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "is in Fortran order"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1, 1)}", "True or False expected"},
      {NPY("<f4", "(-1, 2)"), "a dimension expected"},
      {NPY("<f4", "(1 2)"), "',' or ')' expected"},
      {NPY("<f4", "[1, 2]"), "a shape expected"},
      {NPY("<f4", "(9223372036854775808, 1)"), "a dimension above 2^63"},
      {NPY("<f4", "(9223372036854775807, 2)"), "truncated or lying"},
      {NPY("<f4", "(4611686018427387904, 4)"), "truncated or lying"},
      {NPY("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "more than 8 dimensions"},
      {NPY("<f4", "()"), "has 0 dimensions"},
      {NPY("<f4", "(4,)"), "has 1 dimension: labels, perhaps"},
      {NPY("<f4", "(0, 4)"), "holds no rows"},
      {NPY("<f4", "(1, 2)"),
       "truncated: the header promises 1 x 2 elements, the data ends after 1"},
      {NPY("|u1", "(1, 3)"), "goes on after the 1 x 3 elements"},
      {NPY("<f4", "(1, 1)") "x", "text after '}'"},
  };
  char name[32];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(name, sizeof name, "hostile%zu.npy", i);
    npy(name, cases[i].dictionary, "\0\0\0\0", 4);
    fails(name, &predict, DATASET_ERROR_FORMAT, cases[i].text);
  }
  scratch_write("magic.npy", BYTES("\x93NUMPX\1\0\1\0{"));
  fails("magic.npy", &predict, DATASET_ERROR_FORMAT,
        "not a .npy file: the magic string is missing");
  scratch_write("v4.npy", BYTES("\x93NUMPY\4\0\1\0{"));
  fails("v4.npy", &predict, DATASET_ERROR_FORMAT, ".npy version 4.0; 1 to 3 are read");
  scratch_write("long.npy", BYTES("\x93NUMPY\2\0\xff\xff\xff\xff{"));
  fails("long.npy", &predict, DATASET_ERROR_FORMAT,
        ".npy header of 4294967295 bytes; at most 65536");
  scratch_write("cut.npy", BYTES("\x93NUMPY\1\0\xff\0{"));
  fails("cut.npy", &predict, DATASET_ERROR_FORMAT, "truncated: the file ends in its .npy header");
  scratch_write("zero.npy", BYTES("\x93NUMPY\1\0\2\0{\0"));
  fails("zero.npy", &predict, DATASET_ERROR_FORMAT, "a zero byte");
}

int main(void) {
  scratch_begin();
  idx_directory("plain", "");
  idx_directory("packed", ".gz");
  idx_pixels();
  idx_types();
  idx_pair();
  idx_hostile();
  idx_label_files();
  directories();
  special_files();
  subset();
  bundled();
  gzip_hostile();
  gzip_bomb();
  npy_reads();
  npy_hostile();
  dataset_free(&d);
  return done();
}
