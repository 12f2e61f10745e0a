/* Block masks: published patterns, as drawn by hand or, where they are random, by a program of its
 * own from what the header says; and pruning, against counting who is better. */
#include <config.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "t/devices.h"
#include "t/is.h"

#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

enum { MOST = 1 << 20 };
static uint8_t mask[MOST], again[MOST];

/* ---- Patterns ---- */

typedef layerops_bsr_pattern_args pattern;

static int64_t kept(int64_t blocks) {
  int64_t count = 0;
  for (int64_t i = 0; i < blocks; i++) count += mask[i];
  return count;
}

static void make(pattern p) {
  memset(mask, 7, sizeof mask);
  p.mask = mask;
  if (layerops_bsr_pattern(&p)) ok(0, "%s", layerops_last_error());
}

static void draws(pattern p, const char *want) {
  const int64_t blocks = p.block_rows * p.block_cols;
  make(p);
  int good = (int64_t)strlen(want) == blocks && mask[blocks] == 7;
  for (int64_t i = 0; i < blocks && good; i++) good = mask[i] == (want[i] == '#');
  ok(good, "%s, %lld x %lld", layerops_bsr_pattern_name(p.pattern), (long long)p.block_rows,
     (long long)p.block_cols);
  for (int64_t r = 0; r < p.block_rows && !good; r++) {
    char row[65] = "";
    for (int64_t c = 0; c < p.block_cols && c < 64; c++)
      row[c] = mask[r * p.block_cols + c] ? '#' : '.';
    diag("%s", row);
  }
}

static void test_plain(void) {
  draws((pattern){LAYEROPS_BSR_BANDED, 0, 4, 8, .density = 0.25}, "##......"
                                                                  "..##...."
                                                                  "....##.."
                                                                  "......##");
  draws((pattern){LAYEROPS_BSR_BANDED, 0, 5, 5, .density = 0.6}, "###.."
                                                                 "###.."
                                                                 ".###."
                                                                 "..###"
                                                                 "..###");
  draws((pattern){LAYEROPS_BSR_BANDED, 0, 3, 2, .density = 0}, "#."
                                                               ".#"
                                                               ".#");
  draws((pattern){LAYEROPS_BSR_BANDED, 0, 2, 2, .density = 1}, "####");
  draws((pattern){LAYEROPS_BSR_BLOCK_DIAGONAL, 0, 4, 6, .groups = 2}, "###..."
                                                                      "###..."
                                                                      "...###"
                                                                      "...###");
  draws((pattern){LAYEROPS_BSR_LOCAL, 0, 5, 6, .window = 1, .global = 0}, "##...."
                                                                          "###..."
                                                                          "..###."
                                                                          "...###"
                                                                          "....##");
  draws((pattern){LAYEROPS_BSR_LOCAL, 0, 5, 5, .window = 0, .global = 1}, "#####"
                                                                          "##..."
                                                                          "#.#.."
                                                                          "#..#."
                                                                          "#...#");
  draws((pattern){LAYEROPS_BSR_STRIDED, 0, 7, 7, .stride = 3}, "####..#"
                                                               "#####.."
                                                               "######."
                                                               "#######"
                                                               ".######"
                                                               "..#####"
                                                               "#..####");
  draws((pattern){LAYEROPS_BSR_LONGFORMER, 0, 6, 6, .window = 1, .dilation = 2, .global = 1},
        "######"
        "##.#.."
        "#.#.#."
        "##.#.#"
        "#.#.#."
        "#..#.#");
  draws((pattern){LAYEROPS_BSR_BUTTERFLY, 0, 8, 8, .levels = 0}, "###.#..."
                                                                 "##.#.#.."
                                                                 "#.##..#."
                                                                 ".###...#"
                                                                 "#...###."
                                                                 ".#..##.#"
                                                                 "..#.#.##"
                                                                 "...#.###");
  draws((pattern){LAYEROPS_BSR_BUTTERFLY, 0, 4, 4, .levels = 1}, "##.."
                                                                 "##.."
                                                                 "..##"
                                                                 "..##");
  draws((pattern){LAYEROPS_BSR_BUTTERFLY, 0, 3, 5, .levels = 0}, "#####"
                                                                 "#####"
                                                                 "#####");
}

static void test_random(void) {
  draws((pattern){LAYEROPS_BSR_UNIFORM, 0, 6, 14, .density = 0.3, .seed = 7}, "....#........."
                                                                              "##.##.#..###.#"
                                                                              ".#..##..##...."
                                                                              "###.#.....##.#"
                                                                              "....##........"
                                                                              "..#....#..#..#");
  draws((pattern){LAYEROPS_BSR_BIGBIRD, 0, 8, 12, .window = 1, .global = 1, .random = 2,
                  .seed = ((uint64_t)1 << 40) + 5},
        "############"
        "#####......#"
        "#.###...#..#"
        "##..###.#..."
        "##...###..#."
        "#..#...###.#"
        "#......#####"
        "##.#......##");
  draws((pattern){LAYEROPS_BSR_BARABASI_ALBERT, 0, 10, 12, .links = 2, .seed = 3}, "####........"
                                                                                   "########.#.."
                                                                                   "########..#."
                                                                                   "..###.....#."
                                                                                   "..##.#..#..."
                                                                                   "..##..####.."
                                                                                   ".....####..#"
                                                                                   "..#...##.#.."
                                                                                   "...##.....##"
                                                                                   "........#.##");
  draws((pattern){LAYEROPS_BSR_WATTS_STROGATZ, 0, 12, 10, .window = 2, .rewire = 0.25, .seed = 11},
        "#.#...#.##"
        "#.#...#.##"
        ".##..#...."
        "#####....#"
        "..#####..."
        "..#####..."
        ".#.#####.."
        ".#.#####.."
        "#..######."
        ".....###.#"
        "#.....#.##"
        "#.#....###");
}

static int symmetric(int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++)
      if (mask[i * n + j] != mask[j * n + i] || (i == j && !mask[i * n + i])) return 0;
  return 1;
}

/* What holds of any seed. */
static void test_properties(void) {
  enum { N = 200 };
  int graphs = 1, hub = 1, rows = 1;
  for (uint64_t seed = 0; seed < 20; seed++) {
    make((pattern){LAYEROPS_BSR_BARABASI_ALBERT, 0, N, N, .links = 3, .seed = seed});
    graphs = graphs && symmetric(N) && kept(N * N) == N + 2 * (1 + 2 + 3 * (N - 3));
    int64_t most = 0, links;
    for (int64_t r = 0; r < N; r++) {
      links = -1;
      for (int64_t c = 0; c < N; c++) links += mask[r * N + c];
      most = links > most ? links : most;
      graphs = graphs && links >= 3;
    }
    hub = hub && most > 20; /* of 6 in the mean */
    for (int64_t p = 0; p <= 10; p += 5) {
      make((pattern){LAYEROPS_BSR_WATTS_STROGATZ, 0, N, N, .window = 4, .rewire = (double)p / 10,
                     .seed = seed});
      graphs = graphs && symmetric(N) && kept(N * N) == N + 2 * 4 * N;
    }
    make((pattern){LAYEROPS_BSR_BIGBIRD, 0, N, 50, .window = 2, .random = 5, .seed = seed});
    for (int64_t r = 0; r < N; r++) {
      int64_t count = 0, d = (2 * r + 1) * 50 / (2 * N);
      for (int64_t c = 0; c < 50; c++) count += mask[r * 50 + c];
      rows = rows && count == 10 - (d < 2 ? 2 - d : d > 47 ? d - 47 : 0);
    }
  }
  ok(graphs, "graphs keep their number of links, both ways");
  ok(hub, "Barabasi-Albert: some node has many");
  ok(rows, "bigbird: as many random blocks in each row");
  make((pattern){LAYEROPS_BSR_WATTS_STROGATZ, 0, 9, 9, .window = 1, .rewire = 0});
  ok(kept(81) == 27 && mask[8] && mask[72], "Watts-Strogatz without rewiring is a ring");
  make((pattern){LAYEROPS_BSR_WATTS_STROGATZ, 0, 6, 6, .window = 100, .rewire = 1});
  ok(kept(36) == 36, "a ring with no free node has nothing to rewire");
  make((pattern){LAYEROPS_BSR_BIGBIRD, 0, 4, 4, .random = 100});
  ok(kept(16) == 16, "bigbird: more random blocks than there are others");
  make((pattern){LAYEROPS_BSR_UNIFORM, 0, 1000, 1000, .density = 0.1, .seed = 5});
  const double deviations = ((double)kept(1000000) - 1e5) / sqrt(1e5 * 0.9);
  ok(fabs(deviations) < 5, "uniform: a million blocks, off by %.2f standard deviations",
     deviations);
  memcpy(again, mask, sizeof mask);
  make((pattern){LAYEROPS_BSR_UNIFORM, 0, 1000, 1000, .density = 0.1, .seed = 5});
  ok(!memcmp(again, mask, 1000000), "uniform: a seed gives one mask");
  make((pattern){LAYEROPS_BSR_UNIFORM, 0, 1000, 1000, .density = 0.1, .seed = 6});
  ok(memcmp(again, mask, 1000000), "uniform: and another another");
  make((pattern){LAYEROPS_BSR_UNIFORM, 0, 50, 50, .density = 1});
  ok(kept(2500) == 2500, "uniform: density 1 is all");
}

/* Grids of every small size: no pattern leaves its mask, and none fails. */
static void test_grids(void) {
  int good = 1;
  for (int32_t kind = 0; kind < LAYEROPS_BSR_PATTERN_COUNT; kind++)
    for (int64_t rows = 0; rows < 9; rows++)
      for (int64_t cols = 0; cols < 9; cols++) {
        static const pattern numbers[LAYEROPS_BSR_PATTERN_COUNT] = {
            [LAYEROPS_BSR_UNIFORM] = {.density = 0.5},
            [LAYEROPS_BSR_BANDED] = {.density = 0.5},
            [LAYEROPS_BSR_BLOCK_DIAGONAL] = {.groups = 3},
            [LAYEROPS_BSR_LOCAL] = {.window = 1, .global = 1},
            [LAYEROPS_BSR_STRIDED] = {.stride = 3},
            [LAYEROPS_BSR_LONGFORMER] = {.window = 1, .dilation = 3},
            [LAYEROPS_BSR_BIGBIRD] = {.window = 1, .random = 2},
            [LAYEROPS_BSR_BUTTERFLY] = {.levels = 0},
            [LAYEROPS_BSR_BARABASI_ALBERT] = {.links = 2},
            [LAYEROPS_BSR_WATTS_STROGATZ] = {.window = 2, .rewire = 0.5}};
        pattern p = numbers[kind];
        uint8_t *exact = malloc((size_t)(rows * cols) + 1); /* a sanitizer sees its end */
        p.pattern = kind, p.block_rows = rows, p.block_cols = cols;
        p.mask = rows && cols ? exact : NULL;
        exact[rows * cols] = 7;
        good = good && !layerops_bsr_pattern(&p) && exact[rows * cols] == 7;
        for (int64_t i = 0; i < rows * cols; i++) good = good && exact[i] <= 1;
        free(exact);
      }
  ok(good, "every pattern on every grid up to 8 x 8");
}

/* ---- Pruning ---- */

typedef struct dense {
  int64_t rows, cols, height, width, block_rows, block_cols;
  float values[128 * 128];
  double scores[1024];
} dense;
static dense d;

static void make_dense(int64_t rows, int64_t cols, int64_t height, int64_t width, int64_t largest) {
  static uint32_t state = 1;
  d.rows = rows, d.cols = cols, d.height = height, d.width = width;
  d.block_rows = (rows + height - 1) / height, d.block_cols = (cols + width - 1) / width;
  for (int64_t i = 0; i < rows * cols; i++) {
    state = state * 1664525 + 1013904223;
    d.values[i] = (float)((int64_t)(state >> 8) % (2 * largest + 1) - largest);
  }
}

static void score(int32_t kind) {
  for (int64_t b = 0; b < d.block_rows * d.block_cols; b++) {
    double sum = 0, most = 0;
    for (int64_t i = b / d.block_cols * d.height, e = i + d.height; i < e && i < d.rows; i++)
      for (int64_t j = b % d.block_cols * d.width, f = j + d.width; j < f && j < d.cols; j++) {
        const double x = fabs((double)d.values[i * d.cols + j]);
        sum += kind == LAYEROPS_BSR_L2 ? x * x : x;
        most = fmax(most, x);
      }
    d.scores[b] = kind == LAYEROPS_BSR_MAX ? most : kind == LAYEROPS_BSR_L2 ? sqrt(sum) : sum;
  }
}

/* How many of [begin, end) come before block b. */
static int64_t better(int64_t b, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; i++)
    count += d.scores[i] > d.scores[b] || (d.scores[i] == d.scores[b] && i < b);
  return count;
}

static bool should_keep(const layerops_bsr_prune_args *a, int64_t b) {
  const int64_t row = b / d.block_cols * d.block_cols, blocks = d.block_rows * d.block_cols;
  const int64_t run = row + (a->m ? (b - row) / a->m * a->m : 0);
  const int64_t end = run + a->m < row + d.block_cols ? run + a->m : row + d.block_cols;
  switch (a->rule) {
  case LAYEROPS_BSR_DENSITY:
    return better(b, 0, blocks) < (int64_t)(a->density * (double)blocks + 0.5);
  case LAYEROPS_BSR_ROW_DENSITY:
    return better(b, row, row + d.block_cols) < (int64_t)(a->density * (double)d.block_cols + 0.5);
  case LAYEROPS_BSR_N_OF_M:
    return better(b, run, end) < a->n;
  default:
    return d.scores[b] >= a->threshold;
  }
}

static layerops_status prune(layerops_context *ctx, layerops_bsr_prune_args *a) {
  a->w = layerops_host_matrix(d.values, LAYEROPS_F32, d.rows, d.cols);
  a->block = d.height;
  a->width = d.width;
  a->mask = mask;
  memset(mask, 7, sizeof mask);
  return layerops_bsr_prune(ctx, a);
}

static void prunes(layerops_context *ctx, const char *name, layerops_bsr_prune_args a,
                   const char *rule) {
  static const int64_t sizes[][4] = {{64, 64, 8, 8}, {61, 67, 8, 16},    {1, 100, 16, 8},
                                     {100, 3, 8, 8}, {128, 128, 16, 32}, {0, 9, 8, 8}};
  static const int64_t largest[] = {1000, 1, 0}; /* hardly any, many, only equal scores */
  int good = 1;
  for (a.score = 0; a.score <= LAYEROPS_BSR_MAX; a.score++)
    for (int64_t s = 0; s < COUNT(sizes); s++)
      for (int64_t l = 0; l < COUNT(largest); l++) {
        make_dense(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], largest[l]);
        score(a.score);
        good = good && !prune(ctx, &a);
        const int64_t blocks = d.block_rows * d.block_cols;
        for (int64_t b = 0; b < blocks; b++) good = good && mask[b] == should_keep(&a, b);
        good = good && mask[blocks] == 7;
      }
  ok(good, "%s: pruning, %s", name, rule);
}

static void test_pruning(layerops_context *ctx, const char *name) {
  enum {
    DENSITY = LAYEROPS_BSR_DENSITY,
    ROW = LAYEROPS_BSR_ROW_DENSITY,
    N_OF_M = LAYEROPS_BSR_N_OF_M,
    THRESHOLD = LAYEROPS_BSR_THRESHOLD
  };
  static const double densities[] = {0, 0.1, 0.25, 0.5, 0.99, 1};
  for (int64_t i = 0; i < COUNT(densities); i++) {
    prunes(ctx, name, (layerops_bsr_prune_args){.rule = DENSITY, .density = densities[i]},
           "density of all");
    prunes(ctx, name, (layerops_bsr_prune_args){.rule = ROW, .density = densities[i]},
           "density of a row");
  }
  static const int64_t n_of_m[][2] = {{0, 1}, {1, 1}, {1, 2}, {2, 4}, {3, 5}, {7, 100}};
  for (int64_t i = 0; i < COUNT(n_of_m); i++)
    prunes(ctx, name,
           (layerops_bsr_prune_args){.rule = N_OF_M, .n = n_of_m[i][0], .m = n_of_m[i][1]},
           "n of m");
  static const double thresholds[] = {0, 1, 30, 1e4, INFINITY};
  for (int64_t i = 0; i < COUNT(thresholds); i++)
    prunes(ctx, name, (layerops_bsr_prune_args){.rule = THRESHOLD, .threshold = thresholds[i]},
           "a threshold");
  make_dense(16, 32, 8, 8, 5);
  d.values[16 * 32 - 1] = NAN;
  layerops_bsr_prune_args one = {.density = 0.125, .score = LAYEROPS_BSR_L2};
  ok(!prune(ctx, &one) && kept(8) == 1 && mask[7], "%s: NaN is the largest of all", name);
  make_dense(8, 16, 8, 8, 0);
  d.values[0] = 1e30f, d.values[8] = 2e30f;
  one.density = 0.5;
  ok(!prune(ctx, &one) && !mask[0] && mask[1], "%s: squares do not overflow", name);
}

int main(void) {
  test_plain();
  test_random();
  test_properties();
  test_grids();
  on_each_device(test_pruning);
  return done();
}
