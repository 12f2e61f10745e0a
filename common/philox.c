#include <config.h>

#include <Random123/philox.h>

#include "common/philox.h"

void lo_philox(uint64_t seed, uint32_t purpose, uint32_t a, uint64_t b, uint32_t out[4]) {
  philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
  philox4x32_ctr_t counter = {{(uint32_t)b, (uint32_t)(b >> 32), a, purpose}};
  philox4x32_ctr_t words = philox4x32(counter, key);
  for (int i = 0; i < 4; i++) out[i] = words.v[i];
}
