/* No wake-up is lost: one thread sets `value` and then looks at `asleep`, the other sets `asleep`
 * and then looks at `value`, each with a fence between, so one of them sees what the other wrote.
 * Sleeping lasts while `asleep` is 1, so a wake-up that is late ends a later sleep at most too
 * early. */
#include <config.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backends/cpu/wait.h"

/* ---- Sleeping ---- */

#if defined __linux__
void lo_word_init(lo_word *word) {
  *word = (lo_word){0};
}

void lo_word_destroy(lo_word *word) {
  (void)word;
}

static void sleep_until_woken(lo_word *word) {
  syscall(SYS_futex, &word->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void wake(lo_word *word) {
  atomic_store(&word->asleep, 0);
  syscall(SYS_futex, &word->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
void lo_word_init(lo_word *word) {
  *word = (lo_word){0};
  pthread_mutex_init(&word->lock, NULL);
  pthread_cond_init(&word->changed, NULL);
}

void lo_word_destroy(lo_word *word) {
  pthread_cond_destroy(&word->changed);
  pthread_mutex_destroy(&word->lock);
}

static void sleep_until_woken(lo_word *word) {
  pthread_mutex_lock(&word->lock);
  while (atomic_load(&word->asleep)) pthread_cond_wait(&word->changed, &word->lock);
  pthread_mutex_unlock(&word->lock);
}

static void wake(lo_word *word) {
  pthread_mutex_lock(&word->lock);
  atomic_store(&word->asleep, 0);
  pthread_cond_signal(&word->changed);
  pthread_mutex_unlock(&word->lock);
}
#endif

/* ---- Spinning ---- */

static inline void pause_core(void) {
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("isb" ::: "memory"); /* yield does nothing on cores without SMT */
#endif
}

int64_t lo_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* After a while the core is offered to whoever else may want it, maybe the very thread that is
 * waited for. Not sooner, as even an offer that nobody takes costs as much as a hand-over. */
static bool changes_soon(const lo_word *word, unsigned old) {
  const int64_t start = lo_now();
  for (int64_t spent = 0; spent < LO_SPIN_NS; spent = lo_now() - start) {
    if (spent > LO_SPIN_NS / 6) sched_yield();
    for (int i = 0; i < 32; i++) {
      if (lo_word_get(word) != old) return true;
      pause_core();
    }
  }
  return false;
}

void lo_word_wait(lo_word *word, unsigned old) {
  if (changes_soon(word, old)) return;
  atomic_store_explicit(&word->asleep, 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  if (lo_word_get(word) == old) sleep_until_woken(word);
  atomic_store_explicit(&word->asleep, 0, memory_order_relaxed);
}

void lo_word_wake(lo_word *word) {
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&word->asleep, memory_order_relaxed)) wake(word);
}
