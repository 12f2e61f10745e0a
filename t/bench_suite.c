/* Suites and their block patterns. */
#include <config.h>

#include <math.h>

#include "bench/pattern.h"
#include "bench/suite.h"
#include "bench/vary.h"
#include "t/scratch.h"
#include "t/tap.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void in_source(char *path, size_t size, const char *name) {
  const char *folder = getenv("top_srcdir");
  snprintf(path, size, "%s/%s", folder ? folder : ".", name);
}

/* ---- suites ---- */

static void test_layers(void) {
  char path[4096], why[512] = "";
  struct bench_suite suite;
  in_source(path, sizeof path, "bench/suite/layers.tsv");
  if (!ok(bench_suite_read(path, &suite, why, sizeof why), "layers.tsv is read %s", why)) return;
  ok(suite.count == 37, "it has 37 rows, read %zu", suite.count);
  const struct bench_row *first = &suite.rows[0], *last = &suite.rows[suite.count - 1];
  ok(!strcmp(first->id, "mnist_b64_l1") && first->tier == 'S' && first->m == 64 &&
         first->n == 128 && first->k == 784 && !first->block && first->activation == 1,
     "the first row is mnist_b64_l1: 64 x 128 x 784, relu");
  ok(!strcmp(last->id, "odd4") && last->tier == 'L' && last->m == 4097 && last->n == 4095 &&
         last->k == 4093 && !strcmp(last->source, "nothing divides the tile"),
     "the last row is odd4, with its source");
  bench_suite_free(&suite);
}

static void test_blocksparse(void) {
  char path[4096], why[512] = "";
  struct bench_suite suite;
  in_source(path, sizeof path, "bench/suite/blocksparse.tsv");
  if (!ok(bench_suite_read(path, &suite, why, sizeof why), "blocksparse.tsv is read %s", why))
    return;
  const struct bench_row *skew = &suite.rows[8];
  ok(suite.count == 17, "it has 17 rows, read %zu", suite.count);
  ok(!strcmp(skew->id, "sq2048_b32_d10_skew") && skew->block == 32 && skew->density == 0.1 &&
         skew->pattern == BENCH_ROWSKEW,
     "row 9 is sq2048_b32_d10_skew: blocks of 32, density 0.1, rowskew");
  bench_suite_free(&suite);
}

#define DENSE  "a\tS\t2\t3\t4\trelu\there\n"
#define SPARSE "a\tS\t2\t32\t64\t16\t0.5\tuniform\there\n"

static const struct {
  const char *text, *why; /* what follows the file's name; NULL: it is read */
} suite_cases[] = {
    {DENSE, NULL},
    {SPARSE, NULL},
    {"# comment\r\n\r\na\tL\t1\t1\t1\tnone\r\n", NULL}, /* source left out, lines of DOS */
    {"a\tS\t2\t3\t4\trelu\there", NULL},                /* no newline at the end */
    {"", ":0:1: no row"},
    {"# only\n\n", ":2:1: no row"},
    {"a\tS\t2\t3\t4\n", ":1:1: 5 tab-separated columns"},
    {DENSE "\nb\tS\t2\t3\t4\n", ":3:1: 5 tab-separated columns where dense rows have 7"},
    {SPARSE DENSE, ":2:1: 7 tab-separated columns where block-sparse rows have 9"},
    {"a\tS\t2\t3\t4\tx\tx\tx\tx\tx\n", ":1:1: more than 9"},
    {"\tS\t2\t3\t4\trelu\there\n", ":1:1: id '' is empty"},
    {"a\33[2J\tS\t2\t3\t4\trelu\there\n", ":1:1: id 'a?[2J' has a control character"},
    {"a\tM\t2\t3\t4\trelu\there\n", ":1:3: tier 'M' is neither S nor L"},
    {"a\tS\t0\t3\t4\trelu\there\n", ":1:5: m '0' is not a whole number"},
    {"a\tS\t2\t-3\t4\trelu\there\n", ":1:7: n '-3' is not"},
    {"a\tS\t2\t3\t4x\trelu\there\n", ":1:9: k '4x' is not"},
    {"a\tS\t2\t3\t \trelu\there\n", ":1:9: k ' ' is not"},
    {"a\tS\t2\t3\t99999999999999999999\trelu\there\n", ":1:9: k '99999999999999999999' is not"},
    {"a\tS\t2\t3\t536870913\trelu\there\n", ":1:9: k '536870913' is not"},
    {"a\tS\t2\t3\t4\tReLU\there\n", ":1:11: act 'ReLU' is none of none, relu, leaky_relu, gelu,"},
    {DENSE DENSE, ":2:1: id 'a' stands in an earlier row"},
    {"a\tS\t2\t33\t64\t16\t0.5\tuniform\n", ":1:13: block '16' does not divide n"},
    {"a\tS\t2\t32\t65\t16\t0.5\tuniform\n", ":1:13: block '16' does not divide k"},
    {"a\tS\t2\t32\t64\t16\t1.5\tuniform\n", ":1:16: density '1.5' is not a number from 0 to 1"},
    {"a\tS\t2\t32\t64\t16\tnan\tuniform\n", ":1:16: density 'nan' is not"},
    {"a\tS\t2\t32\t64\t16\t0.5\tspiral\n", ":1:20: pattern 'spiral' is none of uniform, banded"},
};

static void test_suite_cases(void) {
  const char *path = scratch_path("suite.tsv");
  char why[512], wanted[4352];
  for (size_t i = 0; i < COUNT(suite_cases); i++) {
    struct bench_suite suite;
    scratch_text("suite.tsv", suite_cases[i].text);
    *why = 0;
    bool read = bench_suite_read(path, &suite, why, sizeof why);
    snprintf(wanted, sizeof wanted, "%s%s", path, suite_cases[i].why ? suite_cases[i].why : "");
    if (!suite_cases[i].why)
      ok(read && suite.count == 1, "suite case %zu is read %s", i, why);
    else
      ok(!read && !suite.rows && !strncmp(why, wanted, strlen(wanted)), "suite case %zu: %s", i,
         why);
    bench_suite_free(&suite);
  }
}

static void test_suite_files(void) {
  char why[512] = "";
  struct bench_suite suite;
  scratch_write("nul.tsv", "a\tS\0\t2\n", 7);
  ok(!bench_suite_read(scratch_path("nul.tsv"), &suite, why, sizeof why) &&
         strstr(why, ":1:1: a NUL byte"),
     "a NUL byte is refused: %s", why);
  ok(!bench_suite_read(scratch_path("none.tsv"), &suite, why, sizeof why) &&
         strstr(why, "No such file"),
     "a file that is not there: %s", why);
  ok(!bench_suite_read(scratch, &suite, why, sizeof why) && strstr(why, "directory"),
     "a folder: %s", why);
}

/* ---- patterns: expected values from an independent program in Python ---- */

static const struct {
  const char *text;
  uint64_t hash;
} fnv_cases[] = {{"", UINT64_C(0xcbf29ce484222325)}, /* published test vectors */
                 {"a", UINT64_C(0xaf63dc4c8601ec8c)},
                 {"foobar", UINT64_C(0x85944171f73967e8)}};

static const uint64_t splitmix_of_1234567[] = {
    UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
    UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};

/* Per row of blocksparse.tsv: kept blocks, block rows without any, and the FNV-1a-like hash of the
   sequence of (row, column). */
static const struct {
  const char *id;
  int kept, empty;
  uint64_t hash;
} pattern_cases[] = {
    {"ffn768_b32_d10", 196, 7, UINT64_C(0xbcb8bbc98f14b5f0)},
    {"ffn768_b32_d25", 545, 0, UINT64_C(0xce767f19f32297c7)},
    {"ffn768_b16_d10", 908, 1, UINT64_C(0xf3c711e9d0f81d62)},
    {"ffn768_b8_d10", 3657, 0, UINT64_C(0x89914176495e3136)},
    {"sq1024_b32_d05", 44, 6, UINT64_C(0x4d6a558bf82a0484)},
    {"sq2048_b32_d10", 406, 0, UINT64_C(0x86ac2b82f496a070)},
    {"sq2048_b64_d10", 93, 1, UINT64_C(0x572d42c55894ba0d)},
    {"sq2048_b32_d10_band", 384, 0, UINT64_C(0x115fe68f0a16662b)},
    {"sq2048_b32_d10_skew", 413, 4, UINT64_C(0x0d4f44d0abee06da)},
    {"sq2048_b32_d50", 2046, 0, UINT64_C(0xa2a36d204a8d0880)},
    {"b1_2048_b32_d10", 415, 0, UINT64_C(0x5e3189d8c3578406)},
    {"sq4096_b32_d10", 1631, 0, UINT64_C(0x12dff672026dcd4b)},
    {"sq4096_b64_d10", 403, 0, UINT64_C(0xbc858bba24e2929e)},
    {"sq8192_b64_d05", 838, 0, UINT64_C(0x3f4724f1daf3974e)},
    {"sq8192_b128_d20", 822, 0, UINT64_C(0x5e066ccc3c7571ac)},
    {"llama7b_up_b64_d10", 1102, 0, UINT64_C(0xb60bbd4a59b27007)},
    {"sq8192_b16_d05", 13135, 0, UINT64_C(0x3b0adbc15a4281ea)},
};

static void test_generators(void) {
  for (size_t i = 0; i < COUNT(fnv_cases); i++)
    ok(bench_fnv1a(fnv_cases[i].text) == fnv_cases[i].hash, "FNV-1a of '%s'", fnv_cases[i].text);
  uint64_t state = 1234567;
  int same = 0;
  for (size_t i = 0; i < COUNT(splitmix_of_1234567); i++)
    same += bench_splitmix64(&state) == splitmix_of_1234567[i];
  ok(same == COUNT(splitmix_of_1234567), "splitmix64 from 1234567 gives its published numbers");
}

static void pattern_is(const char *name, const struct bench_pattern *p, const int32_t *starts,
                       const int32_t *cols) {
  bool good = p->row_start && !memcmp(p->row_start, starts, (size_t)(p->rows + 1) * sizeof *starts);
  good = good && !memcmp(p->col, cols, (size_t)bench_pattern_kept(p) * sizeof *cols);
  ok(good, "%s, by hand", name);
}

static void test_small_patterns(void) {
  struct bench_pattern p;
  bench_pattern_make("t", BENCH_BANDED, 4, 8, 0.25, &p);
  pattern_is("banded, 4 x 8, a quarter", &p, (int32_t[]){0, 2, 4, 6, 8},
             (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
  bench_pattern_free(&p);
  /* width 3; first blocks floor(-0.17), 1, 3.17 clamped to 2 */
  bench_pattern_make("t", BENCH_BANDED, 3, 5, 0.5, &p);
  pattern_is("banded, 3 x 5, a half", &p, (int32_t[]){0, 3, 6, 9},
             (int32_t[]){0, 1, 2, 1, 2, 3, 2, 3, 4});
  bench_pattern_free(&p);
  bench_pattern_make("t", BENCH_UNIFORM, 3, 5, 0.5, &p);
  pattern_is("uniform, 3 x 5, a half", &p, (int32_t[]){0, 4, 6, 8},
             (int32_t[]){0, 1, 2, 4, 1, 3, 0, 2});
  bench_pattern_free(&p);
  bench_pattern_make("t", BENCH_ROWSKEW, 4, 4, 0.5, &p);
  pattern_is("rowskew, 4 x 4, a half", &p, (int32_t[]){0, 4, 6, 8, 9},
             (int32_t[]){0, 1, 2, 3, 0, 2, 0, 2, 0});
  bench_pattern_free(&p);
  ok(!bench_pattern_make("t", BENCH_UNIFORM, 1 << 20, 1 << 20, 0.5, &p) && !p.col,
     "more blocks than int32_t counts are refused");
}

static uint64_t hash_pattern(const struct bench_pattern *p, int *empty) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325), prime = UINT64_C(0x100000001b3);
  *empty = 0;
  for (int64_t r = 0; r < p->rows; r++) {
    *empty += p->row_start[r] == p->row_start[r + 1];
    for (int32_t e = p->row_start[r]; e < p->row_start[r + 1]; e++)
      hash = ((hash ^ (uint64_t)r) * prime ^ (uint64_t)p->col[e]) * prime;
  }
  return hash;
}

static void test_suite_patterns(void) {
  char path[4096], why[512];
  struct bench_suite suite;
  in_source(path, sizeof path, "bench/suite/blocksparse.tsv");
  if (!bench_suite_read(path, &suite, why, sizeof why)) return;
  for (size_t i = 0; i < suite.count && i < COUNT(pattern_cases); i++) {
    const struct bench_row *row = &suite.rows[i];
    struct bench_pattern p;
    int empty = -1;
    bool made = bench_pattern_make(row->id, row->pattern, row->n / row->block, row->k / row->block,
                                   row->density, &p);
    uint64_t hash = made ? hash_pattern(&p, &empty) : 0;
    ok(made && !strcmp(row->id, pattern_cases[i].id) &&
           bench_pattern_kept(&p) == pattern_cases[i].kept && empty == pattern_cases[i].empty &&
           hash == pattern_cases[i].hash,
       "the blocks of %s: %lld kept, %d rows empty", row->id,
       made ? (long long)bench_pattern_kept(&p) : -1LL, empty);
    bench_pattern_free(&p);
  }
  bench_suite_free(&suite);
}

static void test_vary(const char *name, int64_t block) {
  enum { ROWS = 2000 };
  int odd = 0, far = 0, unit = 0, same = 0;
  double log_sum = 0;
  for (uint64_t seed = 1; seed <= ROWS; seed++) {
    struct bench_row row = {.id = strdup(name), .m = 1000, .n = 640, .k = 1280, .block = block};
    struct bench_row twin = {.id = strdup(name), .m = 1000, .n = 640, .k = 1280, .block = block};
    if (!bench_vary(&row, seed) || !bench_vary(&twin, seed)) return;
    int64_t b = block ? block : 1;
    odd += (row.m & 1) + (row.n / b & 1) + (row.k / b & 1);
    unit += row.n % b || row.k % b;
    /* rounding and the step to odd add at most one and a half (block) */
    far += row.m < 698 || row.m > 1402 || row.n < 448 - 1.5 * (double)b ||
           row.n > 896 + 1.5 * (double)b || row.k < 896 - 1.5 * (double)b ||
           row.k > 1792 + 1.5 * (double)b;
    log_sum += log((double)row.m / 1000);
    same += row.m == twin.m && row.n == twin.n && row.k == twin.k && !strcmp(row.id, twin.id);
    char shape[80];
    snprintf(shape, sizeof shape, "%s:%lldx%lldx%lld", name, (long long)row.m, (long long)row.n,
             (long long)row.k);
    same -= strcmp(row.id, shape) != 0;
    free(row.id);
    free(twin.id);
  }
  ok(same == ROWS, "%s: a seed gives one shape, and the id shows it", name);
  ok(!far && !unit, "%s: sizes lie within 0.7 to 1.4, in whole blocks", name);
  /* a size is odd by decree in 1/2 of the cases and by itself in half of the others: 3/4; five
     standard deviations */
  ok(fabs(odd / (3.0 * ROWS) - 0.75) < 5 * sqrt(0.1875 / (3.0 * ROWS)), "%s: %d of %d are odd",
     name, odd, 3 * ROWS);
  /* uniform in the logarithm between log 0.7 and log 1.4 */
  ok(fabs(log_sum / ROWS - log(0.7) - log(2) / 2) < 5 * log(2) / sqrt(12.0 * ROWS) + 0.0005,
     "%s: the mean factor is 0.7 sqrt(2)", name);
}

static void test_vary_blocks(void) {
  struct bench_row row = {.id = strdup("a"), .density = 0.1, .block = 8};
  struct bench_pattern old, new;
  if (!bench_pattern_make(row.id, BENCH_UNIFORM, 8, 8, 0.5, &old)) return;
  bool good = bench_vary_density(&row, 0.25);
  ok(good && row.density == 0.25 && !strcmp(row.id, "a:density=0.25"), "another density: %s",
     row.id);
  good = bench_vary_pattern(&row, 7);
  ok(good && !strcmp(row.id, "a:density=0.25:pattern=7"), "another pattern: %s", row.id);
  if (!bench_pattern_make(row.id, BENCH_UNIFORM, 8, 8, 0.5, &new)) return;
  ok(bench_pattern_kept(&old) != bench_pattern_kept(&new) ||
         memcmp(old.col, new.col, (size_t)bench_pattern_kept(&old) * sizeof *old.col) != 0,
     "it has other blocks");
  bench_pattern_free(&old);
  bench_pattern_free(&new);
  free(row.id);
}

static void test_vary_small(void) {
  struct bench_row row = {.id = strdup("one"), .m = 1, .n = 1, .k = 13};
  if (!bench_vary(&row, 5)) return;
  ok(row.m == 1 && row.n == 1 && row.k >= 9 && row.k <= 19, "a size of 1 stays: %s", row.id);
  free(row.id);
}

int main(void) {
  scratch_begin();
  test_layers();
  test_blocksparse();
  test_suite_cases();
  test_suite_files();
  test_generators();
  test_small_patterns();
  test_suite_patterns();
  test_vary("dense", 0);
  test_vary("sparse", 32);
  test_vary_blocks();
  test_vary_small();
  return done();
}
