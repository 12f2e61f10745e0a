/* A progress bar on standard error, where that is a terminal. */
#ifndef LAYEROPS_TOOLS_PROGRESS_H
#define LAYEROPS_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
  bool terminal, shown;
  double last; /* when it was drawn */
};

void progress_start(struct progress *p);
void progress_show(struct progress *p, const char *title, int64_t done, int64_t total);
void progress_clear(struct progress *p);

#endif
