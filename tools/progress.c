#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/progress.h"

#define WIDTH    30
#define INTERVAL 0.1 /* seconds: drawing must not slow what it shows */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(struct progress *p) {
  const char *term = getenv("TERM");
  *p = (struct progress){.terminal = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"))};
}

void progress_show(struct progress *p, const char *title, int64_t done, int64_t total) {
  if (!p->terminal || now() - p->last < INTERVAL) return;
  char bar[WIDTH + 1];
  int full = (int)((double)done / (double)total * WIDTH);
  for (int i = 0; i < WIDTH; i++) bar[i] = i < full ? '=' : ' ';
  bar[WIDTH] = 0;
  fprintf(stderr, "\r%s [%s] %lld/%lld\033[K", title, bar, (long long)done, (long long)total);
  fflush(stderr);
  p->last = now();
  p->shown = true;
}

void progress_clear(struct progress *p) {
  if (!p->shown) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  p->shown = false;
  p->last = 0;
}
