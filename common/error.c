#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "common/error.h"

static _Thread_local char message[1024];

layerops_status lo_fail(layerops_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return status;
}

const char *layerops_last_error(void) { return message; }
