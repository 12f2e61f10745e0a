#!/usr/bin/env python3
"""Makes data/fashion-mnist-subset from the full Fashion-MNIST: the first 400 training and 100 test
images of each class, in the order of the files. Usage: make_subset.py DIR-OF-THE-FULL-SET"""

import gzip
import os
import struct
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fashion-mnist-subset")
PARTS = {"train": 400, "t10k": 100}
CLASSES = 10


def write(name, data):
    # No name and no time in the header, so that the same input gives the same file.
    with open(os.path.join(HERE, name), "wb") as raw:
        with gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(data)


def main(full):
    for part, each in PARTS.items():
        with gzip.open(f"{full}/{part}-labels-idx1-ubyte.gz") as file:
            labels = file.read()[8:]
        with gzip.open(f"{full}/{part}-images-idx3-ubyte.gz") as file:
            images = file.read()[16:]
        left, kept = [each] * CLASSES, []
        for i, label in enumerate(labels):
            if left[label]:
                left[label] -= 1
                kept.append(i)
        n = len(kept)
        write(f"{part}-labels-idx1-ubyte.gz",
              struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(labels[i] for i in kept))
        write(f"{part}-images-idx3-ubyte.gz", struct.pack(">4B3I", 0, 0, 8, 3, n, 28, 28) +
              b"".join(images[784 * i:784 * i + 784] for i in kept))
    with open(os.path.join(HERE, "SUBSET"), "w") as file:
        file.write("Fashion-MNIST subset (4000 of 60000 training, 1000 of 10000 test images)\n")


if __name__ == "__main__":
    main(sys.argv[1])
