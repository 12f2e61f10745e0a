/* Comparisons for C tests that show both sides where they differ. */
#ifndef LO_TEST_IS_H
#define LO_TEST_IS_H

#include <string.h>

#include "t/tap.h"

#define is_int(got, want, ...)                                                                     \
  do {                                                                                             \
    long long got_ = (long long)(got), want_ = (long long)(want);                                  \
    if (!ok(got_ == want_, __VA_ARGS__))                                                           \
      diag("%s:%d: got %lld, want %lld", __FILE__, __LINE__, got_, want_);                         \
  } while (0)

#define is_str(got, want, ...)                                                                     \
  do {                                                                                             \
    const char *got_ = (got), *want_ = (want);                                                     \
    if (!ok(got_ && !strcmp(got_, want_), __VA_ARGS__))                                            \
      diag("%s:%d: got \"%s\", want \"%s\"", __FILE__, __LINE__, got_ ? got_ : "(null)", want_);   \
  } while (0)

#define contains(got, part, ...)                                                                   \
  do {                                                                                             \
    const char *got_ = (got), *part_ = (part);                                                     \
    if (!ok(got_ && strstr(got_, part_), __VA_ARGS__))                                             \
      diag("%s:%d: \"%s\" lacks \"%s\"", __FILE__, __LINE__, got_ ? got_ : "(null)", part_);       \
  } while (0)

#endif
