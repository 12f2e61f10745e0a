/* Hopper's way of moving tiles: boxes of tensors copied by one thread (TMA), barriers in shared
 * memory that count their bytes, clusters of blocks. Addresses are of shared memory. */
#ifndef LO_CUDA_TMA_CUH
#define LO_CUDA_TMA_CUH

#include "backends/cuda/prelude.cuh"

/* Where warps meet others: t/cuda/delays.cu has them come late there. */
#ifndef LO_DELAY
#define LO_DELAY(where)
#endif

/* ---- Barriers in shared memory: a phase ends when all arrivals and bytes that are expected came.
 */
#if __CUDA_ARCH__ >= 900
LO_FN void lo_mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/* Before others, of the cluster too, may use what was initialised. */
LO_FN void lo_mbarrier_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
LO_FN void lo_mbarrier_arrive_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
LO_FN void lo_mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* At the barrier in the same place of block `rank` of the cluster. Without a scope: one that takes
 * in the cluster would wait for all of the thread's memory accesses. */
LO_FN void lo_mbarrier_arrive_at(unsigned barrier, unsigned rank) {
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [r];\n}" ::"r"(barrier),
               "r"(rank)
               : "memory");
}
/* Until the phase of that parity has ended. A fresh barrier's parity 1 has. */
LO_FN void lo_mbarrier_wait(unsigned barrier, unsigned parity) {
  asm volatile("{\n.reg .pred p;\nAGAIN:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@p bra.uni DONE;\nbra.uni AGAIN;\nDONE:\n}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

/* One thread of a warp, in a way that the compiler knows: what it does needs no loop over lanes. */
LO_FN bool lo_elect() {
  unsigned elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected;
}

/* ---- Clusters */
LO_FN unsigned lo_cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
LO_FN void lo_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/* Where nothing was stored that others read. */
LO_FN void lo_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
LO_FN void lo_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
LO_FN void lo_cluster_sync() {
  lo_cluster_arrive();
  lo_cluster_wait();
}

/* From the same place in block `rank`. */
LO_FN float lo_cluster_word(unsigned place, unsigned rank) {
  float x;
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %1, %2;\n"
               "ld.shared::cluster.f32 %0, [r];\n}"
               : "=f"(x)
               : "r"(place), "r"(rank)
               : "memory");
  return x;
}
LO_FN float4 lo_cluster_quad(unsigned place, unsigned rank) {
  float4 q;
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %4, %5;\n"
               "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [r];\n}"
               : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w)
               : "r"(place), "r"(rank)
               : "memory");
  return q;
}
/* The same place in block `rank`. */
LO_FN unsigned lo_cluster_place(unsigned place, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  return there;
}
/* To that place; the bytes are counted by a barrier in the same block. */
LO_FN void lo_cluster_send(unsigned to, unsigned barrier, float x, float y, float z, float w) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
               "[%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
               "r"(barrier), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}
LO_FN void lo_cluster_send(unsigned to, unsigned barrier, int x, int y, int z, int w) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 "
               "[%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
               "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

/* ---- Boxes: x runs along memory, then y, then z; what lies outside the tensor is zero. */
LO_FN void lo_box_prefetch(const lo_cu_map *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/* ALL: to the same place in each block of the cluster whose bit is set, and its barrier there. */
template <int ALL = 0>
LO_FN void lo_box_copy(unsigned to, const lo_cu_map *map, unsigned barrier, int x, int y, int z) {
  if (ALL)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"((unsigned short)ALL)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
/* From shared memory, what was stored and published there; each box counts by itself. */
LO_FN void lo_box_store(const lo_cu_map *map, unsigned from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\n"
               "cp.async.bulk.commit_group;" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
}
/* Until all boxes that the thread stored, but for the last few, were read. */
template <int BUT> LO_FN void lo_boxes_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(BUT) : "memory");
}
#endif

#endif
