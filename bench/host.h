#ifndef BENCH_HOST_H
#define BENCH_HOST_H

/* What a run file says about the machine. */

#include <stddef.h>

/* The processor: its model name, and vendor, family and model number where the system tells them,
   as in "Intel(R) Xeon(R) Processor (GenuineIntel 6/143)". "unknown" where it tells nothing. */
void bench_cpu_name(char *name, size_t size);

/* The date and time now, UTC, as in 2026-11-30T12:00:00Z. */
void bench_date(char *text, size_t size);

/* Control characters become '?': a message may quote a hostile file, and goes to a terminal. */
void bench_printable(char *text);

#endif
