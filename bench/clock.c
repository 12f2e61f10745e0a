#include <config.h>

#include "bench/clock.h"

#define LEAST_FILLER (INT64_C(128) << 20)
#define TRY(call)                                                                                  \
  do {                                                                                             \
    layerops_status status_ = (call);                                                              \
    if (status_ != LAYEROPS_OK) return status_;                                                    \
  } while (0)

layerops_status bench_clock_make(layerops_context *ctx, struct bench_gate *gate,
                                 struct bench_clock *clock) {
  *clock = (struct bench_clock){.ctx = ctx, .gate = gate};
  TRY(layerops_event_create(ctx, &clock->start));
  return layerops_event_create(ctx, &clock->stop);
}

static int64_t filler_bytes(const layerops_device_info *info) {
  int64_t cache = info->l3 > info->l2 ? info->l3 : info->l2;
  return 2 * cache > LEAST_FILLER ? 2 * cache / 4096 * 4096 : LEAST_FILLER;
}

/* The distance of the filler's two halves reads it and writes one number. */
static layerops_status make_filler(struct bench_clock *clock) {
  layerops_device_info info;
  TRY(layerops_context_info(clock->ctx, &info));
  const int64_t cols = 256, bytes = filler_bytes(&info);
  const int64_t rows = bytes / (int64_t)sizeof(float) / cols;
  TRY(layerops_buffer_create(clock->ctx, bytes + 256, &clock->filler));
  layerops_matrix all = layerops_matrix_f32(clock->filler, rows, cols);
  layerops_fill_args fill = {.y = all};
  TRY(layerops_fill(clock->ctx, &fill));
  clock->flush.y = clock->flush.target = all;
  clock->flush.y.rows = clock->flush.target.rows = rows / 2;
  clock->flush.target.offset = rows / 2 * cols;
  clock->flush.loss = layerops_vector_f32(clock->filler, 1);
  clock->flush.loss.offset = rows * cols;
  TRY(layerops_mse(clock->ctx, &clock->flush)); /* has its workspace from now on */
  return layerops_sync(clock->ctx);
}

layerops_status bench_clock_set(struct bench_clock *clock, bool cold) {
  clock->cold = cold;
  return cold && !clock->filler ? make_filler(clock) : LAYEROPS_OK;
}

static bool enqueue_all(struct bench_clock *clock, bool (*enqueue)(void *), void *state) {
  return (!clock->cold || layerops_mse(clock->ctx, &clock->flush) == LAYEROPS_OK) &&
         layerops_event_record(clock->start) == LAYEROPS_OK && enqueue(state) &&
         layerops_event_record(clock->stop) == LAYEROPS_OK;
}

double bench_clock_time(void *of, bool (*enqueue)(void *), void *state) {
  struct bench_clock *clock = of;
  double milliseconds = -1;
  if (clock->gate && !bench_gate_close(clock->gate)) return -1;
  bool good = enqueue_all(clock, enqueue, state);
  if (clock->gate) bench_gate_open(clock->gate);
  good = good && layerops_event_wait(clock->stop) == LAYEROPS_OK &&
         layerops_event_elapsed(clock->start, clock->stop, &milliseconds) == LAYEROPS_OK;
  return good ? 1e-3 * milliseconds : -1;
}

void bench_clock_free(struct bench_clock *clock) {
  layerops_event_destroy(clock->start);
  layerops_event_destroy(clock->stop);
  layerops_buffer_destroy(clock->filler);
  *clock = (struct bench_clock){0};
}
