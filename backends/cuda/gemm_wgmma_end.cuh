/* The ends of products by wgmma: sums to memory out of registers, sixteen of a lane at a time: of
 * four times 8 columns it has two neighbours in a row, and in the eighth row below. */
#ifndef LO_CUDA_GEMM_WGMMA_END_CUH
#define LO_CUDA_GEMM_WGMMA_END_CUH

#include "backends/cuda/epilogue.cuh"
#include "backends/cuda/tma.cuh"
#include "backends/cuda/wgmma.cuh"

#if __CUDA_ARCH_FEAT_SM90_ALL
/* Where a lane's sixteen belong. */
struct lo_wgmma_spot {
  lo_i64 row, col; /* the lane's upper row; the first of the 32 columns, */
  int column;      /* and in the tile */
  int rows;        /* from the upper row on, up to 16 */
  int lane;
};

/* Four lanes with a word of each of four things: lane q gets thing q whole. */
LO_FN void lo_turn_words(unsigned (&w)[4], int lane) {
  bool odd = lane & 1, high = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    unsigned got = __shfl_xor_sync(~0u, odd ? w[i] : w[i + 1], 1);
    if (odd)
      w[i] = got;
    else
      w[i + 1] = got;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    unsigned got = __shfl_xor_sync(~0u, high ? w[i] : w[i + 2], 2);
    if (high)
      w[i] = got;
    else
      w[i + 2] = got;
  }
}

/* Any epilogue: lanes pair up to have a quad each, the even ones in the upper row. */
template <class Sum, class Columns>
LO_FN void lo_wgmma_end_any(const lo_cu_gemm &p, lo_i64 limit, const lo_ending &end,
                            const Columns &columns, Sum (&s)[16], const lo_wgmma_spot &at) {
  bool odd = at.lane & 1;
  int c = at.lane % 4 / 2 * 4;
  lo_i64 row = at.row + (odd ? 8 : 0);
#pragma unroll 1
  for (int block = 0; block < 4; block++, c += 8) {
    Sum x = __shfl_xor_sync(~0u, odd ? s[0] : s[2], 1),
        y = __shfl_xor_sync(~0u, odd ? s[1] : s[3], 1);
    Sum quad[1][4] = {{odd ? x : s[0], odd ? y : s[1], odd ? s[2] : x, odd ? s[3] : y}};
    if (row < limit && at.col + c < p.n)
      lo_finish_one(end, columns.template at<4>(at.column + c), quad, row, at.col + c,
                    lo_quad_count(p.n, at.col + c));
#pragma unroll
    for (int i = 0; i < 12; i++) s[i] = s[i + 4];
  }
}

/* The short epilogue: scales, a bias and an activation. What is stored, of the upper row's eight
 * columns first, then of the lower's, */
LO_FN void lo_wgmma_sort(float (&z)[4][4], const float (&s)[16]) {
#pragma unroll
  for (int i = 0; i < 16; i++) z[i / 2 % 2 * 2 + i / 8][i / 4 % 2 * 2 + i % 2] = s[i];
}
/* by(row's scale, column's scale, the number of the sum): of each element. */
template <class Columns, class By>
LO_FN void lo_wgmma_scale(const lo_ending &end, const Columns &columns, float (&z)[4][4],
                          const lo_wgmma_spot &at, By by) {
  const float *scales = end.row_scales;
  const float *b = columns.scale + at.column + at.lane % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float a = scales && 8 * h < at.rows ? scales[at.row + 8 * h] : 1.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        z[2 * h + i / 2][i % 2 * 2 + j] = by(__fmul_rn(a, b[8 * i + j]), 4 * i + 2 * h + j);
  }
}
/* with the bias b of two columns */
template <class Columns, class With>
LO_FN void lo_wgmma_add(const Columns &columns, float (&z)[4][4], const lo_wgmma_spot &at,
                        With with) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float2 b = *(const float2 *)(columns.bias + at.column + 8 * i + at.lane % 4 * 2);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float *y = &z[2 * h + i / 2][i % 2 * 2];
      y[0] = with(y[0], b.x);
      y[1] = with(y[1], b.y);
    }
  }
}
template <class Columns>
LO_FN void lo_wgmma_before(const lo_ending &end, const Columns &columns, float (&z)[4][4],
                           const float (&s)[16], const lo_wgmma_spot &at) {
  if (Columns::SCALED && end.ends & LO_END_SCALES) {
    lo_wgmma_scale(end, columns, z, at, [&](float scale, int i) {
      return __fmul_rn(__fmul_rn(end.alpha, s[i]), scale);
    });
    lo_wgmma_add(columns, z, at, [](float y, float b) { return __fadd_rn(y, b); });
  } else {
    lo_wgmma_sort(z, s);
    lo_wgmma_add(columns, z, at, [&](float y, float b) { return __fmaf_rn(end.alpha, y, b); });
  }
}
template <class Columns>
LO_FN void lo_wgmma_before(const lo_ending &end, const Columns &columns, float (&z)[4][4],
                           const int (&s)[16], const lo_wgmma_spot &at) {
  lo_wgmma_scale(end, columns, z, at,
                 [&](float scale, int i) { return __fmul_rn(scale, (float)s[i]); });
  lo_wgmma_add(columns, z, at, [&](float y, float b) { return __fmaf_rn(end.alpha, y, b); });
}
/* KIND: the activation, where it is short; LO_ACT_RELU stands for none too; -1: any. */
template <int KIND, class Sum, class Columns>
LO_FN void lo_wgmma_short(const lo_ending &end, const Columns &columns, float (&z)[4][4],
                          const Sum (&s)[16], const lo_wgmma_spot &at) {
  float floor = end.e.activation == LO_ACT_RELU ? 0.0f : -LO_INFINITY;
  lo_wgmma_before(end, columns, z, s, at);
  if (KIND >= LO_ACT_GELU_F16) {
    lo_act_short(KIND, (float(&)[16])z);
  } else if (KIND >= 0 || !(end.ends & LO_END_ACTIVATION)) {
#pragma unroll
    for (int i = 0; i < 16; i++) z[i / 4][i % 4] = lo_not_below(z[i / 4][i % 4], floor);
  } else if (end.e.activation == LO_ACT_GELU) {
#pragma unroll
    for (int i = 0; i < 16; i++) z[i / 4][i % 4] = lo_act(LO_ACT_GELU, z[i / 4][i % 4], 0.0f);
  } else {
    lo_activate_all(end.e.activation, z, end.e.slope);
  }
  if (!Columns::SCALED || end.type < LO_TYPE_I8) return;
  if (lo_integers<Sum>)
    lo_divide_all(columns.divisor, z);
  else
    lo_divide_floats(columns.divisor, z);
}
/* and storing it: 8 neighbours at once, of 16 bits, turned by a warp's own KB of shared memory. Its
 * lines of four chunks of 16 bytes are swizzled, so that eight lines of a chunk and two whole lines
 * find all banks. */
#define LO_WGMMA_TURN 1024
template <bool BF16>
LO_FN void lo_wgmma_matrices(unsigned to, unsigned lower, const float (&z)[4][4]) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const float(&a)[4] = z[2 * h], (&b)[4] = z[2 * h + 1];
    uint2 low = lo_to_16x4(make_float4(a[0], a[1], a[2], a[3]), BF16);
    uint2 high = lo_to_16x4(make_float4(b[0], b[1], b[2], b[3]), BF16);
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to + h * lower),
        "r"(low.x), "r"(low.y), "r"(high.x), "r"(high.y)
        : "memory");
  }
}
template <bool BF16>
LO_FN void lo_wgmma_turn(unsigned turn, const float (&z)[4][4], uint4 (&lines)[2], int lane) {
  unsigned get = turn + lane / 4 * 64 + (lane % 4 ^ lane / 4 / 2) * 16;
  lo_wgmma_matrices<BF16>(turn + lane % 8 * 64 + (lane / 8 ^ lane % 8 / 2) * 16, 512, z);
  __syncwarp();
#pragma unroll
  for (int h = 0; h < 2; h++)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(lines[h].x), "=r"(lines[h].y), "=r"(lines[h].z), "=r"(lines[h].w)
                 : "r"(get + h * 512)
                 : "memory");
}
template <bool BF16>
LO_FN void lo_wgmma_store_wide(const lo_ending &end, unsigned turn, const float (&z)[4][4],
                               int left, const lo_wgmma_spot &at) {
  int q = at.lane % 4;
  unsigned short *c = (unsigned short *)end.to + at.row * end.stride + at.col + 8 * q;
  uint4 lines[2];
  lo_wgmma_turn<BF16>(turn, z, lines, at.lane);
#pragma unroll
  for (int h = 0; h < 2; h++)
    if (8 * h < at.rows && 8 * q < left) lo_store_words(c + 8 * h * end.stride, lines[h]);
}
/* or of 8, both rows in one turn of words, */
LO_FN void lo_wgmma_bytes(const lo_ending &end, const float (&z)[4][4], uint2 (&lines)[2],
                          int lane) {
  unsigned w[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float *upper = &z[i / 2][i % 2 * 2], *lower = &z[2 + i / 2][i % 2 * 2];
    w[i] = lo_to_bytes(make_float4(upper[0], upper[1], lower[0], lower[1]), end.type);
  }
  lo_turn_words(w, lane);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    unsigned halves = h ? 0x7632 : 0x5410;
    lines[h] = make_uint2(__byte_perm(w[0], w[1], halves), __byte_perm(w[2], w[3], halves));
  }
}
LO_FN void lo_wgmma_store_bytes(const lo_ending &end, const float (&z)[4][4], int left,
                                const lo_wgmma_spot &at) {
  int q = at.lane % 4;
  char *c = end.to + at.row * end.stride + at.col + 8 * q;
  uint2 lines[2];
  lo_wgmma_bytes(end, z, lines, at.lane);
#pragma unroll
  for (int h = 0; h < 2; h++)
    if (8 * h < at.rows && 8 * q < left) lo_store_words(c + 8 * h * end.stride, lines[h]);
}
/* or two of f32, */
LO_FN void lo_wgmma_store_pairs(const lo_ending &end, const float (&z)[4][4], int left,
                                const lo_wgmma_spot &at) {
  float *c = (float *)end.to + at.row * end.stride + at.col + at.lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (8 * h < at.rows && 8 * i < left)
        *(float2 *)(c + 8 * h * end.stride + 8 * i) =
            make_float2(z[2 * h + i / 2][i % 2 * 2], z[2 * h + i / 2][i % 2 * 2 + 1]);
}
/* or one by one, of TYPE, or where that is 0 of any: a row's 32 to the 32 lanes, by way of 2 KB.
 * Pairs are swizzled, so that those of four lines find all banks. */
template <int TYPE>
LO_FN void lo_wgmma_store_singly(const lo_ending &end, unsigned turn, const float (&z)[4][4],
                                 int left, const lo_wgmma_spot &at) {
  int lane = at.lane, swizzle = lane / 4 % 4 * 4;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const float *pair = &z[i / 4 * 2 + i % 4 / 2][i % 2 * 2];
    unsigned to = turn + (lane / 4 + i / 4 * 8) * 128 + ((i % 4 * 4 + lane % 4) ^ swizzle) * 8;
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(pair[0]), "f"(pair[1])
                 : "memory");
  }
  __syncwarp();
  int rows = at.rows + lane / 4, type = TYPE ? TYPE : end.type; /* rows from the warp's first on */
  char *c = end.to + lo_bytes_of(type, (at.row - lane / 4) * end.stride + at.col + lane);
  lo_i64 step = lo_bytes_of(type, end.stride);
#pragma unroll 4
  for (int r = 0; r < 16; r++, c += step) {
    float x[1];
    asm volatile("ld.shared.f32 %0, [%1];"
                 : "=f"(x[0])
                 : "r"(turn + r * 128 + ((lane / 2) ^ (r % 4 * 4)) * 8 + lane % 2 * 4)
                 : "memory");
    int count = r < rows && lane < left;
    if (type == LO_TYPE_F32)
      lo_put_f32(c, x, false, count);
    else if (type <= LO_TYPE_BF16)
      lo_put_16(c, x, type == LO_TYPE_BF16, false, count);
    else
      lo_put_8(c, x, type, false, count);
  }
}

/* Into a box, 128 bytes of 16 rows, whose chunks of 16 bytes are swizzled as TMA wants it: sixteen
 * number `part` of those that lie side by side. */
template <int TYPE>
LO_FN void lo_wgmma_pack(unsigned box, int part, const lo_ending &end, const float (&z)[4][4],
                         int lane) {
  int q = lane % 4, row = lane / 4;
  if (TYPE == LO_TYPE_F32) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      unsigned to = box + (row + i / 4 * 8) * 128 + ((i % 4 * 2 + q / 2) ^ row) * 16 + q % 2 * 8;
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(z[i / 2][i % 2 * 2]),
                   "f"(z[i / 2][i % 2 * 2 + 1])
                   : "memory");
    }
  } else if (TYPE == LO_TYPE_I8) {
    unsigned to = box + row * 128 + ((part * 2 + q / 2) ^ row) * 16 + q % 2 * 8;
    uint2 lines[2];
    lo_wgmma_bytes(end, z, lines, lane);
#pragma unroll
    for (int h = 0; h < 2; h++)
      asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to + h * 1024), "r"(lines[h].x),
                   "r"(lines[h].y)
                   : "memory");
  } else {
    unsigned to = box + lane % 8 * 128 + ((part * 4 + lane / 8) ^ lane % 8) * 16;
    lo_wgmma_matrices<TYPE == LO_TYPE_BF16>(to, 1024, z);
  }
}

/* A lane's sixteens, one after the other, along the columns first. sums(s, i): number i's; false
 * where it is not this one's to end. turn: memory of the warp's own. Short ends of floats are in
 * line, others in a loop; PARTS: of k, little code. */
template <class Core, class Columns, bool PARTS> struct lo_wgmma_ends {
  typedef typename Core::sum_t sum_t;
  static constexpr int WIDE = Core::BN / 32, COUNT = Core::TALL * WIDE;
  static constexpr bool BOXES = LO_CU_WGMMA_WIDE(Core::TALL, Core::BN) && !PARTS;
  const lo_cu_boxed_gemm &boxed;
  const lo_cu_gemm &p;
  const lo_ending end;
  const Columns &columns;
  int lane;
  unsigned turn;
  int row, col, l; /* of the lane in the first of them, and the matrix */
  int left;        /* columns of the tile */
  lo_i64 limit;    /* rows of C, as far as the tile may go */
  int apart;       /* from a sixteen to the one below it */

  /* Eight neighbours of C that begin where 8 divides the column may be moved at once (of f32: two
   * by two). */
  __device__ __forceinline__ bool is_wide() const {
    const lo_cu_output &c = p.e.c;
    if (c.type == LO_TYPE_F32) return c.quads && p.n % 8 == 0;
    lo_i64 bytes = lo_bytes_of(c.type, c.stride | c.batch_stride) | (lo_i64)c.p;
    return p.n % 8 == 0 && (bytes & (lo_bytes_of(c.type, 8) - 1)) == 0;
  }
  __device__ __forceinline__ lo_wgmma_spot spot(int i) const {
    lo_i64 at = row + i / WIDE * apart;
    return {at, col + i % WIDE * 32, i % WIDE * 32, lo_left(limit, at, 16), lane};
  }
  template <int KIND, class Sums>
  __device__ __forceinline__ void finish(float (&z)[4][4], int i, Sums sums) {
    sum_t s[16];
    sums(s, i);
    lo_wgmma_short<KIND>(end, columns, z, s, spot(i));
  }
  /* By boxes, of which the one before is still on its way; what follows is computed while one is
   * written. Of what lies outside C nothing is stored. */
  template <int KIND, int TYPE, class Sums> __device__ __forceinline__ void leave(Sums sums) {
    constexpr int EACH = TYPE == LO_TYPE_F32 ? 1 : TYPE <= LO_TYPE_BF16 ? 2 : 4; /* of a box */
    float z[4][4];
    finish<KIND>(z, 0, sums);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      unsigned box = turn + i / EACH % 2 * (128 * LO_CU_BOX_ROWS);
      lo_wgmma_spot at = spot(i);
      if (i % EACH == 0) {
        LO_DELAY(TURN);
        if (lo_elect()) lo_boxes_read<1>();
        __syncwarp();
      }
      lo_wgmma_pack<TYPE>(box, i % EACH, end, z, lane);
      if (i + 1 < COUNT) finish<KIND>(z, i + 1, sums);
      if (i % EACH < EACH - 1) continue;
      lo_wgmma_publish();
      __syncwarp();
      if (lo_elect()) {
        LO_DELAY(STORE);
        lo_box_store(&boxed.c, box, (int)at.col - 32 * (EACH - 1), (int)(at.row - lane / 4),
                     (int)l);
      }
    }
  }
  template <int KIND, int TYPE, class Sums> __device__ __forceinline__ void straight(Sums sums) {
    char *c = NULL;
    int rows = 0, q = lane % 4, mine = left - (TYPE == LO_TYPE_F32 ? 0 : 8 * q);
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      if (i % WIDE == 0) { /* where the lane stores */
        lo_i64 at = row + i / WIDE * apart;
        rows = lo_left(limit, at, 16);
        c = end.to + lo_bytes_of(TYPE, at * end.stride + col + q * (TYPE == LO_TYPE_F32 ? 2 : 8));
      }
      sum_t s[16];
      float z[4][4];
      if (!sums(s, i)) continue;
      int column = i % WIDE * 32;
      lo_wgmma_short<KIND>(end, columns, z, s, {row + i / WIDE * apart, 0, column, rows, lane});
      if (TYPE == LO_TYPE_I8) {
        lo_wgmma_store_bytes(end, z, left - column, spot(i));
        continue;
      }
      char *to = c + lo_bytes_of(TYPE, column);
      if (TYPE == LO_TYPE_F32) {
#pragma unroll
        for (int k = 0; k < 8; k++)
          if (k / 4 * 8 < rows && column + k % 4 * 8 < mine)
            *(float2 *)(to + 4 * (k / 4 * 8 * end.stride + k % 4 * 8)) =
                make_float2(z[k / 2][k % 2 * 2], z[k / 2][k % 2 * 2 + 1]);
      } else {
        uint4 lines[2];
        lo_wgmma_turn<TYPE == LO_TYPE_BF16>(turn + i % 2 * LO_WGMMA_TURN, z, lines, lane);
#pragma unroll
        for (int h = 0; h < 2; h++)
          if (8 * h < rows && column < mine) lo_store_words(to + 16 * h * end.stride, lines[h]);
      }
    }
  }
  /* Whether it was such an end, of a C of that type. */
  template <int TYPE, class Sums> __device__ __forceinline__ bool is_short(Sums sums) {
    /* little code */
    constexpr bool ACTIVATES = TYPE != LO_TYPE_F32 && TYPE != Core::OUT2 && !PARTS;
    constexpr int GELU = TYPE == LO_TYPE_F16 ? LO_ACT_GELU_F16 : LO_ACT_GELU_BF16;
    int ends = Columns::SCALED ? end.ends & ~LO_END_SCALES : end.ends;
    if (end.type != TYPE || ends & ~LO_END_ACTIVATION) return false;
    if (!ends)
      store<LO_ACT_RELU, TYPE>(sums);
    else if (ACTIVATES && end.e.activation == GELU)
      store<GELU, TYPE>(sums);
    else if (ACTIVATES && end.e.activation == LO_ACT_SILU_16)
      store<LO_ACT_SILU_16, TYPE>(sums);
    else
      return false;
    return true;
  }
  template <int KIND, int TYPE, class Sums> __device__ __forceinline__ void store(Sums sums) {
    if constexpr (BOXES)
      leave<KIND, TYPE>(sums);
    else
      straight<KIND, TYPE>(sums);
  }
  /* The plain end of ragged rows, by itself: code that is fetched for the first time is waited for,
   * line by line. */
  template <int TYPE, class Sums> __device__ __forceinline__ bool is_ragged(Sums sums) {
    if (end.type != TYPE || end.ends) return false;
#pragma unroll 1
    for (int i = 0; i < COUNT; i++) {
      sum_t s[16];
      float z[4][4];
      if (!sums(s, i)) continue;
      lo_wgmma_spot at = spot(i);
      lo_wgmma_short<LO_ACT_RELU>(end, columns, z, s, at);
      lo_wgmma_store_singly<TYPE>(end, turn, z, left - at.column, at);
    }
    return true;
  }
  template <class Sums> __device__ __forceinline__ void run(Sums sums) {
    bool wide = is_wide(), shorts = BOXES ? boxed.boxes_c : wide;
    if constexpr (Core::OUT != 0) {
      if (shorts && is_short<Core::OUT>(sums)) return;
      if constexpr (!Core::LEAN)
        if (!wide && is_ragged<Core::OUT>(sums)) return;
    }
    if constexpr (Core::OUT2 != 0)
      if (shorts && is_short<Core::OUT2>(sums)) return;
#pragma unroll 1
    for (int i = 0; i < COUNT; i++) {
      sum_t s[16];
      if (!sums(s, i)) continue;
      lo_wgmma_spot at = spot(i);
      constexpr int SHORT = LO_END_ACTIVATION | (Columns::SCALED ? LO_END_SCALES | LO_END_F8 : 0);
      if (end.ends & ~SHORT) {
        lo_wgmma_end_any(p, limit, end, columns, s, at);
        continue;
      }
      float z[4][4];
      int here = left - at.column;
      lo_wgmma_short<-1>(end, columns, z, s, at);
      if (!wide)
        lo_wgmma_store_singly<0>(end, turn, z, here, at);
      else if (end.type == LO_TYPE_F32)
        lo_wgmma_store_pairs(end, z, here, at);
      else if (Columns::SCALED && end.type >= LO_TYPE_I8)
        lo_wgmma_store_bytes(end, z, here, at);
      else if (end.type == LO_TYPE_BF16)
        lo_wgmma_store_wide<true>(end, turn + i % 2 * LO_WGMMA_TURN, z, here, at);
      else
        lo_wgmma_store_wide<false>(end, turn + i % 2 * LO_WGMMA_TURN, z, here, at);
    }
  }
};
#endif

#endif
