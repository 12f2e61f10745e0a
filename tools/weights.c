#include <config.h>

#include "tools/weights.h"

layerops_status weights_count(layerops_network *network, struct weights *weights) {
  layerops_network_info info;
  *weights = (struct weights){0};
  layerops_status status = layerops_network_get_info(network, &info);
  for (int64_t i = 0; !status && i + 1 < info.count; i++) {
    const layerops_bsr *sparse;
    layerops_bsr_info described = {.elements = info.widths[i] * info.widths[i + 1]};
    weights->all += described.elements;
    status = layerops_network_sparse(network, i, &sparse);
    if (!status && sparse) status = layerops_bsr_describe(sparse, &described);
    weights->sparse_layers += !status && sparse;
    weights->kept += described.elements;
  }
  return status;
}
