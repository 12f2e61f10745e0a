/* Transposes VW vectors. (row, column), as one number of 2 log2(VW) bits, is rotated by one bit a turn. */
LO_FN void lo_transpose(lo_vec *t) {
#pragma unroll
  for (int turn = 1; turn < VW; turn *= 2) {
    lo_vec u[VW];
#pragma unroll
    for (int i = 0; i < VW / 2; i++) {
      u[2 * i].even = t[i].lo;
      u[2 * i].odd = t[i + VW / 2].lo;
      u[2 * i + 1].even = t[i].hi;
      u[2 * i + 1].odd = t[i + VW / 2].hi;
    }
#pragma unroll
    for (int i = 0; i < VW; i++) t[i] = u[i];
  }
}
