#!/usr/bin/env python3
"""The 8-bit floats, from ml_dtypes, which JAX computes with: writes t/data/f8/*.npy.

e4m3_values, e5m2_values    float32: the value of each of the 256 codes
x                           float32: all values of both formats, the points halfway between
                            neighbours and the numbers next to these, what saturates, what
                            underflows, infinities, NaN, numbers of all sizes at random
x_e4m3, x_e5m2              int32: the code that x is stored as: to nearest even, saturated to the
                            largest number; of NaN 0x7f

ml_dtypes does not saturate, so larger numbers are first cut to the largest."""

import os

import ml_dtypes
import numpy as np

from philox import words

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "f8")
FORMATS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def values(kind):
    return np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)


def encode(x, kind):
    largest = np.float32(ml_dtypes.finfo(kind).max)
    codes = np.clip(x, -largest, largest).astype(kind).view(np.uint8).astype(np.int32)
    return np.where(np.isnan(x), 0x7F, codes).astype(np.int32)


def inputs():
    parts = []
    for kind in FORMATS.values():
        v = values(kind)
        v = np.unique(v[np.isfinite(v) & (v >= 0)]).astype(np.float64)
        beyond = 2 * v[-1] - v[-2]  # the next one, if there were one
        halves = (v + np.append(v[1:], beyond)) / 2
        for p in (v, halves, [beyond, 4 * beyond]):
            p = np.asarray(p, dtype=np.float32)  # exact
            parts += [p, np.nextafter(p, np.float32(0)), np.nextafter(p, np.float32(np.inf))]
    bits = words(1, 0, 3000, 1200)
    anything = bits[:600].view(np.float32)
    sized = ((bits[600:] & 0x7FFFFF) | (0x66 + bits[600:] % 44 << 23)).astype(np.uint32)
    largest = np.finfo(np.float32).max
    few = np.array([0, 1e-45, 1e-38, largest, np.inf], dtype=np.float32)
    positive = np.concatenate(parts + [few, sized.view(np.float32), np.abs(anything)])
    return np.concatenate([positive, -positive, [np.nan]]).astype(np.float32)


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    x = inputs()
    np.save(os.path.join(OUT, "x.npy"), x)
    for name, kind in FORMATS.items():
        np.save(os.path.join(OUT, name + "_values.npy"), values(kind))
        np.save(os.path.join(OUT, "x_" + name + ".npy"), encode(x, kind))
