"""The other side of t/safetensors.t: Python's safetensors package shows a file in the words of
`t/safetensors show`, and makes one."""

import sys

import numpy as np
from safetensors import deserialize, safe_open
from safetensors.numpy import save_file


def show(path):
    with safe_open(path, framework="numpy") as file:
        for key, value in (file.metadata() or {}).items():
            print(f"{key}={value}")
    with open(path, "rb") as file:
        for name, tensor in deserialize(file.read()):
            shape = "".join(f" {n}" for n in tensor["shape"])
            print(f"{name} {tensor['dtype']}{shape} : {bytes(tensor['data']).hex()}")


def make(path):
    rng = np.random.default_rng(1)
    arrays = {"layers.0.weight": rng.standard_normal((5, 3)).astype(np.float32),
              "layers.0.bias": rng.standard_normal(5).astype(np.float32),
              "half": rng.standard_normal((2, 3, 4)).astype(np.float16),
              "double": rng.standard_normal((1, 1)), "empty": np.zeros((0, 7), np.float32),
              "scalar": np.array(3, np.int64), "flags": np.array([True, False]),
              "größe": np.arange(4, dtype=np.int8)}
    save_file(arrays, path, metadata={"format": "np", "note": "a \"b\" é"})


if __name__ == "__main__":
    {"show": show, "make": make}[sys.argv[1]](sys.argv[2])
