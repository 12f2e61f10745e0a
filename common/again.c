#include <config.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/again.h"

/* The operations whose calls are kept: their struct's size, and the views in which it differs from
 * call to call, as a rule. Adam's has another step each time. */
static const struct {
  size_t size, views[3];
} kinds[LAYEROPS_OP_COUNT] = {
#define KIND(name, first, second, third)                                                           \
  [LAYEROPS_OP_##                                                                                  \
      name] = {sizeof(layerops_##name##_args),                                                     \
               {offsetof(layerops_##name##_args, first), offsetof(layerops_##name##_args, second), \
                offsetof(layerops_##name##_args, third)}}
    KIND(gemm, a, b, c),
    KIND(linear_forward, x, w, y),
    KIND(linear_backward, dy, x, w),
    KIND(activation_forward, x, y, y),
    KIND(activation_backward, dy, saved, dx),
    KIND(softmax, x, y, y),
    KIND(cross_entropy, logits, labels, dlogits),
    KIND(mse, y, target, dy),
    KIND(sgd, w, g, velocity),
    KIND(fill, y, y, y),
    KIND(copy, x, y, y),
    KIND(transpose, x, y, y),
    KIND(gather, x, index, y),
#undef KIND
};

typedef struct object {
  const uint64_t *number; /* of a buffer or of packed weights: reached by the user's own pointer */
  uint64_t was;
} object;

typedef struct lo_kept_call {
  uint64_t hash;
  lo_call call;
  object objects[LO_MAX_OPERANDS + 1];
  int object_count;
  void *native;         /* the backend's (struct lo_again_form) */
  unsigned char user[]; /* the user's struct */
} kept_call;

/* A call may lie in its slot or in that slot's neighbour, where it is pushed by the next. */
enum { SLOT_BITS = 7 };
typedef struct slot {
  uint64_t seen; /* the hash of a call that came and is not kept */
  kept_call *kept;
} slot;
struct lo_calls {
  slot slots[1 << SLOT_BITS];
  bool running; /* a kept call: what it runs may call us (open_args.parallel), and frees none */
};

static unsigned slot_of(uint64_t hash) {
  return (unsigned)(hash >> (64 - SLOT_BITS));
}

static uint64_t hash_of(layerops_op op, const void *user) {
  uint64_t h = (uint64_t)op;
  for (int i = 0; i < 3; i++) {
    const layerops_matrix *m = (const layerops_matrix *)((const char *)user + kinds[op].views[i]);
    h = (h ^ (uintptr_t)m->buffer ^ (uintptr_t)m->host ^ (uint64_t)m->offset << 20) *
        0x9e3779b97f4a7c15u;
  }
  return h;
}

static bool same_objects(const kept_call *k) {
  for (int i = 0; i < k->object_count; i++)
    if (*k->objects[i].number != k->objects[i].was) return false;
  return true;
}

static layerops_status run(layerops_context *ctx, kept_call *k) {
  const struct lo_again_form *form = ctx->backend->again;
  LO_TRY(lo_enter(ctx, layerops_op_name(k->call.op)));
  ctx->kernel = "";
  ctx->calls->running = true;
  layerops_status status =
      form ? form->run(ctx, &k->call, &k->native) : lo_call_dispatch(ctx, &k->call);
  ctx->calls->running = false;
  return status;
}

bool lo_call_again(layerops_context *ctx, layerops_op op, const void *user, size_t size,
                   layerops_status *status) {
  if (!ctx || !ctx->calls || ctx->calls->running || !user || size != kinds[op].size) return false;
  if (ctx->recording || ctx->preparing || ctx->tuning || ctx->verbose) return false;
  const uint64_t hash = hash_of(op, user);
  for (unsigned i = 0; i < 2; i++) {
    kept_call *k = ctx->calls->slots[slot_of(hash) ^ i].kept;
    if (!k || k->hash != hash || k->call.op != op || memcmp(k->user, user, size)) continue;
    if (!same_objects(k)) continue;
    *status = run(ctx, k);
    return true;
  }
  return false;
}

static void release(const layerops_context *ctx, kept_call *k) {
  if (k && k->native) ctx->backend->again->release(k->native);
  free(k);
}

/* An operand that packed weights gave is theirs: they may be gone when the next call comes. */
static void find_objects(const lo_door *door, kept_call *k) {
  if (door->packed) k->objects[k->object_count++] = (object){&door->packed->number, 0};
  for (int i = 0; i < door->count; i++) {
    const layerops_buffer *b = door->operands[i].view->buffer;
    if (b && (!door->packed || b != door->packed->shape.buffer))
      k->objects[k->object_count++] = (object){&b->number, 0};
  }
  for (int i = 0; i < k->object_count; i++) k->objects[i].was = *k->objects[i].number;
}

static kept_call *make(const lo_door *door, uint64_t hash) {
  kept_call *k = malloc(sizeof *k + door->user_size);
  if (!k) return NULL;
  k->hash = hash;
  k->object_count = 0;
  k->native = NULL;
  memcpy(k->user, door->user, door->user_size);
  find_objects(door, k);
  return k;
}

struct lo_kept_call *lo_call_note(const lo_door *door) {
  layerops_context *ctx = door->ctx;
  const layerops_op op = door->call.op;
  if (!kinds[op].size || door->user_size != kinds[op].size) return NULL;
  if (!ctx->calls && !(ctx->calls = calloc(1, sizeof *ctx->calls))) return NULL;
  if (ctx->calls->running) return NULL;
  const uint64_t hash = hash_of(op, door->user);
  slot *own = &ctx->calls->slots[slot_of(hash)], *next = &ctx->calls->slots[slot_of(hash) ^ 1];
  if (own->seen != hash && next->seen != hash) {
    next->seen = own->seen;
    own->seen = hash;
    return NULL;
  }
  (own->seen == hash ? own : next)->seen = 0;
  return make(door, hash);
}

void lo_call_keep(const lo_door *door, struct lo_kept_call *k, bool good) {
  struct lo_calls *calls = door->ctx->calls;
  if (!k) return;
  if (!good || !calls || calls->running) { /* or forgotten since */
    free(k);
    return;
  }
  slot *own = &calls->slots[slot_of(k->hash)], *next = &calls->slots[slot_of(k->hash) ^ 1];
  k->call = door->call;
  release(door->ctx, next->kept);
  next->kept = own->kept;
  own->kept = k;
}

void lo_calls_forget(layerops_context *ctx) {
  if (!ctx->calls || ctx->calls->running) return;
  for (int i = 0; i < 1 << SLOT_BITS; i++) release(ctx, ctx->calls->slots[i].kept);
  free(ctx->calls);
  ctx->calls = NULL;
}
