/* Inside `layerops train`. */
#ifndef LAYEROPS_TOOLS_TRAIN_H
#define LAYEROPS_TOOLS_TRAIN_H

#include "tools/dataset.h"
#include "tools/log.h"
#include "tools/samples.h"
#include "tools/tool.h"
#include "tools/weights.h"

#define TRAIN       "train"
#define MAX_WIDTHS  1001
#define OPTIMIZERS  3
#define TEXT_LAYERS 256 /* a layer list in messages; longer ones are cut */

struct widths {
  int64_t count, value[MAX_WIDTHS];
};

struct train_settings {
  const char *data, *device, *save, *log, *load;
  struct widths layers;                /* count 0: not given */
  int32_t activation, loss, optimizer; /* activation and loss -1: not given */
  int32_t label_column, threads;
  bool sparse;
  int64_t batch, epochs;
  double lr, momentum, weight_decay; /* lr 0: not given */
  struct seed {
    bool given;
    uint64_t value;
  } seed;
};

extern const char *const optimizer_names[OPTIMIZERS];
extern const char *const loss_names[2];

struct training {
  const struct train_settings *settings;
  layerops_context *ctx;
  layerops_device_info device;
  layerops_network *network;
  layerops_network_info info;
  struct weights weights;
  char layers[TEXT_LAYERS];
  struct dataset data;
  struct samples train, test;
  struct log log;
};

/* train_loop.c: trains until settings->epochs, reports, saves. The exit status. */
int train_loop(struct training *t);

#endif
