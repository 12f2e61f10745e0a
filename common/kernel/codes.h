/* Numbers that C, CUDA C and OpenCL C must agree on. common/names.c holds them against the public
 * enumerations; OpenCL cannot include those. */
#ifndef LO_KERNEL_CODES_H
#define LO_KERNEL_CODES_H

#define LO_TYPE_NONE   0
#define LO_TYPE_F32    1
#define LO_TYPE_F16    2
#define LO_TYPE_BF16   3
#define LO_TYPE_I32    4
#define LO_TYPE_I8     5
#define LO_TYPE_U8     6
#define LO_TYPE_F8E4M3 7
#define LO_TYPE_F8E5M2 8

#define LO_ACT_IDENTITY   0
#define LO_ACT_RELU       1
#define LO_ACT_LEAKY_RELU 2
#define LO_ACT_GELU       3
#define LO_ACT_GELU_TANH  4
#define LO_ACT_SILU       5
#define LO_ACT_SIGMOID    6
#define LO_ACT_TANH       7

#endif
