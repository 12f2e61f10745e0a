/* The table of kernels of one type: lo_bsr_features_of<BF16>. */
#ifndef LO_CUDA_BSR_FEATURES_LAUNCH_CUH
#define LO_CUDA_BSR_FEATURES_LAUNCH_CUH

#include "backends/cuda/bsr_features.cuh"

typedef struct lo_bsr_features_entry {
  const void *kernel;
  unsigned threads, shared;
} lo_bsr_features_entry;

template <class T> static constexpr lo_bsr_features_entry lo_bsr_features_entry_of() {
  return {(const void *)bsr_features_kernel<T>, T::THREADS, T::BYTES};
}

#define X(NAME, ...)                                                                               \
  lo_bsr_features_entry_of<lo_bsr_features<BF16, TURN, true, false, __VA_ARGS__>>(),
template <bool BF16, bool TURN> static lo_bsr_features_entry lo_bsr_features_plain(int tile) {
  static const lo_bsr_features_entry kernels[] = {LO_CU_BSR_FEATURES(X)};
  return kernels[tile];
}
#undef X
#define X(NAME, ...)                                                                               \
  lo_bsr_features_entry_of<lo_bsr_features<BF16, TURN, FEATURES, true, __VA_ARGS__>>(),
template <bool BF16, bool TURN, bool FEATURES>
static lo_bsr_features_entry lo_bsr_features_factors(int tile) {
  static const lo_bsr_features_entry kernels[] = {LO_CU_BSR_FEATURES_FACTORS(X)};
  return kernels[tile];
}
#undef X
template <bool BF16, bool TURN>
static lo_bsr_features_entry lo_bsr_features_turned(int tile, lo_cu_bsr_features_kind kind) {
  if (!kind.factors) return lo_bsr_features_plain<BF16, TURN>(tile);
  return kind.features ? lo_bsr_features_factors<BF16, TURN, true>(tile)
                       : lo_bsr_features_factors<BF16, TURN, false>(tile);
}
template <bool BF16>
static int lo_bsr_features_run(int tile, lo_cu_bsr_features_kind kind, const lo_cu_bsr_features *p,
                               lo_cu_grid grid, void *stream) {
  lo_bsr_features_entry e = kind.turned ? lo_bsr_features_turned<BF16, true>(tile, kind)
                                        : lo_bsr_features_turned<BF16, false>(tile, kind);
  grid.threads = e.threads;
  grid.shared = e.shared;
  return lo_cu_launch(e.kernel, grid, p, stream);
}

#endif
