/* TAP for C tests. The plan is printed last, by done(), so that a program that dies early has none.
 */
#ifndef LO_TAP_H
#define LO_TAP_H

#include <stdarg.h>
#include <stdio.h>

static int tap_count, tap_failed;

static inline void tap_text(const char *format, va_list list) {
  vprintf(format, list);
  putchar('\n');
  fflush(stdout);
}

/* One test; returns whether it passed. */
__attribute__((format(printf, 2, 3))) static inline int ok(int passed, const char *format, ...) {
  va_list list;
  printf("%sok %d - ", passed ? "" : "not ", ++tap_count);
  tap_failed += !passed;
  va_start(list, format);
  tap_text(format, list);
  va_end(list);
  return passed;
}

/* A test that cannot run here, and why. */
__attribute__((format(printf, 2, 3))) static inline void skip(const char *name, const char *format,
                                                              ...) {
  va_list list;
  printf("ok %d - %s # SKIP ", ++tap_count, name);
  va_start(list, format);
  tap_text(format, list);
  va_end(list);
}

__attribute__((format(printf, 1, 2))) static inline void diag(const char *format, ...) {
  va_list list;
  printf("# ");
  va_start(list, format);
  tap_text(format, list);
  va_end(list);
}

/* The last statement of main: "not ok" already tells of failures, so the exit status is 0. */
static inline int done(void) {
  printf("1..%d\n", tap_count);
  return 0;
}

#endif
