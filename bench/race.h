#ifndef BENCH_RACE_H
#define BENCH_RACE_H

/* One row of a suite on one device, warm or cold: the library and the peers that take part. */

#include "bench/call.h"
#include "bench/session.h"

#define BENCH_MAX_ENTRANTS 16

struct bench_race;

/* One who does a row: the library first, then the peers; each with plain weights, with packed
   ones, or twice. Between them, beside a block-sparse row that peers do, the library's dense
   product of the expanded weights. */
struct bench_entrant {
  struct bench_race *race;
  const char *name; /* "layerops", "dense" or the peer's */
  bool packed, dense;
  char kernel[128];
  const struct bench_peer *peer; /* NULL: the library */
  void *state;                   /* of the peer */
  struct bench_call *call;       /* of the library, with */
  struct bench_steps *steps;     /* what it repeats */
  struct bench_check check;
  double pack_seconds; /* NAN: not packed */
};

struct bench_race {
  struct bench_session *session;
  const struct bench_target *target;
  struct bench_operands operands;
  struct bench_layer layer;
  enum bench_residency residency;
  bool timed; /* by the device */
  struct bench_steps steps;
  struct bench_steps_list list; /* the same as peers take it */
  struct bench_call calls[2];   /* with plain and with packed weights */
  struct bench_row wide_row;    /* the dense product, where it takes part */
  struct bench_operands wide;
  struct bench_steps wide_steps;
  struct bench_call wide_call;
  struct bench_entrant entrants[BENCH_MAX_ENTRANTS];
  size_t count;
};

/* Tells that someone does not take part, and why. False where writing failed. */
bool bench_race_skip(const struct bench_race *race, const char *who, const char *why);

/* Reports what was measured, one after the other, and adds to the summaries. False where memory or
   writing failed. */
bool bench_race_verdict(struct bench_race *race, const struct bench_stats *stats);

#endif
