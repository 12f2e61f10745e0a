#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cache_file.h"
#include "common/tuned.h"

enum { LARGEST = 1 << 20, LONGEST_LINE = 320 };

static const char columns[] =
    "# m\tn\tk\tbatch\torder\ttype\trow_sum\tflags\talign\tkernel\tparts\tns"
    "\trule\trule_parts\trule_ns\n";

/* ---- The table */
static int compare(const void *a, const void *b) {
  return memcmp(a, b, sizeof(lo_tuned_key)); /* rows begin with it */
}

void lo_tuned_start(lo_tuned *t, const char *about) {
  *t = (lo_tuned){0};
  snprintf(t->header, sizeof t->header, "layerops-tuned/1 %s", about);
  uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
  for (char *p = t->header; *p; p++) {
    if ((unsigned char)*p < ' ') *p = ' ';
    h = (h ^ (unsigned char)*p) * 0x100000001b3u;
  }
  snprintf(t->file, sizeof t->file, "tuned-%016" PRIx64 ".tsv", h);
}

void lo_tuned_free(lo_tuned *t) {
  free(t->rows);
  t->rows = NULL;
  t->count = t->capacity = 0;
}

static lo_tuned_row *find(const lo_tuned *t, size_t count, const lo_tuned_key *key) {
  return count ? bsearch(key, t->rows, count, sizeof *t->rows, compare) : NULL;
}

const lo_tuned_row *lo_tuned_find(const lo_tuned *t, const lo_tuned_key *key) {
  return find(t, t->count, key);
}

static bool append(lo_tuned *t, const lo_tuned_row *row) {
  if (t->count == t->capacity) {
    size_t capacity = t->capacity ? 2 * t->capacity : 64;
    lo_tuned_row *rows = realloc(t->rows, capacity * sizeof *rows);
    if (!rows) return false;
    t->rows = rows;
    t->capacity = capacity;
  }
  t->rows[t->count++] = *row;
  return true;
}

/* Replaces a row of the first `sorted`, or appends. */
static bool put(lo_tuned *t, size_t sorted, const lo_tuned_row *row) {
  lo_tuned_row *old = find(t, sorted, &row->key);
  if (!old) return append(t, row);
  *old = *row;
  return true;
}

static void sort(lo_tuned *t) {
  if (t->count) qsort(t->rows, t->count, sizeof *t->rows, compare);
}

bool lo_tuned_put(lo_tuned *t, const lo_tuned_row *row) {
  bool good = put(t, t->count, row);
  sort(t);
  return good;
}

void lo_tuned_settle(lo_tuned *t) {
  size_t count = 0;
  for (size_t i = 0; i < t->count; i++) {
    t->rows[i].fresh = false;
    if (*t->rows[i].best.kernel) t->rows[count++] = t->rows[i];
  }
  t->count = count;
}

/* ---- The file */
static layerops_type type_of(const char *name) {
  for (int type = 1; type < LAYEROPS_TYPE_COUNT; type++)
    if (!strcmp(layerops_type_name(type), name)) return type;
  return LAYEROPS_NONE_TYPE;
}

/* A's type, and B's where that is another: "f16", "f16_i8". */
static void print_types(char *text, size_t size, const lo_tuned_key *k) {
  const char *a = layerops_type_name(k->type), *b = layerops_type_name(k->b_type);
  snprintf(text, size, "%s%s%s", a, k->b_type == k->type ? "" : "_", k->b_type == k->type ? "" : b);
}

static void read_types(char *text, lo_tuned_key *k) {
  char *b = strchr(text, '_');
  if (b) *b++ = 0;
  k->type = type_of(text);
  k->b_type = b ? type_of(b) : k->type;
}

static bool sound(const lo_tuned_row *r) {
  const lo_tuned_key *k = &r->key;
  return k->type && k->b_type && k->m >= 0 && k->n >= 0 && k->k >= 0 && k->batch >= 0 && k->align >= 1 &&
         r->best.parts >= 1 && r->best.ns >= 0 && r->rule.parts >= 1 && r->rule.ns >= 0;
}

/* Widths keep numbers and names within what receives them. */
static bool parse(const char *line, lo_tuned_row *row) {
#define NUMBER "%18" SCNd64 "\t"
#define SMALL  "%9" SCNd32 "\t"
#define NAME   "%31[a-z0-9_]\t"
  lo_tuned_row r = {0};
  lo_tuned_key *k = &r.key;
  char order[3], type[16];
  int end = 0;
  int count = sscanf(
      line,
      NUMBER NUMBER NUMBER NUMBER
      "%2[nt]\t%15[a-z0-9_]\t" NUMBER NUMBER NUMBER NAME SMALL NUMBER NAME SMALL "%18" SCNd64 "%n",
      &k->m, &k->n, &k->k, &k->batch, order, type, &k->row_sum, &k->flags, &k->align, r.best.kernel,
      &r.best.parts, &r.best.ns, r.rule.kernel, &r.rule.parts, &r.rule.ns, &end);
  if (count != 15 || line[end] != '\n' || strlen(order) != 2) return false;
  k->trans_a = order[0] == 't';
  k->trans_b = order[1] == 't';
  read_types(type, k);
  *row = r;
  return sound(row);
}

static int print(char *line, size_t size, const lo_tuned_row *r) {
  const lo_tuned_key *k = &r->key;
  char types[16];
  print_types(types, sizeof types, k);
  return snprintf(line, size,
                  "%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%c%c\t%s\t%" PRId64
                  "\t%" PRId64 "\t%" PRId64 "\t%s\t%d\t%" PRId64 "\t%s\t%d\t%" PRId64 "\n",
                  k->m, k->n, k->k, k->batch, k->trans_a ? 't' : 'n', k->trans_b ? 't' : 'n',
                  types, k->row_sum, k->flags, k->align, r->best.kernel,
                  (int)r->best.parts, r->best.ns, r->rule.kernel, (int)r->rule.parts, r->rule.ns);
}

/* A line cut short by the end of the file is none. Of two lines of a product one counts. */
static void read_text(lo_tuned *t, const char *text, size_t size) {
  size_t length = strlen(t->header);
  lo_tuned_row row;
  if (strlen(text) != size || strncmp(text, t->header, length) || text[length] != '\n') return;
  const char *line = text + length + 1;
  for (size_t n; n = strcspn(line, "\n"), line[n]; line += n + 1) {
    char one[LONGEST_LINE]; /* sscanf looks at all of a text each time */
    if (n + 2 > sizeof one) continue;
    memcpy(one, line, n + 1);
    one[n + 1] = 0;
    if (parse(one, &row) && !append(t, &row)) break;
  }
  sort(t);
}

void lo_tuned_read(lo_tuned *t, const layerops_open_args *args, char *why) {
  size_t size;
  char *text = lo_cache_read(args, t->file, LARGEST, &size, why);
  if (text) read_text(t, text, size);
  free(text);
}

/* Where the file would be too large, what is fresh comes first. */
static char *print_all(const lo_tuned *t, size_t *size) {
  char *text = malloc(LARGEST);
  if (!text) return NULL;
  *size = (size_t)snprintf(text, LARGEST, "%s\n%s", t->header, columns);
  for (int fresh = 1; fresh >= 0; fresh--)
    for (size_t i = 0; i < t->count && *size < LARGEST - LONGEST_LINE; i++)
      if (t->rows[i].fresh == fresh && *t->rows[i].best.kernel)
        *size += (size_t)print(text + *size, LARGEST - *size, &t->rows[i]);
  return text;
}

static void *merge(void *user, const void *old, size_t old_size, size_t *size) {
  const lo_tuned *mine = user;
  lo_tuned all = *mine;
  all.rows = NULL;
  all.count = all.capacity = 0;
  if (old) read_text(&all, old, old_size);
  bool good = true;
  size_t sorted = all.count;
  for (size_t i = 0; i < mine->count; i++)
    if (mine->rows[i].fresh && *mine->rows[i].best.kernel)
      good = put(&all, sorted, &mine->rows[i]) && good;
  char *text = good ? print_all(&all, size) : NULL;
  lo_tuned_free(&all);
  return text;
}

bool lo_tuned_save(const lo_tuned *t, const layerops_open_args *args, char *why) {
  return lo_cache_update(args, t->file, LARGEST, merge, (void *)t, why);
}

bool lo_tuned_clear(lo_tuned *t, const layerops_open_args *args, char *why) {
  lo_tuned_free(t);
  return lo_cache_remove(args, t->file, why);
}

/* ---- For the user */
void lo_tuned_tell(const lo_tuned_row *row, const char *reason, layerops_tuned_fn told,
                   void *user) {
  const lo_tuned_key *k = &row->key;
  layerops_tuned product = {.m = k->m,
                            .n = k->n,
                            .k = k->k,
                            .batch = k->batch,
                            .trans_a = k->trans_a,
                            .trans_b = k->trans_b,
                            .type = k->type,
                            .b_type = k->b_type,
                            .flags = (uint32_t)k->flags,
                            .row_sum = (int32_t)k->row_sum,
                            .align = (int32_t)k->align,
                            .kernel = row->best.kernel,
                            .rule_kernel = row->rule.kernel,
                            .parts = row->best.parts,
                            .rule_parts = row->rule.parts,
                            .seconds = 1e-9 * (double)row->best.ns,
                            .rule_seconds = 1e-9 * (double)row->rule.ns,
                            .reason = reason};
  told(user, &product);
}
