/* The instructions of Hopper's tensor cores: 64 x N outputs of four warps by 32 bytes of k,
 * operands in shared memory. They run on while the warps do other things, until these wait.
 *
 * An operand lies in panels of 64 lines of 128 bytes (8 KB, on borders of 1 KB), whose eight chunks
 * of 16 bytes are swizzled: chunk c of line l is at c ^ l % 8, as TMA writes it. Lines run along k
 * (a panel has 64 of m or n), or along m or n (a panel has 64 of k). */
#ifndef LO_CUDA_WGMMA_CUH
#define LO_CUDA_WGMMA_CUH

#include "backends/cuda/prelude.cuh"

#define LO_PANEL 8192

/* Types of operands; U8: A unsigned, B signed; of 8-bit floats A's first. */
enum {
  LO_WGMMA_F16,
  LO_WGMMA_BF16,
  LO_WGMMA_TF32,
  LO_WGMMA_S8,
  LO_WGMMA_U8,
  LO_WGMMA_E4M3_E4M3,
  LO_WGMMA_E4M3_E5M2,
  LO_WGMMA_E5M2_E4M3,
  LO_WGMMA_E5M2_E5M2
};

#if __CUDA_ARCH_FEAT_SM90_ALL
LO_FN void lo_wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/* What this thread stored in shared memory, for them to read. */
LO_FN void lo_wgmma_publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
LO_FN void lo_wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until at most that many groups run. */
template <int GROUPS> LO_FN void lo_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

/* Where an operand begins: its panels, when it runs along m or n, are `panels` bytes apart. */
LO_FN lo_u64 lo_wgmma_operand(unsigned address, unsigned panels) {
  return (lo_u64)(address >> 4 & 0x3fff) | (lo_u64)(panels >> 4) << 16 | (lo_u64)(1024 >> 4) << 32 |
         (lo_u64)1 << 62;
}
/* 32 bytes of k further, so many times. */
template <bool ALONG_K> LO_FN lo_u64 lo_wgmma_further(lo_u64 operand, int times) {
  return operand + (ALONG_K ? 32 >> 4 : 16 * 128 >> 4) * times;
}

/* d = a b, or d += a b where `add`. */
#define LO_D4(C, i)   C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3])
#define LO_D16(C, i)  LO_D4(C, i), LO_D4(C, i + 4), LO_D4(C, i + 8), LO_D4(C, i + 12)
#define LO_D32(C, i)  LO_D16(C, i), LO_D16(C, i + 16)
#define LO_D64(C, i)  LO_D32(C, i), LO_D32(C, i + 32)
#define LO_D128(C, i) LO_D64(C, i), LO_D64(C, i + 64)
#define LO_R16        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LO_R32                                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "                    \
  "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LO_R64                                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "                    \
  "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "                    \
  "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "                    \
  "%62, %63"
#define LO_R128                                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "                    \
  "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "                    \
  "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "                    \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "                    \
  "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "                    \
  "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "                   \
  "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "                 \
  "%119, %120, %121, %122, %123, %124, %125, %126, %127"
#define LO_WGMMA(SHAPE, R, A, B, ADD, TAIL, ...)                                                   \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" ADD ", 0;\n"                                   \
               "wgmma.mma_async.sync.aligned." SHAPE " {" R "}, %" A ", %" B ", p" TAIL ";\n}"     \
               : __VA_ARGS__                                                                       \
               : "l"(a), "l"(b), "r"(add))

template <int TYPE, int N, bool TRANS_A, bool TRANS_B> struct lo_wgmma;
#define LO_WGMMA_FORM(TYPE, SUM, C, N, NAME, R, A, B, ADD, TRANS_A, TRANS_B, TAIL, ...)            \
  template <> struct lo_wgmma<TYPE, N, TRANS_A, TRANS_B> {                                         \
    static __device__ __forceinline__ void run(SUM (&d)[N / 2], lo_u64 a, lo_u64 b, int add) {     \
      LO_WGMMA(NAME, R, A, B, ADD, TAIL, __VA_ARGS__);                                             \
    }                                                                                              \
  };
#define LO_WGMMA_SIZES(TYPE, SUM, C, K, NAME, TRANS_A, TRANS_B, TAIL)                              \
  LO_WGMMA_FORM(TYPE, SUM, C, 32, "m64n32" K NAME, LO_R16, "16", "17", "18", TRANS_A, TRANS_B,     \
                TAIL, LO_D16(C, 0))                                                                \
  LO_WGMMA_FORM(TYPE, SUM, C, 64, "m64n64" K NAME, LO_R32, "32", "33", "34", TRANS_A, TRANS_B,     \
                TAIL, LO_D32(C, 0))                                                                \
  LO_WGMMA_FORM(TYPE, SUM, C, 128, "m64n128" K NAME, LO_R64, "64", "65", "66", TRANS_A, TRANS_B,   \
                TAIL, LO_D64(C, 0))                                                                \
  LO_WGMMA_FORM(TYPE, SUM, C, 256, "m64n256" K NAME, LO_R128, "128", "129", "130", TRANS_A,        \
                TRANS_B, TAIL, LO_D128(C, 0))
#define LO_WGMMA_ORDERS(TYPE, NAME)                                                                \
  LO_WGMMA_SIZES(TYPE, float, "+f", "k16", NAME, false, true, ", 1, 1, 0, 0")                      \
  LO_WGMMA_SIZES(TYPE, float, "+f", "k16", NAME, false, false, ", 1, 1, 0, 1")                     \
  LO_WGMMA_SIZES(TYPE, float, "+f", "k16", NAME, true, true, ", 1, 1, 1, 0")                       \
  LO_WGMMA_SIZES(TYPE, float, "+f", "k16", NAME, true, false, ", 1, 1, 1, 1")
LO_WGMMA_ORDERS(LO_WGMMA_F16, ".f32.f16.f16")
LO_WGMMA_ORDERS(LO_WGMMA_BF16, ".f32.bf16.bf16")
/* What is not of 16 bits runs along k. */
LO_WGMMA_SIZES(LO_WGMMA_TF32, float, "+f", "k8", ".f32.tf32.tf32", false, true, ", 1, 1")
LO_WGMMA_SIZES(LO_WGMMA_S8, int, "+r", "k32", ".s32.s8.s8", false, true, "")
LO_WGMMA_SIZES(LO_WGMMA_U8, int, "+r", "k32", ".s32.u8.s8", false, true, "")
#define LO_WGMMA_F8(A, B, NAMES)                                                                   \
  LO_WGMMA_SIZES(LO_WGMMA_##A##_##B, float, "+f", "k32", ".f32" NAMES, false, true, ", 1, 1")
LO_WGMMA_F8(E4M3, E4M3, ".e4m3.e4m3")
LO_WGMMA_F8(E4M3, E5M2, ".e4m3.e5m2")
LO_WGMMA_F8(E5M2, E4M3, ".e5m2.e4m3")
LO_WGMMA_F8(E5M2, E5M2, ".e5m2.e5m2")
#endif

#endif
