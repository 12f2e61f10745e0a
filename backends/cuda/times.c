/* What kernels' times are made of, fitted to some 4,200 cold times of single kernels on an H200
 * (2026-11): the suite's forward shapes, and as many at random around them, in f16 and f32. TF32
 * and the small kernels of 8-bit integers have the times of the 16-bit kernel with as many bytes a
 * step; asynchronous ones of 8 bits have rates of their own. A kernel that is not listed has what
 * its row in kernels.c says. */
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
    {"async_128x128", {67, 1020, 3300}},
    {"async_128x64", {57, 1680, 1600}},
    {"async_256x128", {74, 1980, 3500}},
    {"async_64x128", {59, 1040, 3300}},
    {"async_64x64", {44, 1050, 3100}},
    {"async_copies_128x128", {66, 2780, 6300}},
    {"async_copies_128x64", {57, 2620, 5100}},
    {"async_copies_256x128", {75, 2160, 4500}},
    {"async_copies_64x128", {41, 1740, 8600}},
    {"async_copies_64x64", {26, 810, 6600}},
    {"async_tf32_128x128", {67, 1020, 3300}},
    {"async_tf32_128x64", {57, 1680, 1600}},
    {"async_tf32_256x128", {74, 1980, 3500}},
    {"async_tf32_64x128", {59, 1040, 3300}},
    {"async_tf32_64x64", {44, 1050, 3100}},
    {"async_tf32_words_128x128", {44, 1870, 3800}},
    {"async_tf32_words_64x64", {23, 1040, 3500}},
    {"async_words_128x128", {44, 1870, 3800}},
    {"async_words_64x64", {23, 1040, 3500}},
    {"direct_16x16_f32", {25, 1680, 2100}},
    {"direct_16x16_k16", {8, 1640, 1400}},
    {"direct_16x16_s8_k32", {8, 1640, 1400}},
    {"direct_16x32_f32", {24, 1820, 1800}},
    {"direct_16x8_f32", {24, 1530, 1900}},
    {"direct_16x8_w4_k16", {7, 1530, 1400}},
    {"direct_16x8_w4_s8_k32", {7, 1530, 1400}},
    {"direct_16x8_w8_k16", {6, 620, 2900}},
    {"direct_16x8_w8_s8_k32", {6, 620, 2900}},
    {"direct_32x32_k16", {18, 1280, 1700}},
    {"direct_32x32_s8_k32", {18, 1280, 1700}},
    {"direct_8x8_w16_f32", {17, 300, 3800}},
    {"direct_8x8_w8_f32", {25, 2310, 1000}},
    {"direct_loose_f32", {19, 440, 1800}},
    {"direct_loose_k16", {3, 1390, 2100}},
    {"few16_f32", {35, 640, 3000}},
    {"few16_k16", {13, 310, 3600}},
    {"few16_s8_k32", {13, 310, 3600}},
    {"few1_f32", {6, 300, 2600}},
    {"few1_k16", {2, 1850, 3000}},
    {"few1_s8_k32", {2, 1850, 3000}},
    {"few1_short_f32", {3, 1170, 1600}},
    {"few1_short_k16", {2, 1120, 2700}},
    {"few1_short_s8_k32", {2, 1120, 2700}},
    {"few2_f32", {7, 2530, 1900}},
    {"few2_k16", {2, 2130, 2600}},
    {"few2_s8_k32", {2, 2130, 2600}},
    {"few4_f32", {18, 700, 2200}},
    {"few4_k16", {2, 1370, 1900}},
    {"few4_s8_k32", {2, 1370, 1900}},
    {"few8_f32", {19, 2020, 2000}},
    {"few8_k16", {5, 310, 2600}},
    {"few8_loose_f32", {16, 410, 2300}},
    {"few8_loose_k16", {3, 1610, 2900}},
    {"few8_s8_k32", {5, 310, 2600}},
    {"mma_k16_128x64", {30, 2430, 6500}},
    {"mma_k16_64x64", {25, 1960, 2700}},
    {"simt_128x128", {72, 2170, 2300}},
    {"simt_128x32", {56, 2900, 3600}},
    {"simt_32x128", {54, 2440, 3100}},
    {"simt_32x32", {48, 2120, 3800}},
    {"simt_64x64", {61, 2640, 2900}},
    {"sliced_f32_16x16", {20, 750, 2000}},
    {"sliced_f32_16x32", {16, 900, 2400}},
    {"sliced_f32_32x32", {34, 910, 2500}},
    {"sliced_f32_64x32", {37, 2200, 2300}},
    {"sliced_int8_16x16", {30, 850, 2100}},
    {"sliced_int8_16x32", {30, 1690, 1300}},
    {"sliced_int8_32x32", {30, 970, 2400}},
    {"sliced_int8_64x32", {30, 870, 2400}},
    {"sliced_k16_16x16", {30, 850, 2100}},
    {"sliced_k16_16x32", {30, 1690, 1300}},
    {"sliced_k16_32x32", {30, 970, 2400}},
    {"sliced_k16_64x32", {21, 870, 2400}},
    {"sliced_tf32_16x16", {30, 850, 2100}},
    {"sliced_tf32_16x32", {30, 1690, 1300}},
    {"sliced_tf32_32x32", {30, 970, 2400}},
    {"sliced_tf32_64x32", {30, 870, 2400}},
    {"triple_128x128", {55, 4210, 6300}},
    {"triple_64x64", {39, 2270, 7000}},
    {"triple_wgmma_128x128", {72, 3000, 3200}},
};

static int compare(const void *name, const void *row) {
  return strcmp(name, ((const fitted *)row)->name);
}

lo_cuda_time lo_cuda_time_of(const lo_cuda_kernel *k) {
  const fitted *f = bsearch(k->name, list, sizeof list / sizeof *list, sizeof *list, compare);
  return f ? f->time : (lo_cuda_time){k->rate, k->wait, k->fixed};
}
