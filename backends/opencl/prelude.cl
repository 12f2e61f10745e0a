/* What every kernel stands on: types, loads, stores, the scalar functions of activation.h.
 *
 * VW is the width of a vector: that of the registers on CPU devices, where a work-item is a thread's
 * task and vectorises by itself, 1 on GPUs, where the work-items of a group are the lanes. GROUP is the
 * number of work-items in a group, fixed because PoCL compiles a kernel again for each size.
 *
 * Local memory is always an argument: PoCL 3.1 lets the threads that run groups share some of the arrays
 * that a kernel declares __local. */
#pragma OPENCL FP_CONTRACT ON

#define LO_FN static inline
#define LO_INLINE static inline __attribute__((always_inline))
#define LO_KERNEL(group) __kernel __attribute__((reqd_work_group_size(group, 1, 1)))

#define LO_PASTE_(a, b) a##b
#define LO_PASTE(a, b) LO_PASTE_(a, b)
#if VW == 1
#define LO_VECTOR(type) type
#define LO_LOAD(p) (*(p))
#define LO_STORE(v, p) (*(p) = (v))
#define LO_LOAD_HALF(p) vload_half(0, p)
#define LO_STORE_HALF(v, p) vstore_half_rte(v, 0, p)
#else
#define LO_VECTOR(type) LO_PASTE(type, VW)
#define LO_LOAD(p) LO_PASTE(vload, VW)(0, p)
#define LO_STORE(v, p) LO_PASTE(vstore, VW)(v, 0, p)
#define LO_LOAD_HALF(p) LO_PASTE(vload_half, VW)(0, p)
#define LO_STORE_HALF(v, p) LO_PASTE(LO_PASTE(vstore_half, VW), _rte)(v, 0, p)
#endif
/* Loops over lanes that are rarely taken stay loops: unrolled, they are most of what PoCL compiles. */
#define LO_ROLLED _Pragma("nounroll")
#define LO_TO(type) LO_PASTE(convert_, LO_VECTOR(type))
#define LO_AS(type) LO_PASTE(as_, LO_VECTOR(type))

typedef LO_VECTOR(float) lo_vec;
typedef __global const uchar *lo_in;
typedef __global uchar *lo_out;

/* ---- bf16 ---- */
LO_FN float lo_from_bf16(ushort x) { return as_float((uint)x << 16); }
LO_FN ushort lo_to_bf16(float x) {
  uint bits = as_uint(x);
  uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (ushort)(isnan(x) ? (bits >> 16) | 0x40u : rounded);
}

/* ---- one element ---- */
LO_FN float lo_get(lo_in p, long i, int type) {
  switch (type) {
  case LO_TYPE_F32: return ((__global const float *)p)[i];
  case LO_TYPE_F16: return vload_half(i, (__global const half *)p);
  case LO_TYPE_BF16: return lo_from_bf16(((__global const ushort *)p)[i]);
  case LO_TYPE_I8: return ((__global const char *)p)[i];
  default: return 0.0f;
  }
}

LO_FN void lo_put(lo_out p, long i, int type, float v) {
  switch (type) {
  case LO_TYPE_F32: ((__global float *)p)[i] = v; break;
  case LO_TYPE_F16: vstore_half_rte(v, i, (__global half *)p); break;
  case LO_TYPE_BF16: ((__global ushort *)p)[i] = lo_to_bf16(v); break;
  }
}

/* ---- VW elements, of which `count` exist (fill stands for the others) ---- */
LO_FN lo_vec lo_load_all(lo_in p, long i, int type) {
  switch (type) {
  case LO_TYPE_F32: return LO_LOAD((__global const float *)p + i);
  case LO_TYPE_F16: return LO_LOAD_HALF((__global const half *)p + i);
  case LO_TYPE_BF16:
    return LO_AS(float)(LO_TO(uint)(LO_LOAD((__global const ushort *)p + i)) << 16);
  case LO_TYPE_I8: return LO_TO(float)(LO_LOAD((__global const char *)p + i));
  default: return (lo_vec)(0.0f);
  }
}

LO_FN lo_vec lo_load(lo_in p, long i, int type, long count, float fill) {
#if VW > 1
  if (count < VW) {
    float lanes[VW];
    LO_ROLLED for (int l = 0; l < VW; l++) lanes[l] = l < count ? lo_get(p, i + l, type) : fill;
    return LO_LOAD(lanes);
  }
#endif
  return lo_load_all(p, i, type);
}

#if VW > 1
LO_FN LO_VECTOR(ushort) lo_to_bf16_all(lo_vec x) {
  LO_VECTOR(uint) bits = LO_AS(uint)(x);
  LO_VECTOR(uint) rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return LO_TO(ushort)(isnan(x) ? (bits >> 16) | 0x40u : rounded);
}
#else
#define lo_to_bf16_all lo_to_bf16
#endif

LO_FN void lo_store_all(lo_out p, long i, int type, lo_vec v) {
  switch (type) {
  case LO_TYPE_F32: LO_STORE(v, (__global float *)p + i); break;
  case LO_TYPE_F16: LO_STORE_HALF(v, (__global half *)p + i); break;
  case LO_TYPE_BF16: LO_STORE(lo_to_bf16_all(v), (__global ushort *)p + i); break;
  }
}

LO_FN void lo_store(lo_out p, long i, int type, long count, lo_vec v) {
#if VW > 1
  if (count < VW) {
    float lanes[VW];
    LO_STORE(v, lanes);
    LO_ROLLED for (int l = 0; l < count; l++) lo_put(p, i + l, type, lanes[l]);
    return;
  }
#endif
  lo_store_all(p, i, type, v);
}

LO_FN float lo_read_scalar(__global const float *p, lo_cl_scalar s) {
  return s.offset < 0 ? s.value : p[s.offset];
}

/* ---- sums across lanes, in a fixed order ---- */
LO_FN float lo_lanes_sum(lo_vec v) {
#if VW == 1
  return v;
#else
#if VW == 16
  float8 e = v.lo + v.hi;
  float4 q = e.lo + e.hi;
#elif VW == 8
  float4 q = v.lo + v.hi;
#else
  float4 q = v;
#endif
  float2 d = q.lo + q.hi;
  return d.x + d.y;
#endif
}

LO_FN float lo_lanes_max(lo_vec v) {
#if VW == 1
  return v;
#else
#if VW == 16
  float8 e = fmax(v.lo, v.hi);
  float4 q = fmax(e.lo, e.hi);
#elif VW == 8
  float4 q = fmax(v.lo, v.hi);
#else
  float4 q = v;
#endif
  float2 d = fmax(q.lo, q.hi);
  return fmax(d.x, d.y);
#endif
}

/* ---- for activation.h ---- */
#define lo_exp(x) exp(x)
#define lo_rcp(x) (1.0f / (x))
LO_FN lo_vec lo_normal(lo_vec x, lo_vec *density) {
  *density = 0.3989422804014327f * exp(-0.5f * x * x);
  return 0.5f * erfc(-0.7071067811865476f * x);
}
/* The built-in function may stop at the number before 1, even at infinity (PoCL's does). */
LO_FN lo_vec lo_tanh(lo_vec x) { return fabs(x) > 9.1f ? copysign((lo_vec)(1.0f), x) : tanh(x); }

/* ---- sums across the items of a group, as a tree: GROUP is a power of two ---- */
#define LO_GROUP_REDUCE(name, expression)                                                          \
  LO_FN float name(float v, __local float *lanes) {                                                \
    const int item = get_local_id(0);                                                              \
    if (GROUP == 1) return v;                                                                      \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    lanes[item] = v;                                                                               \
    for (int half_group = GROUP / 2; half_group > 0; half_group /= 2) {                            \
      barrier(CLK_LOCAL_MEM_FENCE);                                                                \
      if (item < half_group) {                                                                     \
        const float a = lanes[item], b = lanes[item + half_group];                                 \
        lanes[item] = expression;                                                                  \
      }                                                                                            \
    }                                                                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
    return lanes[0];                                                                               \
  }
LO_GROUP_REDUCE(lo_group_sum, a + b)
LO_GROUP_REDUCE(lo_group_max, fmax(a, b))

/* ---- the error word: the first fault stays until the host has read it ---- */
LO_FN void lo_report(__global int *fault, int kind, long at, int value, long limit) {
  if (atomic_cmpxchg((volatile __global int *)fault + LO_CL_FAULT_SET, 0, 1) != 0) return;
  fault[LO_CL_FAULT_KIND] = kind;
  fault[LO_CL_FAULT_AT] = (int)at;
  fault[LO_CL_FAULT_AT_HIGH] = (int)(at >> 32);
  fault[LO_CL_FAULT_VALUE] = value;
  fault[LO_CL_FAULT_LIMIT] = (int)limit;
  fault[LO_CL_FAULT_LIMIT_HIGH] = (int)(limit >> 32);
}
