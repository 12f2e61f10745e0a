/* Tiles of a short k (isa/grouped.h), for the file of each main loop with an epilogue in registers,
 * after grouped_kernel.h: the panel of W stays in registers, and any number of rows streams by, so
 * that no row waits for a tile to open or to close. The sums and their order are the microkernel's.
 */

/* The last word of a row. */
ALWAYS_INLINE uint32_t last_word(const char *p, int64_t bytes) {
  switch (bytes) {
  case 1:
    return word_at(p, 1);
  case 2:
    return word_at(p, 2);
  case 3:
    return word_at(p, 3);
  default:
    return word_at(p, 4);
  }
}

ALWAYS_INLINE void stream(const lo_grouped_tile *t, int words, int vectors) {
  const out_constants constants = open_out(t->out, vectors, t->columns);
  const int64_t rest = t->k * SIZE - 4 * (words - 1);
  vec w[LO_GROUPED_SHORT][VECTORS];
#pragma GCC unroll 16
  for (int g = 0; g < words; g++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) w[g][v] = vec_load(t->w + (g * VECTORS + v) * LANES);
  for (int r = 0; r < t->rows; r++) {
    const char *x = t->x + r * t->x_row;
    vec sums[VECTORS] = {vec_zero(), vec_zero()};
#pragma GCC unroll 16
    for (int g = 0; g < words; g++) {
      const vec a = vec_word(g < words - 1 ? word_at(x + 4 * g, 4) : last_word(x + 4 * g, rest));
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sums[v] = vec_dot(a, w[g][v], sums[v]);
    }
    finish_row(t->out, &constants, sums, r, vectors);
  }
}

#define SHORT_K(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define STREAMS(words)                                                                             \
  static void stream_##words##_1(const lo_grouped_tile *t) {                                       \
    stream(t, words, 1);                                                                           \
  }                                                                                                \
  static void stream_##words##_2(const lo_grouped_tile *t) {                                       \
    stream(t, words, 2);                                                                           \
  }
SHORT_K(STREAMS)

static void run_short(const lo_grouped_tile *t) {
#define ONE_VECTOR(words)  stream_##words##_1,
#define TWO_VECTORS(words) stream_##words##_2,
  static void (*const streams[VECTORS][LO_GROUPED_SHORT])(const lo_grouped_tile *) = {
      {SHORT_K(ONE_VECTOR)}, {SHORT_K(TWO_VECTORS)}};
  streams[t->columns > LANES][(t->k + GROUP - 1) / GROUP - 1](t);
}
