/* 8-bit elements in pairs of 16 bits: exactly, NaN and infinity included.
 *
 *   lo_widen<TYPE, BF16>(word, low, high)   four neighbours, the first in the low byte, as two
 * words with two neighbours each */
#ifndef LO_CUDA_WIDEN_CUH
#define LO_CUDA_WIDEN_CUH

#include "backends/cuda/prelude.cuh"

/* Bytes of both words: a digit of `order` says which, the lowest for the lowest byte. */
LO_FN unsigned lo_bytes(unsigned low, unsigned high, unsigned order) {
  return __byte_perm(low, high, order);
}

/* c a + b for both halves. */
LO_FN unsigned lo_fma_f16x2(unsigned a, unsigned b, unsigned c) {
  asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c));
  return a;
}
LO_FN unsigned lo_fma_bf16x2(unsigned a, unsigned b, unsigned c) {
#if __CUDA_ARCH__ >= 800
  asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c));
#endif
  return a;
}

/* f16 to bf16, which rounds nothing that 8 bits can be. */
LO_FN unsigned lo_f16x2_to_bf16x2(unsigned pair) {
#if __CUDA_ARCH__ >= 800
  float low = lo_from_f16((unsigned short)pair), high = lo_from_f16((unsigned short)(pair >> 16));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}

/* Integers. f16: 1024 + u, whose last bits are those of u = i + 128, less 1024 + 128. */
LO_FN unsigned lo_i8_to_f16x2(unsigned word, unsigned order) {
  unsigned pair = lo_bytes(word ^ 0x80808080u, 0x64646464u, order);
  return lo_fma_f16x2(pair, 0x3c003c00u, 0xe480e480u);
}
/* bf16: 128 + (the low seven bits), less 128 or, where the sign is set, 256: both have i's bits as
 * their last ones. */
LO_FN unsigned lo_i8_to_bf16x2(unsigned word, unsigned order) {
  unsigned pair = lo_bytes(word, 0x43434343u, order);
  return lo_fma_bf16x2(pair & 0xff80ff80u, 0xbf80bf80u, pair & 0xff7fff7fu);
}

/* e4m3: its exponent and fraction, moved to f16's places, are 2^-8 of the number; only NaN carries
 * into the sign's place when 1 is added, and there it is f16's highest exponent. */
LO_FN unsigned lo_e4m3_to_f16x2(unsigned word, int upper) {
  unsigned pair;
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
      : "=r"(pair)
      : "h"((unsigned short)(upper ? word >> 16 : word)));
#else
  unsigned size = word & 0x7f7f7f7fu, order = upper ? 0x3424 : 0x1404;
  size |= (size + 0x01010101u) & 0x80808080u;
  pair = lo_bytes(size, 0, order) >> 1 | (lo_bytes(word, 0, order) & 0x80008000u);
  pair = lo_fma_f16x2(pair, 0x5c005c00u, 0x80008000u);
#endif
  return pair;
}

template <int TYPE, bool BF16> LO_FN void lo_widen(unsigned word, unsigned &low, unsigned &high) {
  if (TYPE == LO_TYPE_I8) {
    low = BF16 ? lo_i8_to_bf16x2(word, 0x4140) : lo_i8_to_f16x2(word, 0x4140);
    high = BF16 ? lo_i8_to_bf16x2(word, 0x4342) : lo_i8_to_f16x2(word, 0x4342);
    return;
  }
  if (TYPE == LO_TYPE_F8E4M3) {
    low = lo_e4m3_to_f16x2(word, 0);
    high = lo_e4m3_to_f16x2(word, 1);
  } else { /* e5m2 is the upper half of f16 */
    low = lo_bytes(word, 0, 0x1404);
    high = lo_bytes(word, 0, 0x3424);
  }
  if (BF16) low = lo_f16x2_to_bf16x2(low), high = lo_f16x2_to_bf16x2(high);
}

#endif
