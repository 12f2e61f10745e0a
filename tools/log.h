/* A log of JSON objects, one a line: what is written stays, whatever comes after. */
#ifndef LAYEROPS_TOOLS_LOG_H
#define LAYEROPS_TOOLS_LOG_H

#include <jansson.h>
#include <stdbool.h>

struct log {
  int fd;
  const char *path;
};

/* Appends to the file, which is made if it is not there. false and errno. */
bool log_open(struct log *log, const char *path);
/* One line, handed to the system before this returns. On failure the file is as it was. Takes the
 * reference to the object, which may be NULL (a failure then: no memory). */
bool log_write(struct log *log, json_t *object);
bool log_close(struct log *log);

/* A number, or null where it is not finite. */
json_t *log_number(double value);

#endif
