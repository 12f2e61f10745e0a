#include <config.h>

#include <signal.h>

#include "tools/interrupt.h"

static volatile sig_atomic_t came;

static void note(int number) {
  came = number;
}

void interrupt_watch(void) {
  const int signals[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; i++) {
    struct sigaction old, new = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&new.sa_mask);
    /* nohup and background jobs of some shells ignore them */
    if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
      sigaction(signals[i], &new, NULL);
  }
}

int interrupt_came(void) {
  return came;
}
