#include <config.h>

#include "bench/peers/copies.h"

#include <cuda_runtime_api.h>

#define BORDER 256

/* Weights take turns. */
static int64_t count_of(const struct bench_steps_list *list) {
  int64_t count = 1;
  while (count < list->count && list->steps[count].w != list->steps[0].w) count++;
  return count;
}

bool bench_copies_make(const struct bench_steps_list *list, const void *host, size_t bytes,
                       struct bench_copies *copies) {
  void *memory = NULL;
  *copies =
      (struct bench_copies){.bytes = (bytes + BORDER) / BORDER * BORDER, .count = count_of(list)};
  if (cudaMalloc(&memory, copies->bytes * (size_t)copies->count)) return false;
  copies->first = memory;
  bool good = !host || !cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice);
  for (int64_t i = 1; host && good && i < copies->count; i++)
    good = !cudaMemcpy(copies->first + (size_t)i * copies->bytes, memory, bytes,
                       cudaMemcpyDeviceToDevice);
  return good && !cudaDeviceSynchronize();
}

void bench_copies_free(struct bench_copies *copies) {
  cudaFree(copies->first);
  *copies = (struct bench_copies){0};
}
