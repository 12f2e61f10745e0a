"""Philox4x32-10, the initial weights and the order of samples, once more in NumPy: the values that
the C code must give. Written from the papers that network/*.c name, not from the C code's output."""

import numpy as np

UNIFORM, NORMAL, PERMUTATION = 0, 1, 2
MASK = 0xFFFFFFFF


def philox4x32(counter, key, rounds=10):
    """counter: four uint64 arrays (or integers) of 32-bit values; key: two integers."""
    c = [np.asarray(v, dtype=np.uint64) for v in counter]
    k0, k1 = key
    low = np.uint64(MASK)
    for _ in range(rounds):
        p0 = c[0] * np.uint64(0xD2511F53)
        p1 = c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def words(seed, purpose, a, count):
    """The first `count` words of (seed, purpose, a): b counts 0, 1, 2, ..."""
    b = np.arange((count + 3) // 4, dtype=np.uint64)
    out = philox4x32((b & np.uint64(MASK), b >> np.uint64(32), a, purpose),
                     (seed & MASK, seed >> 32))
    return np.stack(np.broadcast_arrays(*out), axis=1).reshape(-1)[:count].astype(np.uint32)


def uniform(shape, seed, tensor, bound):
    n = int(np.prod(shape))
    w = (words(seed, UNIFORM, tensor, n) >> np.uint32(8)).astype(np.int64) - (1 << 23)
    centred = ((w.astype(np.float64) + 0.5) / (1 << 23)).astype(np.float32)
    return (centred * np.float32(bound)).reshape(shape)


def permutation(n, seed, epoch):
    """Element i is the data index of the epoch's sample i (VariablePhilox, cycle walking)."""
    bits = max(8, (n - 1).bit_length() if n > 1 else 0)
    left_bits = bits // 2
    right_bits = bits - left_bits
    keys = [int(w) for a in range(6)
            for w in philox4x32((epoch & MASK, epoch >> 32, a, PERMUTATION),
                                (seed & MASK, seed >> 32))]

    def once(i):
        left, right = i >> right_bits, i & ((1 << right_bits) - 1)
        for key in keys:
            product = left * 0xD2B74407B1CE6E93
            high, low = (product >> 32) & MASK, product & MASK
            left, right = (high ^ key ^ right) & ((1 << left_bits) - 1), (
                (low << (right_bits - left_bits)) | (right >> left_bits)) & ((1 << right_bits) - 1)
        return left << right_bits | right

    out = []
    for i in range(n):
        i = once(i)
        while i >= n:
            i = once(i)
        out.append(i)
    return out


if __name__ == "__main__":
    known = philox4x32((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0))
    assert [int(v) for v in known] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    print("permutation(60000, 1, 0):", permutation(60000, 1, 0)[:8])
    print("uniform(6, 1, 0, 1/28):",
          [float(v).hex() for v in uniform(6, 1, 0, np.float32(1 / np.sqrt(784.0)))])
