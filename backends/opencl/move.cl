/* Fill, copy, gather, transpose. Values pass as floats, but as integers between integer types, which f32
 * does not hold. */
LO_FN int lo_is_integer(int type) { return type >= LO_TYPE_I32 && type <= LO_TYPE_U8; }
LO_FN int lo_is_f8(int type) { return type >= LO_TYPE_F8E4M3; }

/* ---- 8-bit floats: `digits` of fraction; their exponents are less by `bias` inside f32 ---- */
typedef struct lo_f8 {
  uint digits, bias, largest; /* the code of the largest number */
} lo_f8;
LO_FN lo_f8 lo_f8_of(int type) {
  const lo_f8 e4m3 = {3, 120, 0x7e}, e5m2 = {2, 112, 0x7b};
  return type == LO_TYPE_F8E4M3 ? e4m3 : e5m2;
}

LO_FN float lo_from_f8(uint code, int type) {
  const lo_f8 f = lo_f8_of(type);
  const uint a = code & 0x7fu, normal = (a << (23 - f.digits)) + (f.bias << 23);
  const float least = as_float((f.bias + 1 - f.digits) << 23); /* of code 1 */
  float x = a >> f.digits ? as_float(normal) : (float)a * least;
  if (a > f.largest) x = as_float(normal | 0x7f800000u); /* infinity, NaN */
  return code & 0x80u ? -x : x;
}

/* To nearest even, saturated. A sum with `magic` rounds small numbers to multiples of the least. */
LO_FN uchar lo_to_f8(float x, int type) {
  const lo_f8 f = lo_f8_of(type);
  const uint shift = 23 - f.digits, u = as_uint(x), a = u & 0x7fffffffu;
  const uint cut = min(a, (f.largest << shift) + (f.bias << 23));
  const float magic = as_float((f.bias + 24 - f.digits) << 23);
  const uint small = as_uint(as_float(cut) + magic) - as_uint(magic);
  const uint half_way = (1u << (shift - 1)) - 1 + ((cut >> shift) & 1u);
  const uint normal = (cut - (f.bias << 23) + half_way) >> shift;
  const uint code = cut < ((f.bias + 1) << 23) ? small : normal;
  return (uchar)((a > 0x7f800000u ? 0x7fu : code) | ((u >> 24) & 0x80u));
}

LO_FN float lo_get_float(lo_in p, long i, int type) {
  return lo_is_f8(type) ? lo_from_f8(p[i], type) : lo_get(p, i, type);
}
LO_FN void lo_put_float(lo_out p, long i, int type, float v) {
  if (lo_is_f8(type))
    p[i] = lo_to_f8(v, type);
  else
    lo_put(p, i, type, v);
}

/* ---- Integers ---- */

LO_FN int lo_get_integer(lo_in p, long i, int type) {
  switch (type) {
  case LO_TYPE_I32: return ((__global const int *)p)[i];
  case LO_TYPE_I8: return ((__global const char *)p)[i];
  default: return p[i];
  }
}

LO_FN void lo_put_integer(lo_out p, long i, int type, int v) {
  switch (type) {
  case LO_TYPE_I32: ((__global int *)p)[i] = v; break;
  case LO_TYPE_I8: ((__global char *)p)[i] = convert_char_sat(v); break;
  default: p[i] = convert_uchar_sat(v); break;
  }
}

/* A float that rounds to f16 or bf16 as the integer itself would: what f32 cannot hold is noted in its last
 * bit (rounding to odd). */
LO_FN float lo_float_of(int v, int type) {
  if (type == LO_TYPE_F32) return convert_float_rte(v);
  const float f = convert_float_rtz(v);
  return convert_long_rtz(f) == (long)v ? f : as_float(as_uint(f) | 1u);
}

LO_FN int lo_integer_of(float v) { return isnan(v) ? 0 : convert_int_sat_rte(v); }

LO_FN void lo_move(lo_in x, long from, int from_type, lo_out y, long to, int to_type) {
  if (from_type == to_type && lo_is_f8(to_type)) { /* NaN and infinity too stay as they are */
    y[to] = x[from];
  } else if (lo_is_integer(from_type)) {
    const int v = lo_get_integer(x, from, from_type);
    if (lo_is_integer(to_type))
      lo_put_integer(y, to, to_type, v);
    else
      lo_put_float(y, to, to_type, lo_float_of(v, to_type));
  } else {
    const float v = lo_get_float(x, from, from_type);
    if (lo_is_integer(to_type))
      lo_put_integer(y, to, to_type, lo_integer_of(v));
    else
      lo_put_float(y, to, to_type, v);
  }
}

/* One value to any type. */
LO_FN void lo_put_any(lo_out y, long to, int type, float v) {
  if (lo_is_integer(type))
    lo_put_integer(y, to, type, lo_integer_of(v));
  else
    lo_put_float(y, to, type, v);
}

/* A vector where all are floats of 16 or 32 bits, else its elements one after the other. */
LO_FN int lo_is_wide(int type) { return type < LO_TYPE_I32; }
LO_FN void lo_move_all(lo_in x, const lo_cl_view *from, long row, lo_out y, const lo_cl_view *to, long i,
                       long j, long count) {
  if (lo_is_wide(from->type) && lo_is_wide(to->type)) {
    lo_store_at(y, to, i, j, count, lo_load_at(x, from, row, j, count));
    return;
  }
  LO_ROLLED for (int l = 0; l < VW && l < count; l++)
    lo_move(x, lo_at(from, row, j + l), from->type, y, lo_at(to, i, j + l), to->type);
}

LO_KERNEL(GROUP) void fill(__global const float *value, lo_out y, lo_cl_move p) {
  const float v = lo_read_scalar(value, p.value);
  LO_EACH(p.shape) {
    if (lo_is_wide(p.y.type))
      lo_store_at(y, &p.y, i, j, count, (lo_vec)(v));
    else
      LO_ROLLED for (int l = 0; l < VW && l < count; l++)
        lo_put_any(y, lo_at(&p.y, i, j + l), p.y.type, v);
  }
}

LO_KERNEL(GROUP) void copy(lo_in x, lo_out y, lo_cl_move p) {
  LO_EACH(p.shape) lo_move_all(x, &p.x, i, y, &p.y, i, j, count);
}

/* Rows that an index outside [0, limit) names are 0, and the first found is reported. */
LO_KERNEL(GROUP)
void gather(lo_in x, __global const int *index, lo_out y, __global int *fault, lo_cl_move p) {
  LO_EACH(p.shape) {
    const int row = index[p.index.offset + i];
    if (row >= 0 && row < p.limit) {
      lo_move_all(x, &p.x, row, y, &p.y, i, j, count);
      continue;
    }
    lo_report(fault, LO_CL_FAULT_INDEX, i, row, p.limit);
    LO_ROLLED for (int l = 0; l < VW && l < count; l++)
      lo_put_any(y, lo_at(&p.y, i, j + l), p.y.type, 0.0f);
  }
}

/* Squares of 16 x 16 through local memory, so that both sides are read and written along rows. CPU devices
 * have a cache for that. */
enum { SQUARE = 16 };
LO_FN uint lo_get_bits(lo_in p, long i, int type) {
  switch (type) {
  case LO_TYPE_F32:
  case LO_TYPE_I32: return ((__global const uint *)p)[i];
  case LO_TYPE_F16:
  case LO_TYPE_BF16: return ((__global const ushort *)p)[i];
  default: return p[i];
  }
}
LO_FN void lo_put_bits(lo_out p, long i, int type, uint v) {
  switch (type) {
  case LO_TYPE_F32:
  case LO_TYPE_I32: ((__global uint *)p)[i] = v; break;
  case LO_TYPE_F16:
  case LO_TYPE_BF16: ((__global ushort *)p)[i] = (ushort)v; break;
  default: p[i] = (uchar)v; break;
  }
}

LO_KERNEL(GROUP) void transpose(lo_in x, lo_out y, __local uint *square, lo_cl_move p) {
  const long across = (p.shape.cols + SQUARE - 1) / SQUARE; /* squares */
  const long i0 = get_group_id(0) / across * SQUARE, j0 = get_group_id(0) % across * SQUARE;
  for (int e = get_local_id(0); e < SQUARE * SQUARE; e += GROUP) {
    const int i = e % SQUARE, j = e / SQUARE; /* of y: neighbours in x */
    if (i0 + i < p.shape.rows && j0 + j < p.shape.cols)
      square[i * (SQUARE + 1) + j] = lo_get_bits(x, lo_at(&p.x, j0 + j, i0 + i), p.x.type);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = get_local_id(0); e < SQUARE * SQUARE; e += GROUP) {
    const int i = e / SQUARE, j = e % SQUARE;
    if (i0 + i < p.shape.rows && j0 + j < p.shape.cols)
      lo_put_bits(y, lo_at(&p.y, i0 + i, j0 + j), p.y.type, square[i * (SQUARE + 1) + j]);
  }
}
