/* Ctrl-C and SIGTERM as a question: has one come? */
#ifndef LAYEROPS_TOOLS_INTERRUPT_H
#define LAYEROPS_TOOLS_INTERRUPT_H

/* From now on the first such signal is only noted; a second one kills. Ignored signals stay
 * ignored. */
void interrupt_watch(void);

/* The signal's number, 0 before. */
int interrupt_came(void);

#endif
