#include <config.h>

#include "bench/suite.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/host.h"

/* No product of two sizes up to this bound, times the largest element, leaves int64_t. */
#define SIZE_LIMIT (INT64_C(1) << 29)
#define MAX_FIELDS 9

const char *const bench_activations[] = {"none", "relu",    "leaky_relu", "gelu", "gelu_tanh",
                                         "silu", "sigmoid", "tanh",       NULL};
const char *const bench_patterns[] = {"uniform", "banded", "rowskew", NULL};
const char *const bench_products[] = {"forward", "dgrad", "wgrad", NULL};

static const char *const dense_columns[] = {"id", "tier", "m", "n", "k", "act", "source", NULL};
static const char *const sparse_columns[] = {"id",    "tier",    "m",       "n",      "k",
                                             "block", "density", "pattern", "source", NULL};

struct line {
  const char *path;
  size_t number;
  char *text;
  char *fields[MAX_FIELDS];
  int count;
  const char *const *columns;
  char *why;
  size_t why_size;
};

int bench_name_index(const char *const *names, const char *name) {
  for (int i = 0; names[i]; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

static bool fail(const struct line *line, int field, const char *what) {
  snprintf(line->why, line->why_size, "%s:%zu:%zu: %s '%.80s' %s", line->path, line->number,
           (size_t)(line->fields[field] - line->text) + 1, line->columns[field],
           line->fields[field], what);
  bench_printable(line->why);
  return false;
}

static bool fail_line(const struct line *line, const char *what) {
  snprintf(line->why, line->why_size, "%s:%zu:1: %s", line->path, line->number, what);
  return false;
}

static bool read_size(const struct line *line, int field, int64_t *value) {
  const char *text = line->fields[field];
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || errno || v < 1 || v > SIZE_LIMIT)
    return fail(line, field, "is not a whole number from 1 to 2^29");
  *value = v;
  return true;
}

static bool read_density(const struct line *line, int field, double *value) {
  char *end;
  *value = strtod(line->fields[field], &end);
  if (end == line->fields[field] || *end || !(*value >= 0 && *value <= 1))
    return fail(line, field, "is not a number from 0 to 1");
  return true;
}

static bool read_name(const struct line *line, int field, const char *const *names, int *index) {
  char what[160] = "is none of";
  *index = bench_name_index(names, line->fields[field]);
  if (*index >= 0) return true;
  for (int i = 0; names[i]; i++) {
    size_t used = strlen(what);
    snprintf(what + used, sizeof what - used, "%s %s", i ? "," : "", names[i]);
  }
  return fail(line, field, what);
}

static bool read_sparse_fields(const struct line *line, struct bench_row *row) {
  int pattern;
  if (!read_size(line, 5, &row->block)) return false;
  if (row->n % row->block) return fail(line, 5, "does not divide n");
  if (row->k % row->block) return fail(line, 5, "does not divide k");
  if (!read_density(line, 6, &row->density)) return false;
  if (!read_name(line, 7, bench_patterns, &pattern)) return false;
  row->pattern = (enum bench_pattern_kind)pattern;
  return true;
}

static void row_free(struct bench_row *row) {
  free(row->id);
  free(row->source);
}

static bool read_fields(const struct line *line, bool sparse, struct bench_row *row) {
  int source = sparse ? 8 : 6;
  if (!line->fields[0][0]) return fail(line, 0, "is empty");
  for (const char *c = line->fields[0]; *c; c++)
    if (iscntrl((unsigned char)*c)) return fail(line, 0, "has a control character");
  if (strcmp(line->fields[1], "S") && strcmp(line->fields[1], "L"))
    return fail(line, 1, "is neither S nor L");
  row->tier = line->fields[1][0];
  if (!read_size(line, 2, &row->m) || !read_size(line, 3, &row->n) || !read_size(line, 4, &row->k))
    return false;
  if (sparse ? !read_sparse_fields(line, row)
             : !read_name(line, 5, bench_activations, &row->activation))
    return false;
  row->id = strdup(line->fields[0]);
  row->source = strdup(line->count > source ? line->fields[source] : "");
  if (row->id && row->source) return true;
  row_free(row);
  return fail_line(line, "out of memory");
}

static bool split(struct line *line) {
  char *at = line->text;
  for (line->count = 0; at && line->count < MAX_FIELDS; line->count++) {
    line->fields[line->count] = at;
    at = strchr(at, '\t');
    if (at) *at++ = 0;
  }
  return !at;
}

/* A file holds rows of one kind: the number of columns of its first row says which (the last
   column, source, may be left out). */
static bool check_kind(struct line *line, const struct bench_suite *suite, bool *sparse) {
  bool fits = split(line);
  if (!suite->count) *sparse = line->count > 7;
  line->columns = *sparse ? sparse_columns : dense_columns;
  int most = *sparse ? 9 : 7;
  if (fits && (line->count == most || line->count == most - 1)) return true;
  char what[128];
  snprintf(what, sizeof what, "%s%d tab-separated columns where %s rows have %d (id ... source)",
           fits ? "" : "more than ", line->count, *sparse ? "block-sparse" : "dense", most);
  return fail_line(line, what);
}

static bool append(struct bench_suite *suite, const struct line *line, struct bench_row row) {
  for (size_t i = 0; i < suite->count; i++)
    if (!strcmp(suite->rows[i].id, row.id)) {
      row_free(&row);
      return fail(line, 0, "stands in an earlier row too");
    }
  struct bench_row *rows = realloc(suite->rows, (suite->count + 1) * sizeof *rows);
  if (!rows) {
    row_free(&row);
    return fail_line(line, "out of memory");
  }
  suite->rows = rows;
  rows[suite->count++] = row;
  return true;
}

static bool read_rows(FILE *file, struct line *line, struct bench_suite *suite) {
  size_t capacity = 0;
  ssize_t length;
  bool sparse = false;
  while ((length = getline(&line->text, &capacity, file)) >= 0) {
    line->number++;
    if (strlen(line->text) != (size_t)length) return fail_line(line, "a NUL byte; not a text file");
    line->text[strcspn(line->text, "\r\n")] = 0;
    if (!line->text[0] || line->text[0] == '#') continue;
    struct bench_row row = {0};
    if (!check_kind(line, suite, &sparse) || !read_fields(line, sparse, &row) ||
        !append(suite, line, row))
      return false;
  }
  if (ferror(file)) return fail_line(line, strerror(errno));
  return suite->count > 0 || fail_line(line, "no row in this file");
}

bool bench_suite_read(const char *path, struct bench_suite *suite, char *why, size_t why_size) {
  struct line line = {.path = path, .why = why, .why_size = why_size};
  *suite = (struct bench_suite){0};
  FILE *file = fopen(path, "re");
  if (!file) {
    snprintf(why, why_size, "%s: %s", path, strerror(errno));
    return false;
  }
  bool good = read_rows(file, &line, suite);
  free(line.text);
  fclose(file);
  if (!good) bench_suite_free(suite);
  return good;
}

void bench_suite_free(struct bench_suite *suite) {
  for (size_t i = 0; i < suite->count; i++) row_free(&suite->rows[i]);
  free(suite->rows);
  *suite = (struct bench_suite){0};
}
