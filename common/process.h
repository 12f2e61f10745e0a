/* What concerns the whole process. */
#ifndef LO_PROCESS_H
#define LO_PROCESS_H

/* Counts the forks between the first process and this one, from the first call of lo_watch_forks
 * on. A GPU context that was opened under another number belongs to a parent: its driver state is
 * not ours. */
unsigned lo_fork_generation(void);
void lo_watch_forks(void);

#endif
