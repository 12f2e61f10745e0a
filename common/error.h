/* The thread's last error. */
#ifndef LO_ERROR_H
#define LO_ERROR_H

#include <layerops/base.h>

/* Sets the thread's message and returns status: `return lo_fail(LAYEROPS_ERROR_INVALID, "...",
 * ...)`. */
layerops_status lo_fail(layerops_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define LO_TRY(call)                                                                               \
  do {                                                                                             \
    layerops_status lo_try_status_ = (call);                                                       \
    if (lo_try_status_ != LAYEROPS_OK) return lo_try_status_;                                      \
  } while (0)

#endif
