/* Calls that come again, as those of training and inference do: what the door has judged once it
 * need not judge again, and a backend may keep what it made of the call.
 *
 * A call is known by the bytes of the user's struct, and by the objects that its pointers lead to:
 * each has a number of its own, since another may lie at the same address later. A call is kept
 * when it comes for the second time, so that one whose arguments always differ costs little. */
#ifndef LO_AGAIN_H
#define LO_AGAIN_H

#include "common/door.h"

/* Runs the call if the context knows it; else the door has to judge it. */
bool lo_call_again(layerops_context *ctx, layerops_op op, const void *user, size_t size,
                   layerops_status *status);

/* The first line of an operation. */
#define LO_CALL_AGAIN(ctx, op, user, size)                                                         \
  do {                                                                                             \
    layerops_status lo_again_status_;                                                              \
    if (lo_call_again(ctx, op, user, size, &lo_again_status_)) return lo_again_status_;            \
  } while (0)

/* What is known of a call that has been judged and now runs, if it is to be kept: taken before,
 * since the call may write where the user's struct lies, and the door drops outputs that are empty.
 */
struct lo_kept_call *lo_call_note(const lo_door *door);
/* Keeps it with what the door made of it, or drops it where the call was not good. */
void lo_call_keep(const lo_door *door, struct lo_kept_call *noted, bool good);

/* Forgets all calls: what a backend makes of them has changed. */
void lo_calls_forget(layerops_context *ctx);

#endif
