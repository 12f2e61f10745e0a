/* What kernels' times are made of, fitted by bench/fit_cost.py to some 15,600 cold times of single
 * kernels on an H200 (2026-11, bench/kernel_times.c): the suite's forward shapes, and as many at
 * random around them, in f16 and f32. TF32 and the small kernels of 8-bit integers have the waits
 * of the 16-bit kernel with as many bytes a step, and rates of their own. A kernel that is not
 * listed has what its row in kernels.c says. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/plan.h"

typedef struct fitted {
  const char *name;
  lo_cuda_time time;
} fitted;

/* By name. */
static const fitted list[] = {
    {"async_128x128", {56, 1090, 9100}},
    {"async_128x64", {49, 1150, 4300}},
    {"async_256x128", {74, 2130, 4600}},
    {"async_64x128", {50, 1100, 5000}},
    {"async_64x64", {44, 910, 2900}},
    {"async_tf32_128x128", {55, 1020, 3300}},
    {"async_tf32_128x64", {44, 1680, 1600}},
    {"async_tf32_256x128", {67, 1980, 3500}},
    {"async_tf32_64x128", {44, 1040, 3300}},
    {"async_tf32_64x64", {39, 1050, 3100}},
    {"async_tf32_words_128x128", {28, 1870, 3800}},
    {"async_tf32_words_64x64", {20, 1040, 3500}},
    {"async_words_128x128", {45, 3150, 12900}},
    {"async_words_64x64", {23, 1930, 2200}},
    {"direct_16x16_f32", {26, 1350, 2600}},
    {"direct_16x16_k16", {8, 1290, 1500}},
    {"direct_16x16_s8_k32", {8, 1640, 1400}},
    {"direct_16x32_f32", {27, 1460, 2200}},
    {"direct_16x8_f32", {25, 1210, 2500}},
    {"direct_16x8_w4_k16", {7, 1140, 1900}},
    {"direct_16x8_w4_s8_k32", {7, 1530, 1400}},
    {"direct_16x8_w8_k16", {6, 550, 2800}},
    {"direct_16x8_w8_s8_k32", {6, 620, 2900}},
    {"direct_32x32_k16", {16, 1840, 1700}},
    {"direct_32x32_s8_k32", {18, 1280, 1700}},
    {"direct_8x8_w16_f32", {18, 300, 3600}},
    {"direct_8x8_w8_f32", {23, 1530, 1900}},
    {"direct_loose_f32", {19, 750, 2000}},
    {"direct_loose_k16", {3, 1280, 1900}},
    {"few16_f32", {35, 630, 2900}},
    {"few16_k16", {9, 310, 3600}},
    {"few16_s8_k32", {13, 310, 3600}},
    {"few1_f32", {7, 300, 2600}},
    {"few1_k16", {2, 1550, 2300}},
    {"few1_loose_f32", {4, 300, 2600}},
    {"few1_loose_k16", {2, 2290, 3600}},
    {"few1_s8_k32", {2, 1850, 3000}},
    {"few1_short_f32", {3, 1270, 1800}},
    {"few1_short_k16", {2, 1180, 2000}},
    {"few1_short_s8_k32", {2, 1120, 2700}},
    {"few2_f32", {7, 2080, 1600}},
    {"few2_k16", {2, 1590, 1800}},
    {"few2_s8_k32", {2, 2130, 2600}},
    {"few4_f32", {13, 610, 1500}},
    {"few4_k16", {2, 1320, 1800}},
    {"few4_s8_k32", {2, 1370, 1900}},
    {"few8_f32", {23, 1710, 1700}},
    {"few8_k16", {5, 310, 2500}},
    {"few8_loose_f32", {18, 390, 1900}},
    {"few8_loose_k16", {3, 1720, 2800}},
    {"few8_s8_k32", {5, 310, 2600}},
    {"mma_k16_128x64", {30, 2670, 9200}},
    {"mma_k16_64x64", {12, 2120, 2800}},
    {"simt_128x128", {69, 2700, 25000}},
    {"simt_128x32", {55, 2900, 6700}},
    {"simt_32x128", {55, 2840, 5700}},
    {"simt_32x32", {49, 2080, 5200}},
    {"simt_64x64", {60, 2650, 6500}},
    {"sliced_f32_16x16", {23, 1130, 3900}},
    {"sliced_f32_16x32", {29, 3180, 1500}},
    {"sliced_f32_32x32", {40, 3420, 2800}},
    {"sliced_f32_32x32_s4", {40, 3420, 2800}},
    {"sliced_f32_64x32", {42, 4490, 2300}},
    {"sliced_f32_64x64", {43, 2030, 4900}},
    {"sliced_f32_loose_16x16", {15, 2140, 2600}},
    {"sliced_f32_loose_16x32", {18, 4410, 1900}},
    {"sliced_f32_loose_32x32", {27, 5100, 1900}},
    {"sliced_f32_loose_32x32_s4", {27, 5100, 1900}},
    {"sliced_f32_loose_64x32", {31, 5280, 2900}},
    {"sliced_f32_loose_64x64", {28, 3050, 5900}},
    {"sliced_int8_16x16", {30, 850, 2100}},
    {"sliced_int8_16x32", {30, 1690, 1300}},
    {"sliced_int8_32x32", {30, 970, 2400}},
    {"sliced_int8_32x32_s4", {30, 970, 2400}},
    {"sliced_int8_64x32", {30, 870, 2400}},
    {"sliced_int8_64x64", {24, 1080, 4400}},
    {"sliced_int8_loose_16x16", {30, 5060, 2400}},
    {"sliced_int8_loose_16x32", {30, 6720, 2000}},
    {"sliced_int8_loose_32x32", {9, 3930, 4900}},
    {"sliced_int8_loose_32x32_s4", {9, 3930, 4900}},
    {"sliced_int8_loose_64x32", {30, 5840, 2200}},
    {"sliced_int8_loose_64x64", {30, 4640, 3600}},
    {"sliced_k16_16x16", {9, 810, 3400}},
    {"sliced_k16_16x32", {17, 2640, 800}},
    {"sliced_k16_32x32", {23, 2040, 2100}},
    {"sliced_k16_32x32_s4", {23, 2040, 2100}},
    {"sliced_k16_64x32", {31, 1920, 1100}},
    {"sliced_k16_64x64", {24, 1080, 4400}},
    {"sliced_k16_loose_16x16", {30, 5060, 2400}},
    {"sliced_k16_loose_16x32", {30, 6720, 2000}},
    {"sliced_k16_loose_32x32", {9, 3930, 4900}},
    {"sliced_k16_loose_32x32_s4", {9, 3930, 4900}},
    {"sliced_k16_loose_64x32", {30, 5840, 2200}},
    {"sliced_k16_loose_64x64", {30, 4640, 3600}},
    {"sliced_tf32_16x16", {30, 850, 2100}},
    {"sliced_tf32_16x32", {30, 1690, 1300}},
    {"sliced_tf32_32x32", {30, 970, 2400}},
    {"sliced_tf32_32x32_s4", {30, 970, 2400}},
    {"sliced_tf32_64x32", {30, 870, 2400}},
    {"sliced_tf32_64x64", {24, 1080, 4400}},
    {"sliced_tf32_loose_16x16", {30, 5060, 2400}},
    {"sliced_tf32_loose_16x32", {30, 6720, 2000}},
    {"sliced_tf32_loose_32x32", {9, 3930, 4900}},
    {"sliced_tf32_loose_32x32_s4", {9, 3930, 4900}},
    {"sliced_tf32_loose_64x32", {30, 5840, 2200}},
    {"sliced_tf32_loose_64x64", {30, 4640, 3600}},
    {"triple_128x128", {50, 3970, 8900}},
    {"triple_64x64", {38, 2190, 7700}},
    {"triple_wgmma_128x128", {84, 2680, 2400}},
    {"triple_wgmma_64x64", {48, 1270, 4300}},
};

static int compare(const void *name, const void *row) {
  return strcmp(name, ((const fitted *)row)->name);
}

lo_cuda_time lo_cuda_time_of(const lo_cuda_kernel *k) {
  const fitted *f = bsearch(k->name, list, sizeof list / sizeof *list, sizeof *list, compare);
  return f ? f->time : (lo_cuda_time){k->rate, k->wait, k->fixed};
}
