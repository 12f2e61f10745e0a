#ifndef BENCH_OPS_H
#define BENCH_OPS_H

/* The operations that are not products, each on shapes whose operands fill one level of the memory
   and on the small shapes of a training step. Beside them, on a CPU, a copy that moves as many
   bytes: what the memory gives. */

#include "bench/session.h"

/* Whether all names of the list "a,b" are operations or "all"; else the first that is not, in why,
   with those that are. */
bool bench_ops_known(const char *list, char *why, size_t why_size);

/* Measures them on target T and reports them. False where memory or writing failed. */
bool bench_ops_measure(struct bench_session *session, const char *list, int t);

#endif
