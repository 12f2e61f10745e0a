#include <config.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/error.h"

static _Thread_local char message[1024];

layerops_status lo_fail(layerops_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  /* A message may quote a hostile file, and goes to a terminal; a compiler's log keeps its lines.
   */
  for (char *p = message; *p; p++)
    if (iscntrl((unsigned char)*p) && *p != '\n' && *p != '\t') *p = '?';
  return status;
}

const char *layerops_last_error(void) {
  return message;
}
