/* Samples of a data set on a device. */
#ifndef LAYEROPS_TOOLS_SAMPLES_H
#define LAYEROPS_TOOLS_SAMPLES_H

#include <layerops/layerops.h>

#include "tools/dataset.h"

struct samples {
  layerops_matrix x, labels, targets; /* targets: one-hot, where asked for */
  layerops_buffer *owned[3];
};

/* Copies a part to the device. one_hot: also targets, 1 at the label and 0 elsewhere. */
layerops_status samples_upload(layerops_context *ctx, const struct dataset_part *part,
                               int64_t features, int64_t classes, bool one_hot,
                               struct samples *samples);
/* " (subset)" behind the name of a data set that is one, unless the name says so. */
const char *samples_subset(const struct dataset *data);
void samples_free(struct samples *samples);

#endif
