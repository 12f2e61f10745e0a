#include <config.h>

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np, dl_iterate_phdr */
#endif

#if defined __linux__
#include <link.h>
#endif

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/cpu/team.h"
#include "backends/cpu/topology.h"
#include "backends/cpu/wait.h"
#include "common/process.h"

/* Processors fetch lines of 64 bytes in pairs, or have lines of 128. */
enum { LINE = 128 };

/* Tasks first, first + step, ... below n. Without a body: the end. */
typedef struct share {
  void (*body)(void *arg, int64_t i);
  void *arg;
  int64_t first, step, n;
} share;

/* What the caller writes comes with one line, what the worker answers with another. */
typedef struct worker {
  alignas(LINE) lo_word offer; /* odd: the share is on offer; who makes it even has taken it */
  share share;
  alignas(LINE) lo_word done; /* the value of offer whose share is done */
  pthread_t thread;
} worker;

struct lo_team {
  unsigned generation; /* of lo_fork_generation */
  int workers;
  worker worker[];
};

static void run_share(const share *s) {
  for (int64_t i = s->first; i < s->n; i += s->step) s->body(s->arg, i);
}

static void put_on_offer(worker *w, share s) {
  w->share = s;
  lo_word_set(&w->offer, lo_word_get(&w->offer) + 1);
}

static bool take(worker *w) {
  unsigned value = lo_word_get(&w->offer);
  return value & 1 && atomic_compare_exchange_strong(&w->offer.value, &value, value + 1);
}

static void *work(void *pointer) {
  worker *w = pointer;
  for (;;) {
    while (!take(w)) {
      unsigned value = lo_word_get(&w->offer);
      if (!(value & 1)) lo_word_wait(&w->offer, value);
    }
    if (!w->share.body) return NULL;
    run_share(&w->share);
    lo_word_set(&w->done, lo_word_get(&w->offer));
    lo_word_wake(&w->done);
  }
}

void lo_team_run(lo_team *team, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  const int64_t helpers = n - 1 < team->workers ? n - 1 : team->workers;
  worker *const w = team->worker;
  for (int64_t i = 0; i < helpers; i++)
    put_on_offer(&w[i], (share){body, arg, i + 1, helpers + 1, n});
  for (int64_t i = 0; i < helpers; i++) lo_word_wake(&w[i].offer);
  run_share(&(share){body, arg, 0, helpers + 1, n});
  for (int64_t i = helpers - 1; i >= 0; i--) {
    if (!take(&w[i])) continue;
    run_share(&w[i].share);
    lo_word_set(&w[i].done, lo_word_get(&w[i].offer));
  }
  for (int64_t i = 0; i < helpers; i++) {
    const unsigned taken = lo_word_get(&w[i].offer);
    for (unsigned value; (value = lo_word_get(&w[i].done)) != taken;)
      lo_word_wait(&w[i].done, value);
  }
}

bool lo_team_awake(const lo_team *team) {
  for (int i = 0; i < team->workers; i++)
    if (lo_word_sleeps(&team->worker[i].offer)) return false;
  return true;
}

/* ---- What a hand-over costs ---- */

typedef struct meeting {
  int64_t until;
  alignas(LINE) atomic_int came;
} meeting;

/* Who hands over gives the other time to come, or would take the task back. */
static void meet(void *pointer, int64_t i) {
  meeting *m = pointer;
  if (i)
    atomic_store_explicit(&m->came, 1, memory_order_relaxed);
  else
    while (!atomic_load_explicit(&m->came, memory_order_relaxed) && lo_now() < m->until) {
    }
}

int64_t lo_team_hand_over(lo_team *team) {
  enum { TIMES = 8, PATIENCE_NS = 10000 };
  const int64_t until = lo_now() + PATIENCE_NS;
  int64_t least = 0;
  for (int i = 0; i < TIMES; i++) {
    const int64_t start = lo_now();
    meeting m = {.until = until};
    lo_team_run(team, 2, meet, &m);
    const int64_t end = lo_now();
    if (!team->workers || end >= until) return 0;
    if (!least || end - start < least) least = end - start;
  }
  return least;
}

/* ---- Beginning and end ---- */

/* The C library puts the thread-local variables of all modules on the stack of each thread, and
 * some programs have more of them than our threads have stack. */
#if defined __linux__
static int add_locals(struct dl_phdr_info *module, size_t size, void *sum) {
  (void)size;
  for (int i = 0; i < module->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &module->dlpi_phdr[i];
    if (part->p_type == PT_TLS) *(size_t *)sum += part->p_memsz + part->p_align;
  }
  return 0;
}
#endif

static size_t thread_locals(void) {
  size_t sum = 0;
#if defined __linux__
  dl_iterate_phdr(add_locals, &sum);
#endif
  return sum;
}

/* Kernels are at home in 64 KB; the system wants some for itself. */
static size_t stack_size(void) {
  long own = sysconf(_SC_THREAD_STACK_MIN);
  return (256 << 10) + (own > 0 ? (size_t)own : 0) + thread_locals();
}

static bool start(worker *w, const pthread_attr_t *attributes) {
  lo_word_init(&w->offer);
  lo_word_init(&w->done);
  if (!pthread_create(&w->thread, attributes, work, w)) {
#if defined __linux__
    pthread_setname_np(w->thread, "layerops");
#endif
    return true;
  }
  lo_word_destroy(&w->offer);
  lo_word_destroy(&w->done);
  return false;
}

lo_team *lo_team_start(int workers, layerops_bind bind) {
  lo_team *team = NULL;
  const size_t size = sizeof *team + (size_t)workers * sizeof(worker);
  pthread_attr_t attributes;
  if (posix_memalign((void **)&team, LINE, size)) return NULL;
  team->generation = lo_fork_generation();
  team->workers = 0;
  if (pthread_attr_init(&attributes)) return team;
  pthread_attr_setstacksize(&attributes, stack_size());
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (team->workers < workers && start(&team->worker[team->workers], &attributes))
    team->workers++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  for (int i = 0; i < team->workers && bind > LAYEROPS_BIND_NONE; i++)
    lo_topology_bind(team->worker[i].thread, bind, i + 1, team->workers + 1);
  return team;
}

void lo_team_end(lo_team *team) {
  if (!team) return;
  const bool ours = team->generation == lo_fork_generation();
  for (int i = 0; i < team->workers && ours; i++) {
    worker *w = &team->worker[i];
    put_on_offer(w, (share){0});
    lo_word_wake(&w->offer);
    pthread_join(w->thread, NULL);
    lo_word_destroy(&w->offer);
    lo_word_destroy(&w->done);
  }
  free(team);
}
