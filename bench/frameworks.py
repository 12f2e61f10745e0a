#!/usr/bin/env python3
"""One epoch of 784-128-10 (ReLU, softmax cross-entropy, SGD, 60000 samples) on the CPU in PyTorch,
compiled, and in JAX: what `layerops bench --train` measures for the library and the BLAS peers.

Usage: frameworks.py [--batch N] [--threads N] [--epochs N]
A framework that is not installed is told and left out. Prints tab-separated columns below a header:
framework, batch, threads, median_s (of an epoch; the first, which compiles, does not count), loss.
Samples lie in [-0.5,0.5), labels are those of a linear teacher, and the order is kept, as there.
"""

import argparse
import os
import statistics
import sys
import time

SAMPLES, INPUTS, HIDDEN, OUTPUTS, LR = 60000, 784, 128, 10, 0.1


def data(numpy):
    random = numpy.random.default_rng(1)
    x = random.random((SAMPLES, INPUTS), dtype=numpy.float32) - numpy.float32(0.5)
    labels = (x @ random.standard_normal((INPUTS, OUTPUTS), dtype=numpy.float32)).argmax(1)
    layers = []
    for fan_in, fan_out in ((INPUTS, HIDDEN), (HIDDEN, OUTPUTS)):
        bound = fan_in**-0.5
        layers.append(random.uniform(-bound, bound, (fan_out, fan_in)).astype(numpy.float32))
        layers.append(random.uniform(-bound, bound, fan_out).astype(numpy.float32))
    return x, labels, layers


def rate(batch):
    return LR * min(1, batch / 64)


def torch_epoch(batch, threads):
    import numpy
    import torch
    from torch.nn.functional import cross_entropy, linear

    torch.set_num_threads(threads)
    x, labels, layers = data(numpy)
    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    w1, b1, w2, b2 = parameters = [torch.from_numpy(p).requires_grad_() for p in layers]

    @torch.compile
    def loss_of(xb, yb):
        return cross_entropy(linear(linear(xb, w1, b1).relu(), w2, b2), yb)

    @torch.compile
    def update(gradients):
        with torch.no_grad():
            for p, g in zip(parameters, gradients):
                p -= rate(batch) * g

    def epoch():
        total = torch.zeros(())
        for first in range(0, SAMPLES, batch):
            xb, yb = x[first : first + batch], labels[first : first + batch]
            loss = loss_of(xb, yb)
            update(torch.autograd.grad(loss, parameters))
            total += loss.detach() * len(xb)
        return total.item() / SAMPLES

    return f"pytorch-{torch.__version__}", epoch


def jax_epoch(batch, threads):
    # XLA's threads are as many as the processors that the process may use
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import jax.numpy as jnp
    import numpy

    x, labels, layers = data(numpy)
    whole = SAMPLES // batch * batch
    xs = jnp.asarray(x[:whole]).reshape(-1, batch, INPUTS)
    ys = jnp.asarray(labels[:whole]).reshape(-1, batch)
    rest = (jnp.asarray(x[whole:]), jnp.asarray(labels[whole:])) if whole < SAMPLES else None

    def loss_of(parameters, xb, yb):
        w1, b1, w2, b2 = parameters
        z = jax.nn.relu(xb @ w1.T + b1) @ w2.T + b2
        return -jnp.take_along_axis(jax.nn.log_softmax(z), yb[:, None], 1).mean()

    def step(parameters, sample):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, *sample)
        return [p - rate(batch) * g for p, g in zip(parameters, gradients)], loss

    @jax.jit
    def run(parameters):
        parameters, losses = jax.lax.scan(step, parameters, (xs, ys))
        total = losses.sum() * batch
        if rest:
            parameters, loss = step(parameters, rest)
            total += loss * len(rest[1])
        return parameters, total

    state = [[jnp.asarray(p) for p in layers]]

    def epoch():
        state[0], total = run(state[0])
        return float(total) / SAMPLES

    return f"jax-{jax.__version__}", epoch


def measure(make, batch, threads, epochs):
    name, epoch = make(batch, threads)
    loss = epoch()
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        epoch()
        times.append(time.perf_counter() - start)
    print(f"{name}\t{batch}\t{threads}\t{statistics.median(times):.6g}\t{loss:.6g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    if not (1 <= options.batch <= SAMPLES and options.threads >= 1 and options.epochs >= 1):
        parser.error("--batch is from 1 to 60000, --threads and --epochs are 1 or more")
    print("framework\tbatch\tthreads\tmedian_s\tloss")
    for make in torch_epoch, jax_epoch:
        try:
            measure(make, options.batch, options.threads, options.epochs)
        except ImportError as missing:
            print(f"{make.__name__}: {missing}", file=sys.stderr)


if __name__ == "__main__":
    main()
