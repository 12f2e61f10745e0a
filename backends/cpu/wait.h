/* A number that one thread changes and another waits for. Waiting spins for a while, which is the
 * quick way between two cores (0.1 us against some 10 us), and then sleeps: a thread that has
 * nothing to do stops running after LO_SPIN_NS. */
#ifndef LO_CPU_WAIT_H
#define LO_CPU_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

#if !defined __linux__
#include <pthread.h>
#endif

enum { LO_SPIN_NS = 50000 };

typedef struct lo_word {
  atomic_uint value;
  atomic_uint asleep; /* 1: who waits sleeps, or is about to; 0 wakes it */
#if !defined __linux__
  pthread_mutex_t lock;
  pthread_cond_t changed;
#endif
} lo_word;

/* With value 0. */
void lo_word_init(lo_word *word);
void lo_word_destroy(lo_word *word);

/* Who reads a value sees what was written before it was set. */
static inline unsigned lo_word_get(const lo_word *word) {
  return atomic_load_explicit(&word->value, memory_order_acquire);
}
static inline void lo_word_set(lo_word *word, unsigned value) {
  atomic_store_explicit(&word->value, value, memory_order_release);
}

/* Whether who waits sleeps; at once out of date. */
static inline int lo_word_sleeps(const lo_word *word) {
  return atomic_load_explicit(&word->asleep, memory_order_relaxed) != 0;
}

/* Returns when the value has changed from `old`, and sometimes before. One thread at a time. */
void lo_word_wait(lo_word *word, unsigned old);

/* To be called after each change that another thread may wait for. Apart from the change, so that
 * many words can be set before the first sleeper is woken. */
void lo_word_wake(lo_word *word);

/* ns of a clock that only goes forward. */
int64_t lo_now(void);

#endif
