/* Rows of any type as stretches of floats: in place where they are f32, else through a small copy.
 */
#ifndef LO_CPU_SPAN_H
#define LO_CPU_SPAN_H

#include <string.h>

#include "backends/cpu/cpu.h"

enum { LO_SPAN = 512 }; /* floats of a copy: several live on the stack */

static inline void *lo_element(const lo_plane *p, int64_t i, int64_t j) {
  const int64_t size = p->type == LAYEROPS_F32 ? 4 : (int64_t)layerops_type_size(p->type);
  return p->base + (i * p->stride + j) * size;
}

/* n elements from (i, j) on, to read. */
static inline const float *lo_get(const lo_isa *isa, const lo_plane *p, int64_t i, int64_t j,
                                  int64_t n, float *copy) {
  const void *from = lo_element(p, i, j);
  if (p->type == LAYEROPS_F32) return from;
  isa->load(p->type, from, copy, n);
  return copy;
}

/* Where to write n elements from (i, j) on; lo_put then brings them there. */
static inline float *lo_out(const lo_plane *p, int64_t i, int64_t j, float *copy) {
  return p->type == LAYEROPS_F32 ? lo_element(p, i, j) : copy;
}
static inline void lo_put(const lo_isa *isa, const lo_plane *p, int64_t i, int64_t j,
                          const float *from, int64_t n) {
  if (p->type != LAYEROPS_F32) isa->store(p->type, from, lo_element(p, i, j), n);
}

/* The sum of 16 lanes, always in this order. */
static inline float lo_fold(const float lanes[16]) {
  float s[8];
  for (int l = 0; l < 8; l++) s[l] = lanes[l] + lanes[l + 8];
  for (int l = 0; l < 4; l++) s[l] += s[l + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

#endif
