/* Threads of a context's own that wait for work next to the caller. A hand-over costs a fraction of
 * a microsecond while they spin, and they spin for LO_SPIN_NS after their last work. */
#ifndef LO_CPU_TEAM_H
#define LO_CPU_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include <layerops/layerops.h>

typedef struct lo_team lo_team;

/* Starts up to `workers` threads: as many as the system gives, maybe none. They have the caller's
 * affinity, or are bound to cores as `bind` says, and take no signals. NULL where there is no
 * memory. */
lo_team *lo_team_start(int workers, layerops_bind bind);

/* Ends and joins the threads. In a child after fork, which has none, just frees. NULL is allowed.
 */
void lo_team_end(lo_team *team);

/* Runs body(arg, i) for each i in [0, n); task i belongs to thread i mod the number of threads, of
 * which the caller is thread 0. The caller never waits for a thread that has not begun: it takes
 * what such a thread was offered itself, so that on a crowded machine, or while a thread is still
 * waking up, a region costs no more than the same work done alone. By one thread at a time, not
 * from a task, not in a child after fork. */
void lo_team_run(lo_team *team, int64_t n, void (*body)(void *arg, int64_t i), void *arg);

/* Measures for at most some 10 us what a region of two threads takes beyond its work, in ns: the
 * least of a few, as all else that takes time only adds to it. 0 where the first worker did not
 * come in time: it may not have begun yet. */
int64_t lo_team_hand_over(lo_team *team);

/* Whether all workers wait awake, so that a region begins at once. */
bool lo_team_awake(const lo_team *team);

#endif
