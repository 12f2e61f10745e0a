/* Which instruction set runs. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"

#if defined __x86_64__ || defined __i386__
#include <cpuid.h>

/* What the processor has and the operating system saves: features of leaf 7 (ebx) and leaf 1 (ecx),
 * and XCR0, which says which registers survive a context switch. */
typedef struct processor {
  unsigned leaf1_ecx, leaf7_ebx, xcr0;
} processor;

static processor detect(void) {
  processor p = {0};
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &p.leaf1_ecx, &d)) return p;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) p.leaf7_ebx = b;
  if (p.leaf1_ecx & bit_OSXSAVE) __asm__("xgetbv" : "=a"(p.xcr0), "=d"(d) : "c"(0));
  return p;
}

static bool has_avx2(void) {
  const unsigned leaf1 = bit_AVX | bit_FMA | bit_F16C;
  processor p = detect();
  return (p.leaf1_ecx & leaf1) == leaf1 && (p.leaf7_ebx & bit_AVX2) && (p.xcr0 & 0x6) == 0x6;
}

static bool has_avx512(void) {
  const unsigned leaf7 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  processor p = detect();
  return has_avx2() && (p.leaf7_ebx & leaf7) == leaf7 && (p.xcr0 & 0xe6) == 0xe6;
}
#endif

static bool always(void) {
  return true;
}

/* Best first. */
static const struct {
  const lo_isa *isa;
  bool (*runs)(void);
} choices[] = {
#ifdef HAVE_CPU_AVX512
    {&lo_isa_avx512, has_avx512},
#endif
#ifdef HAVE_CPU_AVX2
    {&lo_isa_avx2, has_avx2},
#endif
#ifdef HAVE_CPU_NEON
    {&lo_isa_neon, always},
#endif
    {&lo_isa_portable, always},
};
enum { CHOICES = sizeof choices / sizeof *choices };

void lo_isa_list(char *text, size_t size) {
  text[0] = 0;
  for (int i = 0; i < CHOICES; i++) {
    size_t used = strlen(text);
    if (choices[i].runs())
      snprintf(text + used, size - used, "%s%s", used ? " " : "", choices[i].isa->name);
  }
}

layerops_status lo_isa_choose(const lo_isa **isa) {
  const char *wanted = getenv("LAYEROPS_CPU_ISA");
  for (int i = 0; i < CHOICES; i++) {
    if (wanted && *wanted && strcmp(wanted, choices[i].isa->name)) continue;
    if (!choices[i].runs()) continue;
    *isa = choices[i].isa;
    return LAYEROPS_OK;
  }
  char list[64];
  lo_isa_list(list, sizeof list);
  return lo_fail(LAYEROPS_ERROR_INVALID, "open: LAYEROPS_CPU_ISA is \"%s\"; this machine has: %s",
                 wanted, list);
}
