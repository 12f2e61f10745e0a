/* The command `layerops`: finds the sub-command and hands over. */
#include <config.h>

#include <layerops/layerops.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"

static const struct {
  const char *name, *help;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"bench", "measure layers on devices, beside peer libraries", tool_bench},
};

#define COUNT (sizeof commands / sizeof *commands)

static void print_help(FILE *file) {
  fputs("usage: layerops COMMAND [OPTION]...\n\n", file);
  for (size_t i = 0; i < COUNT; i++)
    fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].help);
  fputs("\n`layerops COMMAND --help` tells a command's options, `layerops --version` the version.\n",
        file);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  if (!strcmp(name, "--help") || !strcmp(name, "-h")) return print_help(stdout), TOOL_OK;
  if (!strcmp(name, "--version")) {
    printf("layerops %s\n", layerops_version_string());
    return TOOL_OK;
  }
  for (size_t i = 0; i < COUNT; i++)
    if (!strcmp(commands[i].name, name)) return commands[i].run(argc - 1, argv + 1);
  if (*name) fprintf(stderr, "layerops: '%s' is not a command\n", name);
  print_help(stderr);
  return TOOL_USAGE;
}
