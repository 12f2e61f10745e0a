/* Which instruction set runs. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"

#if defined __x86_64__ || defined __i386__
#include <cpuid.h>

/* What the processor has and the operating system saves: features of leaf 1, of leaf 7 and of its
 * subleaf 1, and XCR0, which says which registers survive a context switch. */
typedef struct processor {
  unsigned leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf7_1_eax, xcr0;
} processor;

static processor detect(void) {
  processor p = {0};
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &p.leaf1_ecx, &d)) return p;
  if (__get_cpuid_count(7, 0, &a, &p.leaf7_ebx, &p.leaf7_ecx, &p.leaf7_edx) && a)
    __get_cpuid_count(7, 1, &p.leaf7_1_eax, &b, &c, &d);
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

static bool has_avx512_vnni(void) {
  return has_avx512() && (detect().leaf7_ecx & 1u << 11);
}

static bool has_avx512_bf16(void) {
  return has_avx512_vnni() && (detect().leaf7_1_eax & 1u << 5);
}

/* Tiles, and both types of them; XCR0: their configuration and their data. */
static bool has_amx(void) {
  const unsigned leaf7 = 1u << 22 | 1u << 24 | 1u << 25;
  processor p = detect();
  return has_avx512_bf16() && (p.leaf7_edx & leaf7) == leaf7 && (p.xcr0 & 0x60000) == 0x60000;
}
#endif

static bool always(void) {
  return true;
}

/* Main loops for 16 and 8 bits, best first: a choice of instructions has those from its own on.
 * What the compiler lacks is not in the list. */
#ifdef HAVE_CPU_AVX512
static const lo_grouped_choice avx512_int8[] = {
#ifdef HAVE_CPU_AMX
    {{"amx_int8_32x32", lo_refuses_amx}, &lo_grouped_amx_int8},
#endif
#ifdef HAVE_CPU_AVX512_VNNI
    {{"avx512_vnni_14x32", NULL}, &lo_grouped_avx512_vnni},
#endif
    {{"avx512_int8_14x32", NULL}, &lo_grouped_integers_avx512},
};
enum { AVX512_INT8 = sizeof avx512_int8 / sizeof *avx512_int8 };
#endif
#ifdef HAVE_CPU_AVX512_BF16
static const lo_grouped_choice avx512_bf16[] = {
#ifdef HAVE_CPU_AMX
    {{"amx_bf16_32x32", lo_refuses_amx}, &lo_grouped_amx_bf16},
#endif
    {{"avx512_bf16_14x32", NULL}, &lo_grouped_avx512_bf16},
};
enum { AVX512_BF16 = sizeof avx512_bf16 / sizeof *avx512_bf16 };
#endif
/* The last `count` of a list. */
#define LAST(list, size, count)                                                                    \
  { (list) + (size) - (count), count }

#define PLAIN_INT8(isa)                                                                            \
  static const lo_grouped_choice isa##_int8[] = {                                                  \
      {{#isa "_int8", NULL}, &lo_grouped_integers_##isa}};
#ifdef HAVE_CPU_AVX2
PLAIN_INT8(avx2)
#endif
#ifdef HAVE_CPU_NEON
PLAIN_INT8(neon)
#endif
PLAIN_INT8(portable)

/* Best first; each includes those below it of its family. */
static const lo_instructions choices[] = {
#if defined HAVE_CPU_AMX && defined HAVE_CPU_AVX512_BF16 && defined HAVE_CPU_AVX512_VNNI
    {"amx", &lo_isa_avx512, has_amx, LAST(avx512_bf16, AVX512_BF16, 2),
     LAST(avx512_int8, AVX512_INT8, 3)},
#endif
#if defined HAVE_CPU_AVX512_BF16 && defined HAVE_CPU_AVX512_VNNI
    {"avx512_bf16", &lo_isa_avx512, has_avx512_bf16, LAST(avx512_bf16, AVX512_BF16, 1),
     LAST(avx512_int8, AVX512_INT8, 2)},
#endif
#ifdef HAVE_CPU_AVX512_VNNI
    {"avx512_vnni", &lo_isa_avx512, has_avx512_vnni, {NULL, 0}, LAST(avx512_int8, AVX512_INT8, 2)},
#endif
#ifdef HAVE_CPU_AVX512
    {"avx512", &lo_isa_avx512, has_avx512, {NULL, 0}, LAST(avx512_int8, AVX512_INT8, 1)},
#endif
#ifdef HAVE_CPU_AVX2
    {"avx2", &lo_isa_avx2, has_avx2, {NULL, 0}, {avx2_int8, 1}},
#endif
#ifdef HAVE_CPU_NEON
    {"neon", &lo_isa_neon, always, {NULL, 0}, {neon_int8, 1}},
#endif
    {"portable", &lo_isa_portable, always, {NULL, 0}, {portable_int8, 1}},
};
enum { CHOICES = sizeof choices / sizeof *choices };

void lo_isa_list(char *text, size_t size) {
  text[0] = 0;
  for (int i = 0; i < CHOICES; i++) {
    size_t used = strlen(text);
    if (choices[i].runs())
      snprintf(text + used, size - used, "%s%s", used ? " " : "", choices[i].name);
  }
}

layerops_status lo_isa_choose(const lo_instructions **instructions) {
  const char *wanted = getenv("LAYEROPS_CPU_ISA");
  for (int i = 0; i < CHOICES; i++) {
    if (wanted && *wanted && strcmp(wanted, choices[i].name)) continue;
    if (!choices[i].runs()) continue;
    *instructions = &choices[i];
    return LAYEROPS_OK;
  }
  char list[128];
  lo_isa_list(list, sizeof list);
  return lo_fail(LAYEROPS_ERROR_INVALID, "open: LAYEROPS_CPU_ISA is \"%s\"; this machine has: %s",
                 wanted, list);
}
