/* What tuning found: the table, its file, and what a spoilt file must not do; and what devices that
 * have nothing to tune answer. The tuning itself: t/cuda/tune.c. */
#include <config.h>

#include <locale.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/cache_file.h"
#include "common/context.h"
#include "common/tuned.h"
#include "t/is.h"
#include "t/scratch.h"
#include "t/tap.h"

static const layerops_open_args on;
static char why[LO_CACHE_WHY];
static const char about[] = "device=NVIDIA T4 sm=75 kernels=75 sms=40 driver=1 library=0.1.0";

static lo_tuned_row row_of(int64_t m, const char *kernel, int parts) {
  lo_tuned_row r = {.key = {m, 128, 784, 1, 0, 1, LAYEROPS_F32, LAYEROPS_F32, 0, 0, 16},
                    .best = {.parts = parts, .ns = 1500},
                    .rule = {"simt_128x128", 1, 2250},
                    .fresh = true};
  snprintf(r.best.kernel, sizeof r.best.kernel, "%s", kernel);
  return r;
}

static void fill(lo_tuned *t, const char *header, int count) {
  lo_tuned_start(t, header);
  for (int i = count; i > 0; i--) { /* descending: the table sorts */
    lo_tuned_row r = row_of(i, "simt_64x64", i);
    if (!lo_tuned_put(t, &r)) abort();
  }
}

/* The number of rows that a new table reads. */
static int rows_read(const char *header) {
  lo_tuned t;
  lo_tuned_start(&t, header);
  lo_tuned_read(&t, &on, why);
  int count = (int)t.count;
  lo_tuned_free(&t);
  return count;
}

static void begin(const char *name) {
  setenv("XDG_CACHE_HOME", scratch_path(name), 1);
}

static void test_table(void) {
  lo_tuned t;
  fill(&t, about, 300);
  int good = t.count == 300;
  for (int i = 1; i <= 300; i++) {
    lo_tuned_row want = row_of(i, "", 0);
    const lo_tuned_row *r = lo_tuned_find(&t, &want.key);
    good = good && r && r->best.parts == i;
  }
  ok(good, "300 products are found again");
  lo_tuned_key key = t.rows[0].key;
  int64_t *const numbers[] = {&key.m,       &key.n,     &key.k,    &key.batch,
                              &key.row_sum, &key.flags, &key.align};
  int32_t *const small[] = {&key.trans_a, &key.trans_b, &key.type, &key.b_type};
  for (int i = 0; i < 7; i++) {
    *numbers[i] += 1000;
    ok(!lo_tuned_find(&t, &key), "another number %d is another product", i);
    *numbers[i] -= 1000;
  }
  for (int i = 0; i < 4; i++) {
    *small[i] ^= 1;
    ok(!lo_tuned_find(&t, &key), "another option %d too", i);
    *small[i] ^= 1;
  }
  ok(lo_tuned_find(&t, &key) != NULL, "and the same one the same");
  lo_tuned_row r = row_of(7, "mma_k8_64x64", 2);
  ok(lo_tuned_put(&t, &r) && t.count == 300 &&
         !strcmp(lo_tuned_find(&t, &r.key)->best.kernel, "mma_k8_64x64"),
     "a product that is there is replaced");
  lo_tuned_free(&t);
}

static void test_file(void) {
  lo_tuned t, u;
  begin("plain");
  is_int(rows_read(about), 0, "no file: no rows");
  fill(&t, about, 3);
  t.rows[1].key = (lo_tuned_key){(int64_t)1 << 40, 2, 3, 4, 1, 0, LAYEROPS_BF16, LAYEROPS_F16, 1, 5, 2};
  ok(lo_tuned_save(&t, &on, why), "three rows are kept%s", why);
  lo_tuned_start(&u, about);
  lo_tuned_read(&u, &on, why);
  is_int((int)u.count, 3, "... and read");
  const lo_tuned_row *r = lo_tuned_find(&u, &t.rows[1].key);
  ok(r && !strcmp(r->best.kernel, "simt_64x64") && r->best.parts == 2 && r->best.ns == 1500 &&
         !strcmp(r->rule.kernel, "simt_128x128") && r->rule.parts == 1 && r->rule.ns == 2250,
     "... with all that they had");
  ok(r && !r->fresh, "... as read, not found");
  lo_tuned_row left = row_of(99, "", 0);
  ok(lo_tuned_put(&t, &left) && lo_tuned_save(&t, &on, why), "a product that was left untuned");
  is_int(rows_read(about), 3, "... is not kept");
  lo_tuned_settle(&t);
  ok(t.count == 3 && !t.rows[0].fresh && !lo_tuned_find(&t, &left.key), "... and tried again");
  is_int(rows_read("device=NVIDIA T4 sm=75 kernels=75 sms=40 driver=2 library=0.1.0"), 0,
         "another driver has another file");
  ok(lo_tuned_clear(&t, &on, why) && !t.count && !rows_read(about), "clearing empties both");
  ok(lo_tuned_clear(&t, &on, why), "... and may be done twice");
  lo_tuned_free(&t);
  lo_tuned_free(&u);
}

/* ---- Spoilt files */
static char *path_of(const lo_tuned *t) {
  static char path[128];
  snprintf(path, sizeof path, "spoilt/layerops/%s", t->file);
  return path;
}

/* The rows read after `spoil` has changed the file's text. */
static void test_spoilt(const char *what, int rows, void (*spoil)(char *text)) {
  lo_tuned t;
  size_t size;
  begin("spoilt");
  fill(&t, about, 5);
  if (!lo_tuned_save(&t, &on, why)) abort();
  char *text = (char *)scratch_read(path_of(&t), &size);
  text[size] = 0;
  spoil(text);
  scratch_text(path_of(&t), text);
  free(text);
  is_int(rows_read(about), rows, "a file %s: so many of its 5 rows count", what);
  remove(scratch_path(path_of(&t)));
  lo_tuned_free(&t);
}

static char *last_line(char *text) {
  char *end = text + strlen(text) - 1;
  *end = 0;
  char *line = strrchr(text, '\n') + 1;
  *end = '\n';
  return line;
}

static void cut(char *text) {
  text[strlen(text) - 1] = 0;
}
static void cut_half(char *text) {
  last_line(text)[20] = 0;
}
static void cut_header(char *text) {
  text[30] = 0;
}
static void empty(char *text) {
  *text = 0;
}
static void other_header(char *text) {
  *strstr(text, "T4") = 'P';
}
static void longer_header(char *text) {
  *strchr(text, '\n') = '1';
}
static void other_version(char *text) {
  *strchr(text, '1') = '2';
}
static void letters(char *text) {
  memset(last_line(text), 'x', 5);
}
static void minus(char *text) {
  *last_line(text) = '-';
}
static void binary(char *text) {
  memset(last_line(text), 0xff, 30);
}
static void bad_name(char *text) {
  *strstr(last_line(text), "simt") = '/';
}
static void no_parts(char *text) {
  *strstr(strstr(last_line(text), "64x64"), "5") = '0';
}
static void bad_type(char *text) {
  memcpy(strstr(last_line(text), "f32"), "f99", 3);
}
static void wide(char *text) {
  memset(strchr(text, '\n') + 1, '9', strlen(strchr(text, '\n') + 1) - 1);
}

static void test_all_spoilt(void) {
  test_spoilt("cut by one byte", 4, cut);
  test_spoilt("cut within a row", 4, cut_half);
  test_spoilt("cut within its header", 0, cut_header);
  test_spoilt("that is empty", 0, empty);
  test_spoilt("of another device", 0, other_header);
  test_spoilt("with a longer header", 0, longer_header);
  test_spoilt("of another version", 0, other_version);
  test_spoilt("with letters for a number", 4, letters);
  test_spoilt("with a negative size", 4, minus);
  test_spoilt("with bytes that are no text", 4, binary);
  test_spoilt("with a kernel that is no name", 4, bad_name);
  test_spoilt("with no parts", 4, no_parts);
  test_spoilt("of an unknown type", 4, bad_type);
  test_spoilt("that is one long number", 0, wide);

  lo_tuned t;
  begin("spoilt");
  fill(&t, about, 5);
  char *large = malloc((1 << 20) + 2);
  memset(large, '\n', (1 << 20) + 1);
  large[(1 << 20) + 1] = 0;
  memcpy(large, t.header, strlen(t.header));
  scratch_text(path_of(&t), large);
  is_int(rows_read(about), 0, "a file that is too large is not read");
  contains(why, "1048576 are the most", "... as is told");
  ok(lo_tuned_save(&t, &on, why) && rows_read(about) == 5, "... and replaced");
  free(large);
  lo_tuned_free(&t);
}

/* ---- Many */
static void test_limit(void) {
  enum { MANY = 20000 };
  lo_tuned t, u;
  begin("limit");
  lo_tuned_start(&t, about);
  t.rows = calloc(MANY, sizeof *t.rows);
  t.capacity = t.count = MANY;
  for (int i = 0; i < MANY; i++) {
    t.rows[i] = row_of(0, "simt_64x64", 1);
    t.rows[i].key.m = (int64_t)(i + 1) << 40; /* ascending as bytes too, but for its order */
    t.rows[i].fresh = true;
  }
  ok(lo_tuned_save(&t, &on, why), "a file for %d rows", MANY);
  struct stat st;
  char path[128];
  snprintf(path, sizeof path, "limit/layerops/%s", t.file);
  ok(!stat(scratch_path(path), &st) && st.st_size <= 1 << 20, "... stays within its limit");
  int before = rows_read(about);
  ok(before > 5000 && before < MANY, "... has %d of them", before);
  fill(&u, about, 3);
  ok(lo_tuned_save(&u, &on, why), "three more");
  lo_tuned_free(&u);
  lo_tuned_start(&u, about);
  lo_tuned_read(&u, &on, why);
  lo_tuned_row r = row_of(2, "", 0);
  ok(lo_tuned_find(&u, &r.key) != NULL, "... find a place in it");
  lo_tuned_free(&u);
  lo_tuned_free(&t);
}

static void save_one_by_one(int writer) {
  lo_tuned t;
  lo_tuned_start(&t, about);
  for (int i = 0; i < 20; i++) {
    lo_tuned_row r = row_of(1 + writer * 100 + i, "simt_64x64", 1);
    if (!lo_tuned_put(&t, &r) || !lo_tuned_save(&t, &on, why)) _exit(1);
  }
  _exit(0);
}

static void test_writers(void) {
  begin("writers");
  for (int w = 0; w < 6; w++)
    if (!fork()) save_one_by_one(w);
  int failed = 0, status;
  while (wait(&status) > 0) failed += status != 0;
  ok(!failed, "6 processes that tune at once");
  is_int(rows_read(about), 120, "... keep all that each has found");
}

static void test_locale(void) {
  lo_tuned t;
  begin("locale");
  fill(&t, about, 2);
  const char *set = setlocale(LC_ALL, "de_DE.UTF-8");
  ok(lo_tuned_save(&t, &on, why) && rows_read(about) == 2, "numbers are the same in locale %s",
     set ? set : "C (there is no de_DE)");
  setlocale(LC_ALL, "C");
  lo_tuned_free(&t);
}

static void test_folder(void) {
  lo_tuned t;
  begin("folder");
  fill(&t, about, 2);
  ok(lo_tuned_save(&t, &on, why), "two rows");
  chmod(scratch_path("folder/layerops"), 0777);
  is_int(rows_read(about), 0, "a folder that others may write to is not read");
  contains(why, "can be written by others", "... as is told");
  ok(!lo_tuned_save(&t, &on, why), "... nor written");
  chmod(scratch_path("folder/layerops"), 0700);
  setenv("LAYEROPS_CACHE", "0", 1);
  is_int(rows_read(about), 0, "LAYEROPS_CACHE=0: nothing is read");
  unsetenv("LAYEROPS_CACHE");
  is_int(rows_read(about), 2, "... and both are still there");
  lo_tuned_free(&t);
}

/* ---- Devices that have nothing to tune */
static void nothing(void *user, const layerops_tuned *product) {
  (void)product;
  ++*(int *)user;
}

static void test_calls(void) {
  layerops_context *ctx;
  int told = 0;
  layerops_tune_args a = {.seconds = 1};
  if (layerops_open("cpu", &ctx)) abort();
#define GETS(call, name, text)                                                                     \
  do {                                                                                             \
    is_int(call, LAYEROPS_ERROR_##name, #call " gets " #name);                                     \
    contains(layerops_last_error(), text, "... which says " text);                                 \
  } while (0)
  GETS(layerops_tune_begin(NULL, &a), INVALID, "tune_begin: context is NULL");
  GETS(layerops_tune_begin(ctx, NULL), INVALID, "args is NULL");
  GETS(layerops_tune_begin(ctx, &a), UNSUPPORTED, "cpu has no kernels to choose from by measuring");
  a.seconds = 0;
  GETS(layerops_tune_begin(ctx, &a), INVALID, "seconds is 0, but must be positive");
  a.seconds = NAN;
  GETS(layerops_tune_begin(ctx, &a), INVALID, "seconds is nan");
  a.seconds = INFINITY;
  GETS(layerops_tune_begin(ctx, &a), INVALID, "seconds is inf");
  a = (layerops_tune_args){.seconds = 1, .again = 2};
  GETS(layerops_tune_begin(ctx, &a), INVALID, "again is 2");
  a = (layerops_tune_args){.seconds = 1, .reserved = 3};
  GETS(layerops_tune_begin(ctx, &a), UNSUPPORTED, "reserved is 3");
  GETS(layerops_tune_end(ctx), STATE, "not tuning");
  GETS(layerops_tune_end(NULL), INVALID, "context is NULL");
  GETS(layerops_tune_list(ctx, NULL, NULL), INVALID, "told is NULL");
  GETS(layerops_tune_list(ctx, nothing, &told), UNSUPPORTED, "tune_list: cpu has no kernels");
  GETS(layerops_tune_clear(ctx), UNSUPPORTED, "tune_clear: cpu has no kernels");
  is_int(told, 0, "nothing is told");
  a = (layerops_tune_args){.seconds = 1};
  if (layerops_record_begin(ctx)) abort();
  GETS(layerops_tune_begin(ctx, &a), STATE, "recording");
  layerops_close(ctx);
}

int main(void) {
  unsetenv("LAYEROPS_CACHE");
  scratch_begin();
  test_table();
  test_file();
  test_all_spoilt();
  test_limit();
  test_writers();
  test_locale();
  test_folder();
  test_calls();
  return done();
}
