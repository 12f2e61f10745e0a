/* A call with views of host memory on a device: copies in, runs, waits, copies back. The one case
 * in which a call returns finished. Only elements of the views are touched, never the padding
 * between rows. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "common/door.h"

typedef struct staged {
  layerops_matrix *view;
  layerops_matrix host; /* as the user gave it */
  int role;
} staged;

enum { PACK, UNPACK };

/* Copies between a host view and tight memory. */
static void move_rows(const layerops_matrix *v, char *tight, int direction) {
  size_t size = layerops_type_size(v->type), width = (size_t)v->cols * size;
  for (int64_t l = 0; l < v->batch; l++)
    for (int64_t i = 0; i < v->rows; i++, tight += width) {
      char *row =
          (char *)v->host + (size_t)(v->offset + l * v->batch_stride + i * v->stride) * size;
      memcpy(direction == PACK ? tight : row, direction == PACK ? row : tight, width);
    }
}

static int64_t tight_bytes(const layerops_matrix *v) {
  return v->batch * v->rows * v->cols * (int64_t)layerops_type_size(v->type);
}

static layerops_status stage_in(layerops_context *ctx, staged *s, char *bounce) {
  layerops_matrix *v = s->view;
  LO_TRY(layerops_buffer_create(ctx, tight_bytes(v), &v->buffer));
  v->host = NULL;
  v->offset = 0;
  v->stride = v->cols;
  v->batch_stride = v->rows * v->cols;
  if (!(s->role & LO_IN)) return LAYEROPS_OK;
  move_rows(&s->host, bounce, PACK);
  return layerops_buffer_write(ctx, v->buffer, bounce, tight_bytes(v));
}

static layerops_status stage_out(layerops_context *ctx, const staged *s, char *bounce) {
  if (!(s->role & LO_OUT)) return LAYEROPS_OK;
  LO_TRY(layerops_buffer_read(ctx, s->view->buffer, bounce, tight_bytes(s->view)));
  move_rows(&s->host, bounce, UNPACK);
  return LAYEROPS_OK;
}

static layerops_status run(lo_door *door, staged *list, int count, char *bounce) {
  for (int i = 0; i < count; i++) LO_TRY(stage_in(door->ctx, &list[i], bounce));
  LO_TRY(lo_call_run(door->ctx, &door->call));
  LO_TRY(layerops_sync(door->ctx));
  for (int i = 0; i < count; i++) LO_TRY(stage_out(door->ctx, &list[i], bounce));
  return LAYEROPS_OK;
}

/* Labels and indices in host memory are judged before anything is copied. */
static layerops_status check_host_labels(const lo_door *door) {
  const char *function = layerops_op_name(door->call.op);
  if (door->call.op == LAYEROPS_OP_cross_entropy) {
    const layerops_cross_entropy_args *a = &door->call.args.cross_entropy;
    int64_t ignore = a->ignore_label.kind ? (int64_t)a->ignore_label.value : LO_NOTHING_IGNORED;
    if (a->labels.host)
      return lo_check_labels(function, "labels", &a->labels, a->logits.cols, ignore);
  } else if (door->call.op == LAYEROPS_OP_gather) {
    const layerops_gather_args *a = &door->call.args.gather;
    if (a->index.host)
      return lo_check_labels(function, "index", &a->index, a->x.rows, LO_NOTHING_IGNORED);
  }
  return LAYEROPS_OK;
}

layerops_status lo_run_staged(lo_door *door) {
  LO_TRY(check_host_labels(door));
  staged list[LO_MAX_OPERANDS];
  int count = 0;
  int64_t largest = 0;
  for (int i = 0; i < door->count; i++) {
    layerops_matrix *v = door->operands[i].view;
    if (!v->host || !tight_bytes(v)) continue;
    list[count++] = (staged){v, *v, door->operands[i].role};
    if (tight_bytes(v) > largest) largest = tight_bytes(v);
  }
  char *bounce = malloc(largest ? (size_t)largest : 1);
  if (!bounce)
    return lo_door_refuse(door, LAYEROPS_ERROR_OUT_OF_MEMORY, "no %lld bytes to stage host views",
                          (long long)largest);
  layerops_status status = run(door, list, count, bounce);
  for (int i = 0; i < count; i++)
    if (!list[i].view->host) layerops_buffer_destroy(list[i].view->buffer);
  free(bounce);
  return status;
}
