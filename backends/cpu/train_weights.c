/* Weights on their way into the layouts of training and back, each task its part of each layer. */
#include <config.h>

#include <string.h>

#include "backends/cpu/train.h"

/* Panels of inputs: columns of W as they are. */
static void move_columns(const lo_train *t, int64_t i, int64_t task, bool enters) {
  const lo_train_layer *l = &t->layer[i];
  const layerops_matrix *view = &t->epoch->layer[i].w;
  int64_t q, end;
  lo_share((l->in + t->panel - 1) / t->panel, t->tasks, task, &q, &end);
  for (; q < end; q++) {
    const int64_t j = q * t->panel, columns = l->in - j < t->panel ? l->in - j : t->panel;
    float *w = (float *)lo_address(view) + j, *own = l->w + q * l->next;
    if (enters)
      t->isa->load_rows(LAYEROPS_F32, w, view->stride, own, t->panel, l->out, columns);
    else
      t->isa->load_rows(LAYEROPS_F32, own, t->panel, w, view->stride, l->out, columns);
  }
}

/* Panel q of the first layer's outputs: rows of W, transposed. */
static void move_rows(const lo_train *t, int64_t q, bool enters) {
  const lo_train_layer *l = &t->layer[0];
  const layerops_matrix *view = &t->epoch->layer[0].w;
  const int64_t j = q * t->panel, rows = l->out - j < t->panel ? l->out - j : t->panel;
  float *w = (float *)lo_address(view) + j * view->stride, *own = l->w + q * l->next;
  if (enters)
    t->isa->transpose(w, view->stride, own, t->panel, rows, l->in);
  else
    t->isa->transpose(own, t->panel, w, view->stride, l->in, rows);
}

static void move_bias(const lo_train *t, int64_t i, int64_t q, bool enters) {
  const lo_train_layer *l = &t->layer[i];
  const int64_t j = q * t->panel, columns = l->out - j < t->panel ? l->out - j : t->panel;
  float *bias = (float *)lo_address(&t->epoch->layer[i].bias) + j;
  memcpy(enters ? l->bias + j : bias, enters ? bias : l->bias + j, (size_t)columns * sizeof(float));
}

static void move(const lo_train *t, int64_t task, bool enters) {
  for (int64_t i = 0; i < t->layers; i++) {
    const bool first = i == 0 && t->layers > 1;
    int64_t q, end;
    if (!first) move_columns(t, i, task, enters);
    lo_share(t->layer[i].panels, t->tasks, task, &q, &end);
    for (; q < end; q++) {
      if (first) move_rows(t, q, enters);
      move_bias(t, i, q, enters);
    }
  }
}

void lo_train_enter(const lo_train *t, int64_t task) {
  move(t, task, true);
}

void lo_train_leave(const lo_train *t, int64_t task) {
  move(t, task, false);
}
