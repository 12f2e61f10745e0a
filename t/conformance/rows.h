/* How far softmax in f32 may be off, derived from a row itself. */
#ifndef CF_ROWS_H
#define CF_ROWS_H

#include <stdint.h>

typedef struct cf_row {
  double shift, sum;
  double error; /* of sum, relatively */
} cf_row;

cf_row cf_row_of(const double *x, int64_t n);
double cf_softmax_error(const cf_row *r, double x);
double cf_log_softmax_error(const cf_row *r, double x);

#endif
