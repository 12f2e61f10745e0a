#include <config.h>

#include "bench/peers/common.h"
#include "bench/timing.h"

/* The least of some samples, at least one: what disturbs only adds. */
static double try_way(void *state, bool (*run)(void *, int, int64_t), int way) {
  double least = -1, begin = bench_now();
  int64_t calls = 1;
  if (!run(state, way, 1)) return -1;
  for (int sample = 0; !sample || (sample < 8 && bench_now() - begin < 0.5); sample++) {
    double start = bench_now();
    if (!run(state, way, calls)) return -1;
    double took = bench_now() - start;
    if (least < 0 || took / (double)calls < least) least = took / (double)calls;
    if (took < 0.001) calls = (int64_t)(0.0015 / (took > 1e-7 ? took : 1e-7) * (double)calls) + 1;
  }
  return least;
}

int bench_pick(void *state, bool (*run)(void *, int, int64_t), int count) {
  int best = -1;
  double best_time = 0;
  for (int way = 0; way < count; way++) {
    double time = try_way(state, run, way);
    if (time < 0 || (best >= 0 && time >= best_time)) continue;
    best = way;
    best_time = time;
  }
  return best;
}
