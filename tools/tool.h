/* What sub-commands of `layerops` share: messages and options. */
#ifndef LAYEROPS_TOOLS_TOOL_H
#define LAYEROPS_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <layerops/layerops.h>

#include "tools/command.h"

/* Prints "layerops COMMAND: message" to stderr. Each returns the exit status that goes with it. */
int tool_fail(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
int tool_misused(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What the library's last failing call of this thread had to say. */
int tool_library_failed(const char *command);

/* An option of a command, with what help says of it. parse reads the argument into *field and
 * answers whether it could; `want` completes "--batch is 'x', but must be ...". */
struct tool_option {
  const char *name, *argument; /* argument NULL: a switch */
  const char *want, *help;
  bool (*parse)(const char *text, void *field);
  size_t offset; /* of the field in the settings */
};

struct tool_usage {
  const char *command, *synopsis;
  const char *text; /* paragraphs around the options: before, */
  const char *after;
  const struct tool_option *options;
  size_t count;
};

/* Reads the command line into settings. -1: go on; else the exit status (--help, or a mistake). */
int tool_parse(const struct tool_usage *usage, int argc, char **argv, void *settings);

bool parse_switch(const char *text, void *field);   /* bool */
bool parse_text(const char *text, void *field);     /* const char * */
bool parse_count(const char *text, void *field);    /* int64_t, 1 and more */
bool parse_threads(const char *text, void *field);  /* int32_t, 1 to 4096 */
bool parse_seed(const char *text, void *field);     /* uint64_t */
bool parse_positive(const char *text, void *field); /* double, finite, above 0 */
bool parse_share(const char *text, void *field);    /* double in [0,1) */
bool parse_decay(const char *text, void *field);    /* double, finite, 0 and more */

#endif
