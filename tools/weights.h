/* What of a network's weights is there. */
#ifndef LAYEROPS_TOOLS_WEIGHTS_H
#define LAYEROPS_TOOLS_WEIGHTS_H

#include <layerops/layerops.h>

struct weights {
  int64_t all, kept; /* biases left out */
  int64_t sparse_layers;
};

layerops_status weights_count(layerops_network *network, struct weights *weights);

#endif
