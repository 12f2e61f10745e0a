/* What an epoch or an evaluation found, summed up from its steps. */
#include <config.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "network/network.h"

double lo_network_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool lo_network_has_loss(const layerops_network *net, const lo_samples *s) {
  return lo_present(&s->targets) || (net->loss != LAYEROPS_LOSS_MSE && lo_present(&s->labels));
}

bool lo_network_has_answers(const layerops_network *net, const lo_samples *s) {
  return lo_present(&s->labels) || (net->loss != LAYEROPS_LOSS_MSE && lo_present(&s->targets));
}

layerops_status lo_network_collect(layerops_network *net, const lo_tally *t,
                                   layerops_network_result *result) {
  double loss = 0, correct = 0;
  LO_TRY(layerops_sync(net->ctx));
  if (t->steps)
    LO_TRY(layerops_buffer_read(net->ctx, net->slots, net->slots_host,
                                t->steps * (int64_t)sizeof(lo_slot)));
  for (int64_t i = 0; i < t->steps; i++) {
    int64_t left = t->samples - i * t->batch, rows = left < t->batch ? left : t->batch;
    if (t->loss) loss += (double)net->slots_host[i].loss * (double)rows;
    if (t->answers) correct += net->slots_host[i].correct;
    if (t->loss && t->losses && i < t->losses_capacity) t->losses[i] = net->slots_host[i].loss;
  }
  double samples = (double)t->samples; /* 0 of 0 is NaN */
  *result = (layerops_network_result){.loss = t->loss ? loss / samples : NAN,
                                      .accuracy = t->answers ? correct / samples : NAN,
                                      .samples = t->samples,
                                      .steps = t->steps,
                                      .seconds = lo_network_clock() - t->start};
  return LAYEROPS_OK;
}

void lo_network_give(const layerops_network_result *from, layerops_network_result *to,
                     size_t size) {
  if (!to) return;
  memset(to, 0, size);
  memcpy(to, from, size < sizeof *from ? size : sizeof *from);
}
