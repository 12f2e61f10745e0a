#ifndef BENCH_SUITE_H
#define BENCH_SUITE_H

/* Layer suites: tab-separated rows, one layer a line (bench/suite/layers.tsv, blocksparse.tsv). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_pattern_kind { BENCH_UNIFORM, BENCH_BANDED, BENCH_ROWSKEW };

/* The products of a layer with X [m,k], W [n,k] and Y [m,n]. forward makes Y = act(X W^T + bias) of
   X and W; dgrad makes X = Y W of Y and W, wgrad W = Y^T X of both, where each letter stands for
   the gradient: of a block-sparse W at the kept blocks alone. */
enum bench_product { BENCH_FORWARD, BENCH_DGRAD, BENCH_WGRAD, BENCH_PRODUCTS };

struct bench_row {
  char *id;
  char tier;       /* 'S': every machine, 'L': needs a GPU */
  int64_t m, n, k; /* Y[m,n] = act(X[m,k] W[n,k]^T + bias[n]) */
  int activation;  /* an index into bench_activations; 0 (none) in a block-sparse suite */
  int64_t block;   /* 0: a dense row, whose three last members are unused */
  double density;
  enum bench_pattern_kind pattern;
  char *source; /* where the shape comes from; "" if the file does not say */
};

struct bench_suite {
  struct bench_row *rows;
  size_t count;
};

/* The names that the act column knows, by index; ends with NULL. "gelu" is the erf form. */
extern const char *const bench_activations[];

/* The names of the pattern column, by enum bench_pattern_kind; ends with NULL. */
extern const char *const bench_patterns[];

/* The names of products, by enum bench_product; ends with NULL. */
extern const char *const bench_products[];

/* The index of NAME in a list such as these, -1 if it is not there. */
int bench_name_index(const char *const *names, const char *name);

/* Reads the file; false leaves an empty suite and one sentence, FILE:LINE:COLUMN first, in why. */
bool bench_suite_read(const char *path, struct bench_suite *suite, char *why, size_t why_size);

void bench_suite_free(struct bench_suite *suite);

#endif
