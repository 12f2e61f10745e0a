/* The floating-point modes of a thread (rounding, flushing of subnormals), which another thread
 * does not inherit. */
#ifndef LO_CPU_MODES_H
#define LO_CPU_MODES_H

#include <stdint.h>

#if defined __SSE__
#include <xmmintrin.h>
typedef unsigned lo_modes;
static inline lo_modes lo_get_modes(void) {
  return _mm_getcsr();
}
static inline void lo_set_modes(lo_modes m) {
  _mm_setcsr(m);
}
#elif defined __aarch64__
typedef uint64_t lo_modes;
static inline lo_modes lo_get_modes(void) {
  lo_modes m;
  __asm__ volatile("mrs %0, fpcr" : "=r"(m));
  return m;
}
static inline void lo_set_modes(lo_modes m) {
  __asm__ volatile("msr fpcr, %0" : : "r"(m));
}
#else
typedef int lo_modes;
static inline lo_modes lo_get_modes(void) {
  return 0;
}
static inline void lo_set_modes(lo_modes m) {
  (void)m;
}
#endif

#endif
