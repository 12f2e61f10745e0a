/* .safetensors: what is written is read back, damaged files are refused, a failed write keeps the
 * old file. `safetensors show FILE` and `safetensors make FILE` serve t/safetensors.t. */
#include <config.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "network/safetensors.h"
#include "t/is.h"
#include "t/scratch.h"

static const float weights[6] = {1, -2.5f, 3e38f, 1e-45f, 0, INFINITY};
static const int32_t integers[3] = {INT32_MIN, 0, INT32_MAX};
static const uint16_t halves[4] = {0x3c00, 0xc000, 0x7bff, 0x0001};
static const uint8_t bytes[3] = {0, 128, 255};
static const double doubles[2] = {1e300, -0.1};

static lo_tensor tensors[] = {
    {.name = "bytes", .dtype = "U8", .rank = 1, .shape = {3}, .data = bytes},
    {.name = "layers.0.weight", .dtype = "F32", .rank = 2, .shape = {2, 3}, .data = weights},
    {.name = "half", .dtype = "F16", .rank = 3, .shape = {1, 2, 2}, .data = halves},
    {.name = "int\303\251gers \"quoted\"",
     .dtype = "I32",
     .rank = 1,
     .shape = {3},
     .data = integers},
    {.name = "empty", .dtype = "F32", .rank = 2, .shape = {0, 5}},
    {.name = "scalar", .dtype = "F32", .rank = 0, .data = weights},
    {.name = "double", .dtype = "F64", .rank = 2, .shape = {2, 1}, .data = doubles},
    {.name = "brain", .dtype = "BF16", .rank = 1, .shape = {4}, .data = halves},
};
static lo_metadata metadata[] = {{"format", "layerops 1"}, {"note", "line\nbreak \"\303\251\""}};
static const lo_safetensors sample = {tensors, sizeof tensors / sizeof *tensors, metadata, 2, NULL,
                                      NULL};

static void same_back(void) {
  const char *path = scratch_path("a.safetensors");
  lo_safetensors file;
  is_int(lo_safetensors_write(path, &sample), LAYEROPS_OK, "writing");
  is_int(lo_safetensors_read(path, &file), LAYEROPS_OK, "reading");
  is_int(file.count, sample.count, "all tensors are there");
  is_int(file.metadata_count, 2, "all metadata are there");
  for (int64_t i = 0; i < sample.count; i++) {
    const lo_tensor *want = &tensors[i], *got = lo_safetensors_find(&file, want->name);
    int64_t size;
    lo_safetensors_bytes("", want, &size);
    ok(got && !strcmp(got->dtype, want->dtype) && got->rank == want->rank && got->bytes == size &&
           !memcmp(got->shape, want->shape, (size_t)want->rank * sizeof *want->shape) &&
           (size == 0 || !memcmp(got->data, want->data, (size_t)size)),
       "%s is the same", want->name);
    ok(got && (uintptr_t)got->data % (uintptr_t)lo_safetensors_type_size(want->dtype) == 0,
       "%s is aligned", want->name);
  }
  is_str(lo_safetensors_metadata(&file, "note"), metadata[1].value, "metadata are the same");
  ok(!lo_safetensors_find(&file, "other") && !lo_safetensors_metadata(&file, "other"),
     "what is not there is not found");
  lo_safetensors_free(&file);
  lo_safetensors_free(&file);
  is_int(lo_safetensors_write(path, &(lo_safetensors){0}), LAYEROPS_OK, "writing nothing");
  is_int(lo_safetensors_read(path, &file), LAYEROPS_OK, "reading nothing");
  is_int(file.count, 0, "is nothing");
  lo_safetensors_free(&file);
}

/* A file with this header and so many bytes of data. */
static void make(const char *name, uint64_t length, const char *header, size_t data) {
  char file[4096] = {0};
  size_t n = strlen(header);
  memcpy(file, &length, 8);
  memcpy(file + 8, header, n);
  scratch_write(name, file, 8 + n + data);
}

static void fails(const char *name, layerops_status status, const char *text) {
  lo_safetensors file;
  layerops_status got = lo_safetensors_read(scratch_path(name), &file);
  const char *error = layerops_last_error();
  int good = got == status && strstr(error, text) && !strncmp(error, scratch, strlen(scratch));
  ok(good && !file.tensors && !file.data, "%s: %s", name, text);
  if (!good) diag("status %d: \"%s\"", (int)got, error);
}

#define ENTRY(dtype, shape, begin, end)                                                            \
  "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define ONE(dtype, shape, begin, end) "{\"w\":" ENTRY(dtype, shape, begin, end) "}"

static void hostile(void) {
  static const struct {
    const char *header;
    size_t data;
    const char *text;
    layerops_status status;
  } cases[] = {
      {"", 0, "the header does not begin with '{'", 0},
      {" {}", 0, "the header does not begin with '{'", 0},
      {"[]", 0, "the header does not begin with '{'", 0},
      {"{", 0, "header, byte 1: ", 0},
      {"{}x", 0, "header, byte 3: end of file expected", 0},
      {"{\"\xff\":1}", 0, "header, byte ", 0},
      {"{\"a\\u0000\":1}", 0, "header, byte ", 0},
      {"{}", 1, "1 bytes follow the last tensor", 0},
      {"{\"w\":1}", 0, "tensor \"w\": no object with a dtype", 0},
      {"{\"w\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "tensor \"w\": no object with a dtype",
       0},
      {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is not an array of 0 to 8",
       0},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is not an array of 2 to 2", 0},
      {ONE("F32", "[1]", 0, 4) "", 3, "tensor \"w\" ends at byte 4 of the data, which has 3", 0},
      {ONE("F33", "[1]", 0, 4), 4, "tensor \"w\": unknown dtype \"F33\"", 0},
      {ONE("F32", "[-1]", 0, 4), 4, "shape[0] is not an integer from 0 up", 0},
      {ONE("F32", "[1.0]", 0, 4), 4, "shape[0] is not an integer from 0 up", 0},
      {ONE("F32", "[\"1\"]", 0, 4), 4, "shape[0] is not an integer from 0 up", 0},
      {ONE("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4), 4, "shape is not an array of 0 to 8 numbers", 0},
      {ONE("F32", "[2]", 0, 4), 4, "data_offsets 0 to 4; its shape and dtype take 8 bytes", 0},
      {ONE("F32", "[1]", 4, 0), 4, "data_offsets 4 to 0; its shape and dtype take 4 bytes", 0},
      {ONE("F32", "[1]", -4, 0), 4, "data_offsets[0] is not an integer from 0 up", 0},
      {ONE("F32", "[1]", 4, 8), 8, "begins at byte 4 of the data, leaving a hole from byte 0", 0},
      {ONE("F32", "[9223372036854775807]", 0, 4), 4, "its shape holds more than 2^63 bytes",
       LAYEROPS_ERROR_OVERFLOW},
      {ONE("F32", "[4294967296,4294967296]", 0, 0), 0, "more than 2^63 bytes at dimension 1 of",
       LAYEROPS_ERROR_OVERFLOW},
      {ONE("F32", "[0,4294967296,4294967296]", 0, 0), 0, "more than 2^63 bytes at dimension 2",
       LAYEROPS_ERROR_OVERFLOW},
      {ONE("F32", "[9223372036854775808]", 0, 4), 4, "too big", 0},
      {"{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("F32", "[2]", 4, 12) "}", 12,
       "tensor \"b\" begins at byte 4 of the data, inside the tensor that ends at byte 8", 0},
      {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 0, 4) "}", 4,
       "begins at byte 0 of the data, inside the tensor that ends at byte 4", 0},
      {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[0]", 2, 2) "}", 4,
       "inside the tensor that ends at byte 4", 0},
      {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8,
       "duplicate object key", 0},
      {"{\"\\u001b[2J\":1}", 0, "tensor \"?[2J\": no object with a dtype", 0},
      {"{\"__metadata__\":1}", 0, "__metadata__ is not an object", 0},
      {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: \"a\" is not a string", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char name[64];
    snprintf(name, sizeof name, "hostile%zu", i);
    make(name, strlen(cases[i].header), cases[i].header, cases[i].data);
    fails(name, cases[i].status ? cases[i].status : LAYEROPS_ERROR_FORMAT, cases[i].text);
  }
}

static void hostile_lengths(void) {
  scratch_write("short", "\2\0\0\0\0\0\0", 7);
  fails("short", LAYEROPS_ERROR_FORMAT, "7 bytes are too few for a .safetensors file");
  scratch_write("nothing", "", 0);
  fails("nothing", LAYEROPS_ERROR_FORMAT, "0 bytes are too few");
  make("lying", 3, "{}", 0);
  fails("lying", LAYEROPS_ERROR_FORMAT, "truncated or lying: a header of 3 bytes in a file of 10");
  make("huge", UINT64_MAX, "{}", 0);
  fails("huge", LAYEROPS_ERROR_FORMAT,
        "a header of 18446744073709551615 bytes; at most 100000000 are allowed");
  make("cap", 100000001, "{}", 0);
  fails("cap", LAYEROPS_ERROR_FORMAT, "a header of 100000001 bytes; at most 100000000 are allowed");
  fails("absent", LAYEROPS_ERROR_IO, "cannot be opened: No such file or directory");
  mkdir(scratch_path("folder"), 0777);
  fails("folder", LAYEROPS_ERROR_IO, "is not a regular file");
  if (!mkfifo(scratch_path("pipe"), 0666))
    fails("pipe", LAYEROPS_ERROR_IO, "is not a regular file");
  make("deep", 4000, "", 0);
  char deep[4008];
  memset(deep, '{', sizeof deep);
  memcpy(deep, (uint64_t[]){4000}, 8);
  for (int i = 8; i + 5 <= 4008; i += 5) memcpy(deep + i, "{\"a\":", 5);
  scratch_write("deep", deep, sizeof deep);
  fails("deep", LAYEROPS_ERROR_FORMAT, "header, byte ");
}

/* An odd header length is legal: data are read wherever they lie. */
static void unpadded(void) {
  lo_safetensors file;
  make("odd", strlen(ONE("F32", "[1]", 0, 4)), ONE("F32", "[1]", 0, 4), 4);
  is_int(lo_safetensors_read(scratch_path("odd"), &file), LAYEROPS_OK, "an unpadded header");
  lo_safetensors_free(&file);
  make("spaces", 5, "{}   ", 0);
  is_int(lo_safetensors_read(scratch_path("spaces"), &file), LAYEROPS_OK, "a padded header");
  lo_safetensors_free(&file);
}

static void refuses(const char *what, lo_tensor tensor, layerops_status status, const char *text) {
  lo_tensor two[2] = {tensors[1], tensor};
  lo_safetensors file = {.tensors = two, .count = 2};
  const char *path = scratch_path("refused");
  is_int(lo_safetensors_write(path, &file), status, "writing %s: refused", what);
  contains(layerops_last_error(), text, "writing %s: %s", what, text);
  ok(access(path, F_OK) != 0, "writing %s: no file is left", what);
}

static void bad_writes(void) {
  refuses("a name twice", tensors[1], LAYEROPS_ERROR_INVALID,
          "tensor name \"layers.0.weight\" is taken");
  refuses("a reserved name", (lo_tensor){.name = "__metadata__", .dtype = "F32", .data = weights},
          LAYEROPS_ERROR_INVALID, "tensor name \"__metadata__\" is taken");
  refuses("a name that is not UTF-8", (lo_tensor){.name = "\xff", .dtype = "F32", .data = weights},
          LAYEROPS_ERROR_INVALID, "is not UTF-8");
  refuses("an unknown type", (lo_tensor){.name = "x", .dtype = "Q4"}, LAYEROPS_ERROR_INVALID,
          "tensor \"x\": unknown dtype \"Q4\"");
  refuses("too many dimensions", (lo_tensor){.name = "x", .dtype = "F32", .rank = 9},
          LAYEROPS_ERROR_FORMAT, "tensor \"x\": 9 dimensions, at most 8 are handled");
  refuses("a negative dimension",
          (lo_tensor){.name = "x", .dtype = "F32", .rank = 1, .shape = {-1}}, LAYEROPS_ERROR_FORMAT,
          "tensor \"x\": dimension 0 is -1");
  refuses("a shape that overflows",
          (lo_tensor){.name = "x", .dtype = "F32", .rank = 1, .shape = {INT64_MAX}},
          LAYEROPS_ERROR_OVERFLOW, "more than 2^63 bytes");
  lo_metadata bad = {"a", "\xff"};
  is_int(lo_safetensors_write(scratch_path("refused"),
                              &(lo_safetensors){.metadata = &bad, .metadata_count = 1}),
         LAYEROPS_ERROR_INVALID, "metadata that are not UTF-8");
}

static int count_files(const char *folder) {
  char command[8192], line[32] = "";
  snprintf(command, sizeof command, "ls -A '%s' | wc -l", scratch_path(folder));
  FILE *pipe = popen(command, "r");
  if (!pipe || !fgets(line, sizeof line, pipe)) line[0] = 0;
  if (pipe) pclose(pipe);
  return atoi(line);
}

static int is_sample(const char *name) {
  lo_safetensors file;
  if (lo_safetensors_read(scratch_path(name), &file)) return 0;
  int same = file.count == sample.count;
  lo_safetensors_free(&file);
  return same;
}

/* In a child whose files may not grow: as on a full disk, write fails on the way. */
static void full_disk(void) {
  static char large[1 << 16];
  lo_tensor tensor = {
      .name = "x", .dtype = "U8", .rank = 1, .shape = {sizeof large}, .data = large};
  mkdir(scratch_path("full"), 0777);
  lo_safetensors_write(scratch_path("full/net"), &sample);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    layerops_status status = lo_safetensors_write(
        scratch_path("full/net"), &(lo_safetensors){&tensor, 1, NULL, 0, NULL, NULL});
    _exit(status == LAYEROPS_ERROR_IO && strstr(layerops_last_error(), "full/net: writing failed: ")
              ? 0
              : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  is_int(status, 0, "a write that fails on the way says so");
  ok(is_sample("full/net"), "and leaves the old file as it was");
  is_int(count_files("full"), 1, "and no other file");
}

static void targets(void) {
  struct stat st;
  lo_safetensors empty = {0};
  is_int(lo_safetensors_write(scratch_path("nowhere/net"), &sample), LAYEROPS_ERROR_IO,
         "no such folder");
  contains(layerops_last_error(), "nowhere/net: cannot create a file beside it: No such file",
           "says so");
  mkdir(scratch_path("t"), 0777);
  is_int(lo_safetensors_write(scratch_path("t"), &sample), LAYEROPS_ERROR_IO,
         "a folder as the target");
  contains(layerops_last_error(), "is there and is not a regular file", "says so");
  is_int(lo_safetensors_write("/dev/null", &sample), LAYEROPS_ERROR_IO, "a device as the target");
  ok(!stat("/dev/null", &st) && S_ISCHR(st.st_mode), "is still a device");
  lo_safetensors_write(scratch_path("t/net"), &empty);
  chmod(scratch_path("t/net"), 0640);
  if (symlink("net", scratch_path("t/link"))) exit(1);
  is_int(lo_safetensors_write(scratch_path("t/link"), &sample), LAYEROPS_OK,
         "through a symbolic link");
  ok(!lstat(scratch_path("t/link"), &st) && S_ISLNK(st.st_mode) && is_sample("t/net"),
     "the link stays, its target is replaced");
  ok(!stat(scratch_path("t/net"), &st) && (st.st_mode & 0777) == 0640, "permissions are kept");
  is_int(count_files("t"), 2, "no other file is left");
  if (chdir(scratch_path("t"))) exit(1);
  is_int(lo_safetensors_write("plain", &sample), LAYEROPS_OK, "a path without a folder");
  ok(is_sample("t/plain"), "lands in the current one");
}

/* Prints a file for comparison with what Python reads: name, type, shape, bytes in hexadecimal. */
static int show(const char *path) {
  lo_safetensors file;
  if (lo_safetensors_read(path, &file)) {
    fprintf(stderr, "%s\n", layerops_last_error());
    return 1;
  }
  for (int64_t i = 0; i < file.metadata_count; i++)
    printf("%s=%s\n", file.metadata[i].key, file.metadata[i].value);
  for (int64_t i = 0; i < file.count; i++) {
    const lo_tensor *t = &file.tensors[i];
    printf("%s %s", t->name, t->dtype);
    for (int j = 0; j < t->rank; j++) printf(" %lld", (long long)t->shape[j]);
    printf(" : ");
    for (int64_t j = 0; j < t->bytes; j++) printf("%02x", ((const unsigned char *)t->data)[j]);
    putchar('\n');
  }
  lo_safetensors_free(&file);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "show")) return show(argv[2]);
  if (argc == 3 && !strcmp(argv[1], "make")) {
    layerops_status status = lo_safetensors_write(argv[2], &sample);
    if (status) fprintf(stderr, "%s\n", layerops_last_error());
    return status != LAYEROPS_OK;
  }
  scratch_begin();
  same_back();
  hostile();
  hostile_lengths();
  unpadded();
  bad_writes();
  full_disk();
  targets();
  return done();
}
