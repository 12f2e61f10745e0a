#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define MAX_OPTIONS 32
#define HELP        'h'
#define FIRST       256 /* getopt's value of option 0, beyond all characters */

static void print_message(const char *command, const char *format, va_list list) {
  fprintf(stderr, "layerops%s%s: ", command[0] ? " " : "", command);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
}

int tool_fail(const char *command, const char *format, ...) {
  va_list list;
  va_start(list, format);
  print_message(command, format, list);
  va_end(list);
  return TOOL_FAILED;
}

static int hint(const char *command) {
  fprintf(stderr, "Try 'layerops help%s%s'.\n", command[0] ? " " : "", command);
  return TOOL_USAGE;
}

int tool_misused(const char *command, const char *format, ...) {
  va_list list;
  va_start(list, format);
  print_message(command, format, list);
  va_end(list);
  return hint(command);
}

int tool_library_failed(const char *command) {
  return tool_fail(command, "%s", layerops_last_error());
}

#define INDENT 26

/* The lines of an option's help, below each other. */
static void print_lines(const char *text) {
  for (const char *end; (end = strchr(text, '\n')); text = end + 1)
    printf("%.*s\n%*s", (int)(end - text), text, INDENT, "");
  puts(text);
}

static void print_help(const struct tool_usage *usage) {
  printf("Usage: layerops %s %s\n\n%s\n\n", usage->command, usage->synopsis, usage->text);
  for (size_t i = 0; i < usage->count; i++) {
    const struct tool_option *o = &usage->options[i];
    int used =
        printf("  --%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
    printf("%*s", used < INDENT ? INDENT - used : 1, "");
    print_lines(o->help);
  }
  printf("  %-24s%s\n", "--help", "print this");
  if (usage->after) printf("\n%s\n", usage->after);
}

static int parse_option(const struct tool_usage *usage, const struct tool_option *o,
                        const char *text, void *settings) {
  if (o->parse(text, (char *)settings + o->offset)) return -1;
  return tool_misused(usage->command, "--%s is '%.100s', but must be %s", o->name, text, o->want);
}

int tool_parse(const struct tool_usage *usage, int argc, char **argv, void *settings) {
  struct option list[MAX_OPTIONS + 2] = {{"help", no_argument, NULL, HELP}};
  char name[64];
  for (size_t i = 0; i < usage->count && i < MAX_OPTIONS; i++)
    list[i + 1] = (struct option){usage->options[i].name,
                                  usage->options[i].argument ? required_argument : no_argument,
                                  NULL, FIRST + (int)i};
  snprintf(name, sizeof name, "layerops %s", usage->command);
  char *own_name = argv[0];
  argv[0] = name; /* getopt names it in its messages */
  optind = 0;     /* begins anew */
  int status = -1, value;
  while (status < 0 && (value = getopt_long(argc, argv, "h", list, NULL)) != -1) {
    if (value == HELP) {
      print_help(usage);
      status = TOOL_OK;
    } else if (value < FIRST) {
      status = hint(usage->command);
    } else {
      status = parse_option(usage, &usage->options[value - FIRST], optarg, settings);
    }
  }
  argv[0] = own_name;
  if (status < 0 && optind < argc)
    return tool_misused(usage->command, "unexpected argument '%.100s'", argv[optind]);
  return status;
}

bool parse_switch(const char *text, void *field) {
  (void)text;
  *(bool *)field = true;
  return true;
}

bool parse_text(const char *text, void *field) {
  *(const char **)field = text;
  return text[0] != 0;
}

static bool parse_integer(const char *text, unsigned long long least, unsigned long long most,
                          unsigned long long *value) {
  char *end;
  if (text[0] < '0' || text[0] > '9') return false;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return !errno && !*end && *value >= least && *value <= most;
}

bool parse_count(const char *text, void *field) {
  unsigned long long value;
  if (!parse_integer(text, 1, INT64_MAX, &value)) return false;
  *(int64_t *)field = (int64_t)value;
  return true;
}

bool parse_threads(const char *text, void *field) {
  unsigned long long value;
  if (!parse_integer(text, 1, 4096, &value)) return false;
  *(int32_t *)field = (int32_t)value;
  return true;
}

bool parse_seed(const char *text, void *field) {
  unsigned long long value;
  if (!parse_integer(text, 0, UINT64_MAX, &value)) return false;
  *(uint64_t *)field = value;
  return true;
}

static bool parse_real(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return *text && !*end && isfinite(*value);
}

bool parse_positive(const char *text, void *field) {
  return parse_real(text, field) && *(double *)field > 0;
}

bool parse_share(const char *text, void *field) {
  return parse_real(text, field) && *(double *)field >= 0 && *(double *)field < 1;
}

bool parse_decay(const char *text, void *field) {
  return parse_real(text, field) && *(double *)field >= 0;
}
