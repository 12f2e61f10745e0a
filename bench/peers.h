#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

/* The peers that bench knows, and what becomes of them on this machine. */

#include "bench/peer.h"

struct bench_peer_entry {
  const char *name;
  const char *kind;              /* of the devices that it runs on: "cpu", "opencl", "cuda" */
  void (*before_load)(void);     /* what must be set before the library is loaded, or NULL */
  const struct bench_peer *peer; /* NULL: not available */
  char reason[256]; /* why not; of a loaded one, what it said to the last layer it refused */
};

/* Loads the modules from the folder; returns the table, which ends with a NULL name. */
struct bench_peer_entry *bench_peers_load(const char *folder);

#endif
