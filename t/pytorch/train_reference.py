#!/usr/bin/env python3
"""PyTorch trains the network that the library trains: 784-128-10, ReLU, cross-entropy, SGD, batches
of 64, learning rate 0.1, from the library's initial weights and in its order of samples (seed 1).

train_reference.py losses      writes t/data/train_*.npy: the loss of each of the first 100 steps on
                               the bundled subset, in float64 and in float32
train_reference.py accuracy DIR EPOCHS [SEED [float32 | float64]]
                               prints loss and test accuracy of each epoch on the data set in DIR"""

import gzip
import os
import sys

import numpy as np
import torch

from philox import permutation, uniform

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
SUBSET = os.path.join(HERE, "..", "..", "data", "fashion-mnist-subset")
WIDTHS, BATCH, RATE, SEED, STEPS = (784, 128, 10), 64, 0.1, 1, 100


def read_part(directory, part):
    with gzip.open(f"{directory}/{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(f"{directory}/{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / np.float32(255), labels.astype(np.int64)


def network(seed, dtype):
    """Tensor 2 i is layer i's weight, 2 i + 1 its bias."""
    layers = []
    for i, (inputs, outputs) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        layer = torch.nn.Linear(inputs, outputs, dtype=dtype)
        bound = np.float32(1 / np.sqrt(float(inputs)))
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(uniform((outputs, inputs), seed, 2 * i, bound)))
            layer.bias.copy_(torch.from_numpy(uniform((outputs,), seed, 2 * i + 1, bound)))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def train_epoch(net, optimizer, x, y, order):
    """Yields each step's mean loss and number of samples; the last batch may be smaller."""
    for at in range(0, len(order), BATCH):
        batch = order[at:at + BATCH]
        loss = torch.nn.functional.cross_entropy(net(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item(), len(batch)


def losses(dtype):
    x, y = read_part(SUBSET, "train")
    x, y = torch.from_numpy(x).to(dtype), torch.from_numpy(y)
    net = network(SEED, dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    out, epoch = [], 0
    while len(out) < STEPS:
        order = permutation(len(x), SEED, epoch)
        out += [loss for loss, _ in train_epoch(net, optimizer, x, y, order)]
        epoch += 1
    return np.array(out[:STEPS], np.float64)


def write_losses():
    double, single = losses(torch.float64), losses(torch.float32)
    np.save(f"{DATA}/train_losses_f64.npy", double)
    np.save(f"{DATA}/train_losses_f32.npy", single)
    np.save(f"{DATA}/train_order.npy",
            np.array([permutation(4000, SEED, epoch) for epoch in (0, 1)], np.int32))
    for i, (inputs, outputs) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        bound = np.float32(1 / np.sqrt(float(inputs)))
        weight = uniform((outputs, inputs), SEED, 2 * i, bound)
        np.save(f"{DATA}/train_weight{i}_rows.npy", weight[[0, outputs // 2, outputs - 1]])
        np.save(f"{DATA}/train_bias{i}.npy", uniform((outputs,), SEED, 2 * i + 1, bound))
    print(f"first loss {double[0]:.6f}, last {double[-1]:.6f}, "
          f"largest |f32 - f64| / f64 {np.max(np.abs(single - double) / double):.2e}")


def accuracy(directory, epochs, seed, dtype):
    x, y = map(torch.from_numpy, read_part(directory, "train"))
    x_test, y_test = map(torch.from_numpy, read_part(directory, "t10k"))
    x, x_test = x.to(dtype), x_test.to(dtype)
    net = network(seed, dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for epoch in range(epochs):
        order = permutation(len(x), seed, epoch)
        total = sum(loss * n for loss, n in train_epoch(net, optimizer, x, y, order))
        with torch.no_grad():
            right = (net(x_test).argmax(1) == y_test).double().mean().item()
        print(f"seed {seed} epoch {epoch + 1}: loss {total / len(x):.4f}, "
              f"test accuracy {100 * right:.2f}%", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["losses"]:
        write_losses()
    elif len(sys.argv) in (4, 5, 6) and sys.argv[1] == "accuracy":
        directory, epochs, seed, dtype = (sys.argv[2:] + [str(SEED), "float32"][len(sys.argv) - 4:])
        accuracy(directory, int(epochs), int(seed), getattr(torch, dtype))
    else:
        sys.exit(__doc__)
