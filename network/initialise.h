/* Initial weights. Element i of tensor t depends on (seed, t, i) alone, so that any part can be
 * made anywhere, in any order. */
#ifndef LO_INITIALISE_H
#define LO_INITIALISE_H

#include <stdint.h>

/* Elements first to first + count - 1, uniform in [-bound, bound]: the same bits on every platform.
 */
void lo_initialise_uniform(float *out, int64_t first, int64_t count, uint64_t seed, uint32_t tensor,
                           float bound);

/* Normal with mean 0. The same bits wherever log, cos and sin round alike, and the same to a few
 * ulp elsewhere. */
void lo_initialise_normal(float *out, int64_t first, int64_t count, uint64_t seed, uint32_t tensor,
                          float deviation);

/* 1 / sqrt(inputs): PyTorch's default for nn.Linear's weight (Kaiming uniform, a = sqrt 5) and
 * bias; 0 for a layer without inputs. */
float lo_linear_bound(int64_t inputs);

#endif
