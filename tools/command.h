#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

/* The sub-commands of `layerops`: each has a row in the table of main.c. argv[0] is the
   sub-command's own name. */

/* Exit statuses of them all. */
enum {
  TOOL_OK = 0,
  TOOL_FAILED = 1,  /* it did not work, or a result is wrong */
  TOOL_USAGE = 2,   /* the command line or a file it names is not what it should be */
  TOOL_SIGNAL = 128 /* + the signal's number: 130 after Ctrl-C */
};

int tool_bench(int argc, char **argv);
int tool_devices(int argc, char **argv);
int tool_predict(int argc, char **argv);
int tool_prune(int argc, char **argv);
int tool_selftest(int argc, char **argv);
int tool_train(int argc, char **argv);
int tool_tune(int argc, char **argv);

#endif
