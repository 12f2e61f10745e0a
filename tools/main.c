/* The command `layerops`: one row of a table for each sub-command. */
#include <config.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

static int help_run(int argc, char **argv);

/* argv[0] is the sub-command's own name. */
struct command {
  const char *name, *line;
  int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"devices", "list the devices, and why others are absent", tool_devices},
    {"train", "train a network on a data set", tool_train},
    {"predict", "classify samples with a trained network", tool_predict},
    {"prune", "make a trained network block-sparse", tool_prune},
    {"bench", "measure layers, beside peer libraries", tool_bench},
    {"tune", "measure which kernels are the fastest for layers", tool_tune},
    {"selftest", "check every operation of a device against the reference", tool_selftest},
    {"help", "tell about a command", help_run},
};
#define COUNT (sizeof commands / sizeof *commands)

static const struct command *find(const char *name) {
  for (size_t i = 0; i < COUNT; i++)
    if (!strcmp(commands[i].name, name)) return &commands[i];
  return NULL;
}

static void print_help(FILE *to) {
  fputs("Usage: layerops COMMAND [OPTION]...\n"
        "       layerops --version\n\n"
        "Layers of neural networks on CPUs, OpenCL devices and NVIDIA GPUs.\n\n",
        to);
  for (size_t i = 0; i < COUNT; i++) fprintf(to, "  %-12s%s\n", commands[i].name, commands[i].line);
  fputs("\n'layerops help COMMAND' tells more. Exit status: 0 success, 1 failure, 2 wrong usage,\n"
        "128 + N after signal N (130 after Ctrl-C).\n",
        to);
}

static int unknown(const char *name) {
  const char *what = name[0] == '-' ? "option" : "command";
  return tool_misused("", "unknown %s '%.100s'", what, name);
}

static int help_run(int argc, char **argv) {
  if (argc < 2) {
    print_help(stdout);
    return TOOL_OK;
  }
  if (argc > 2) return tool_misused("help", "unexpected argument '%.100s'", argv[2]);
  const struct command *command = find(argv[1]);
  if (!command) return unknown(argv[1]);
  char option[] = "--help";
  char *list[] = {argv[1], option, NULL};
  if (command->run == help_run) list[1] = NULL;
  return command->run(list[1] ? 2 : 1, list);
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return TOOL_USAGE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return help_run(1, argv);
  if (!strcmp(argv[1], "--version")) {
    printf("layerops %s\n", layerops_version_string());
    return TOOL_OK;
  }
  const struct command *command = find(argv[1]);
  return command ? command->run(argc - 1, argv + 1) : unknown(argv[1]);
}

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); /* a file that exceeds a limit is an error of write, not the end */
  setvbuf(stdout, NULL, _IOLBF,
          BUFSIZ); /* an epoch's line shows in a pipe too when it is written */
  int status = run(argc, argv);
  if ((fflush(stdout) || ferror(stdout)) && status == TOOL_OK)
    return tool_fail("", "writing to standard output failed: %s", strerror(errno));
  return status;
}
