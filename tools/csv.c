/* Comma-separated numbers, one row a line, one column the label. Separated by commas, else by
 * semicolons, else by tabs, as the first line shows. A first line without numbers is a header. */
#include <config.h>

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format.h"

#define MAX_LINE                                                                                   \
  (1 << 24) /* a row of over a million columns; bounds a file of one endless line                  \
             */

struct csv {
  struct reading *r;
  struct source *s;
  char *line; /* the current line without its end, with a zero byte behind */
  size_t length, capacity;
  int64_t number;              /* of the current line, from 1 */
  int64_t fields, fields_line; /* how many each line has, and the line that said so */
  int64_t label;               /* the label's field, -1 for none */
  int64_t rows, capacity_rows;
  char separator;
  size_t at, have;
  char chunk[1 << 16];
};

struct field {
  char *text; /* without quotes and surrounding blanks */
  size_t length;
  size_t column; /* from 1, in bytes, as compilers count */
  int64_t index; /* from 0 */
};

static enum dataset_status fail_here(struct csv *c, size_t column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum dataset_status fail_here(struct csv *c, size_t column, const char *format, ...) {
  char what[256];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  return dataset_fail(c->r->d, DATASET_ERROR_FORMAT, "%s:%lld:%zu: %s", source_path(c->s),
                      (long long)c->number, column, what);
}

static enum dataset_status append(struct csv *c, const char *bytes, size_t n) {
  if (c->length + n > MAX_LINE)
    return fail_here(c, 1, "the line is longer than %d bytes", MAX_LINE);
  if (c->length + n + 1 > c->capacity) {
    size_t capacity = (c->length + n + 1) * 2;
    char *line = realloc(c->line, capacity);
    if (!line)
      return dataset_fail(c->r->d, DATASET_ERROR_MEMORY, "%s: out of memory", source_path(c->s));
    c->line = line;
    c->capacity = capacity;
  }
  memcpy(c->line + c->length, bytes, n);
  c->length += n;
  c->line[c->length] = 0;
  return DATASET_OK;
}

/* *more is false at the end of the file. */
static enum dataset_status next_line(struct csv *c, bool *more) {
  enum dataset_status status = DATASET_OK;
  c->length = 0;
  c->number++;
  *more = false;
  for (;;) {
    if (c->at == c->have) {
      c->at = 0;
      status = source_read(c->s, c->chunk, sizeof c->chunk, &c->have);
      if (status || c->have == 0) break;
    }
    *more = true;
    const char *from = c->chunk + c->at, *end = memchr(from, '\n', c->have - c->at);
    size_t n = end ? (size_t)(end - from) : c->have - c->at;
    status = append(c, from, n);
    c->at += end ? n + 1 : n;
    if (status || end) break;
  }
  if (!status && *more && c->length > 0 && c->line[c->length - 1] == '\r') c->line[--c->length] = 0;
  return status;
}

static bool is_blank(const struct csv *c) {
  return c->line[strspn(c->line, " \t")] == 0 && strlen(c->line) == c->length;
}

/* Past the closing quote of the field whose opening quote is at p; NULL if none closes it. */
static char *skip_quoted(char *p) {
  for (p++; *p; p++)
    if (*p == '"') {
      if (p[1] != '"') return p + 1;
      p++;
    }
  return NULL;
}

static bool is_space(const struct csv *c, char letter) {
  return letter == ' ' || (letter == '\t' && c->separator != '\t');
}

/* Reads the field that begins at *p and moves *p to the next one, or to NULL after the last. */
static enum dataset_status take_field(struct csv *c, char **p, struct field *f) {
  char *from = *p;
  while (is_space(c, *from)) from++;
  f->column = (size_t)(from - c->line) + 1;
  char *end = *from == '"' ? skip_quoted(from) : from + strcspn(from, (char[]){c->separator, 0});
  if (!end)
    return fail_here(c, f->column, "field %lld: its quote is not closed on this line",
                     (long long)f->index + 1);
  char *next = end;
  while (is_space(c, *next)) next++;
  if (*next && *next != c->separator)
    return fail_here(c, (size_t)(next - c->line) + 1, "field %lld: text after its closing quote",
                     (long long)f->index + 1);
  if (*next == 0 && next != c->line + c->length)
    return fail_here(c, (size_t)(next - c->line) + 1, "a zero byte");
  *p = *next ? next + 1 : NULL;
  if (*from == '"') from++, end--;
  while (end > from && is_space(c, end[-1])) end--;
  f->text = from;
  f->length = (size_t)(end - from);
  return DATASET_OK;
}

/* strtod's grammar in the C locale less hexadecimal, so that a name like 0x1p3 is none. */
static bool parse(const struct field *f, double *value) {
  char *end, kept = f->text[f->length];
  if (f->length == 0 || isspace((unsigned char)f->text[0]) || memchr(f->text, 'x', f->length) ||
      memchr(f->text, 'X', f->length))
    return false;
  /* Most fields of an image are small integers; strtod takes ten times as long. */
  *value = 0;
  size_t i = 0;
  for (; i < f->length && i < 9 && isdigit((unsigned char)f->text[i]); i++)
    *value = *value * 10 + (f->text[i] - '0');
  if (i == f->length) return true;
  f->text[f->length] = 0;
  *value = strtod(f->text, &end);
  f->text[f->length] = kept;
  return end == f->text + f->length;
}

static enum dataset_status take_number(struct csv *c, char **p, struct field *f, double *value) {
  enum dataset_status status = take_field(c, p, f);
  if (status) return status;
  if (f->length == 0)
    return fail_here(c, f->column, "field %lld is empty", (long long)f->index + 1);
  if (!parse(f, value) || !isfinite((float)*value))
    return fail_here(c, f->column, "field %lld: \"%.*s\" is not a finite number",
                     (long long)f->index + 1, f->length > 40 ? 40 : (int)f->length, f->text);
  return DATASET_OK;
}

static bool names_a_label(const struct field *f) {
  static const char *const names[] = {"label", "class", "target", "y"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == f->length && !strncasecmp(names[i], f->text, f->length)) return true;
  return false;
}

/* What the first line says: how many fields, and whether they are names. */
struct first_line {
  int64_t numbers; /* fields that are numbers */
  bool counted;    /* all but the first, or all but the last, count up from 0 or 1: pandas' names */
  bool label[2];   /* the first, the last field is called a label */
  bool word[2];    /* the first, the last field is no number */
};

static enum dataset_status look_at_first(struct csv *c, struct first_line *f) {
  struct field field = {0};
  double value = 0, before = NAN, start = NAN;
  int64_t steps = 0;
  for (char *p = c->line; p; field.index++) {
    enum dataset_status status = take_field(c, &p, &field);
    if (status) return status;
    bool number = parse(&field, &value);
    f->numbers += number;
    if (number && isnan(start)) start = value;
    steps += number && field.index > 0 && value == before + 1;
    before = number ? value : NAN;
    f->word[1] = !number && field.length > 0;
    f->label[1] = names_a_label(&field);
    if (field.index == 0) f->word[0] = f->word[1], f->label[0] = f->label[1];
  }
  c->fields = field.index;
  c->fields_line = c->number;
  f->counted = c->fields > 2 && steps == c->fields - 2 && (start == 0 || start == 1);
  return DATASET_OK;
}

static enum dataset_status choose_label(struct csv *c, const struct first_line *f) {
  enum dataset_label_column column = c->r->options->label_column;
  if (column == DATASET_LABEL_AUTO)
    column = f->label[0] && !f->label[1] ? DATASET_LABEL_FIRST : DATASET_LABEL_LAST;
  c->label = column == DATASET_LABEL_NONE ? -1 : column == DATASET_LABEL_FIRST ? 0 : c->fields - 1;
  c->r->features = c->fields - (c->label >= 0);
  if (c->r->features > 0) return DATASET_OK;
  return fail_here(c, 1, "one column; a label and at least one value are expected");
}

/* Reads the first line that is not blank. *header: it holds names, no data. */
static enum dataset_status begin(struct csv *c, bool *header) {
  bool more;
  enum dataset_status status;
  do {
    status = next_line(c, &more);
    if (status) return status;
    if (!more)
      return dataset_fail(c->r->d, DATASET_ERROR_FORMAT, "%s: is empty", source_path(c->s));
    if (c->number == 1 && c->length >= 3 && !memcmp(c->line, "\xef\xbb\xbf", 3))
      memmove(c->line, c->line + 3, (c->length -= 3) + 1);
  } while (is_blank(c));
  c->separator = strchr(c->line, ',') ? ',' : strchr(c->line, ';') ? ';' : '\t';
  struct first_line f = {0};
  status = look_at_first(c, &f);
  if (status) return status;
  *header = f.numbers == 0 || (f.numbers == c->fields - 1 && (f.word[0] || f.word[1]) && f.counted);
  return choose_label(c, &f);
}

static void *grow(struct csv *c, void *old, int64_t rows, int64_t width, int64_t size) {
  int64_t bytes;
  if (__builtin_mul_overflow(rows, width * size, &bytes) || bytes > c->r->max_bytes) {
    dataset_fail(c->r->d, DATASET_ERROR_MEMORY,
                 "%s:%lld: the rows need more than the limit of %lld "
                 "bytes",
                 source_path(c->s), (long long)c->number, (long long)c->r->max_bytes);
    return NULL;
  }
  void *memory = realloc(old, (size_t)bytes);
  if (!memory)
    dataset_fail(c->r->d, DATASET_ERROR_MEMORY, "%s:%lld: out of memory for %lld rows",
                 source_path(c->s), (long long)c->number, (long long)rows);
  return memory;
}

static enum dataset_status make_room(struct csv *c) {
  struct dataset_part *part = c->r->part;
  if (c->rows < c->capacity_rows) return DATASET_OK;
  /* Half as much again, so that the limit and the memory are not passed by much. */
  int64_t rows = c->capacity_rows + c->capacity_rows / 2 + 1 + 4096 / c->r->features;
  float *x = grow(c, part->x, rows, c->r->features, sizeof *x);
  if (!x) return DATASET_ERROR_MEMORY;
  part->x = x;
  if (c->label >= 0) {
    int32_t *labels = grow(c, part->labels, rows, 1, sizeof *labels);
    if (!labels) return DATASET_ERROR_MEMORY;
    part->labels = labels;
  }
  c->capacity_rows = rows;
  return DATASET_OK;
}

static enum dataset_status store(struct csv *c, const struct field *f, double value) {
  if (f->index == c->label) {
    char where[512];
    snprintf(where, sizeof where, "%.400s:%lld:%zu", source_path(c->s), (long long)c->number,
             f->column);
    enum dataset_status status = dataset_check_label(c->r, where, value);
    if (!status) c->r->part->labels[c->rows] = (int32_t)value;
    return status;
  }
  int64_t column = f->index - (c->label >= 0 && f->index > c->label);
  double scale = c->r->options->scale > 0 ? c->r->options->scale : 1;
  c->r->part->x[c->rows * c->r->features + column] = (float)(value / scale);
  return DATASET_OK;
}

static enum dataset_status read_row(struct csv *c) {
  struct field f = {0};
  double value = 0;
  enum dataset_status status = make_room(c);
  for (char *p = c->line; !status && p; f.index++) {
    status = take_number(c, &p, &f, &value);
    if (!status && f.index < c->fields) status = store(c, &f, value);
  }
  if (status) return status;
  if (f.index != c->fields)
    return fail_here(c, 1, "%lld fields; line %lld has %lld", (long long)f.index,
                     (long long)c->fields_line, (long long)c->fields);
  c->rows++;
  return DATASET_OK;
}

static enum dataset_status read_rows(struct csv *c) {
  bool header = false, more = true;
  enum dataset_status status = begin(c, &header);
  if (!status && !header) status = read_row(c);
  while (!status && more) {
    status = next_line(c, &more);
    if (!status && more && !is_blank(c)) status = read_row(c);
  }
  if (!status && c->rows == 0)
    status = dataset_fail(c->r->d, DATASET_ERROR_FORMAT, "%s: holds a header line, but no rows",
                          source_path(c->s));
  c->r->part->count = c->rows;
  return status;
}

static enum dataset_status read_part(struct reading *r, const char *path, const char *labels) {
  (void)labels;
  struct csv *c = calloc(1, sizeof *c);
  if (!c) return dataset_fail(r->d, DATASET_ERROR_MEMORY, "%s: out of memory", path);
  c->r = r;
  enum dataset_status status = source_open(r->d, path, &c->s);
  if (!status) status = read_rows(c);
  source_close(c->s);
  free(c->line);
  free(c);
  return status;
}

static bool recognises(const char *path, const unsigned char head[FORMAT_HEAD], size_t size) {
  (void)head, (void)size;
  return dataset_has_suffix(path, ".csv") || dataset_has_suffix(path, ".tsv") ||
         dataset_has_suffix(path, ".txt");
}

static bool labels_beside(const char *path, char *out, size_t size) {
  (void)path, (void)out, (void)size;
  return false;
}

static const char *const train[] = {"train.csv", NULL}, *const test[] = {"test.csv", NULL};

const struct dataset_format dataset_csv = {
    .name = "CSV",
    .files = {train, test},
    .recognises = recognises,
    .labels_beside = labels_beside,
    .read = read_part,
};
