/* What tuning found (layerops/tune.h): a table of products, and the file that keeps it, a line a
 * product below a line that says for what device, driver and library it holds. A backend makes that
 * line, asks for its products and adds to them. */
#ifndef LO_TUNED_H
#define LO_TUNED_H

#include <stdbool.h>

#include <layerops/layerops.h>

/* All that the choice of a kernel depends on; compared as bytes. */
typedef struct lo_tuned_key {
  int64_t m, n, k, batch;
  int32_t trans_a, trans_b;
  int32_t type, b_type; /* of A and B */
  int64_t row_sum, flags, align;
} lo_tuned_key;

enum { LO_TUNED_NAME = 32 };

/* A kernel, in so many parts of k, and its time in nanoseconds: texts have no decimal points that
 * depend on the user's language. */
typedef struct lo_tuned_choice {
  char kernel[LO_TUNED_NAME];
  int32_t parts;
  int64_t ns;
} lo_tuned_choice;

typedef struct lo_tuned_row {
  lo_tuned_key key;
  lo_tuned_choice best, rule; /* no kernel: left untuned, which is not kept in the file */
  bool fresh;                 /* found here, not read from the file */
} lo_tuned_row;

typedef struct lo_tuned {
  char header[512], file[32];
  lo_tuned_row *rows; /* ascending */
  size_t count, capacity;
} lo_tuned;

/* An empty table. `about` is for what it holds. */
void lo_tuned_start(lo_tuned *t, const char *about);
/* Adds what the file has; lines that are none are left out. `why` as in cache_file.h. */
void lo_tuned_read(lo_tuned *t, const layerops_open_args *args, char *why);
/* NULL: not there. */
const lo_tuned_row *lo_tuned_find(const lo_tuned *t, const lo_tuned_key *key);
/* Adds or replaces; false where there is no memory. */
bool lo_tuned_put(lo_tuned *t, const lo_tuned_row *row);
/* What is fresh counts as read from now on; what was left untuned is gone. */
void lo_tuned_settle(lo_tuned *t);
/* Writes what is fresh, and what the file has beside. */
bool lo_tuned_save(const lo_tuned *t, const layerops_open_args *args, char *why);
/* Empties table and file. */
bool lo_tuned_clear(lo_tuned *t, const layerops_open_args *args, char *why);
void lo_tuned_free(lo_tuned *t);

/* Calls `told`. */
void lo_tuned_tell(const lo_tuned_row *row, const char *reason, layerops_tuned_fn told, void *user);

#endif
