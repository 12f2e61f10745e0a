#!/usr/bin/env python3
"""Block-sparse layers on a CUDA device in PyTorch and in Triton, as `layerops bench --product all`
measures them for the library and its other peers: the same rows and patterns, random normal data,
results checked against float64, graphs of 20 or 100 calls whose operands come from memory.

Usage: frameworks_bsr.py [--suite FILE] [--rows ID,ID] [--tier S|L] [--dtype f16|bf16|f32|tf32]
         [--product forward|dgrad|wgrad|all] [--density D] [--pattern N] [--rounds N] [--jobs N]

torch: its BSR product (bsr_dense_addmm; for dgrad of the transposed W, made beforehand) and
sampled_addmm, in the fastest of some of their parameters. triton: a plain kernel a product, written
here: a program sums the blocks of a tile of outputs, or makes one block of dW; tile, warps, stages
and the order of tiles are the fastest of all that stand below. Kernels are compiled beforehand by
--jobs processes. Blocks of 8 are left out: neither has them.

Prints tab-separated columns below a header: id, dtype, framework, median_s, gflops (of kept blocks),
max_rel_err."""
import argparse
import importlib.util
import math
import os
import statistics
import sys
import tempfile
import warnings

MASK = (1 << 64) - 1
COLD_BYTES, FLUSH_BYTES = 1 << 28, 1 << 28
FEW, MANY, SHORT = 20, 100, 40e-6

warnings.filterwarnings("ignore", message="Sparse")  # invariants not checked; BSR is beta

# Samples of a tile, warps, stages.
SUMS = ((32, 4, 3), (64, 4, 3), (64, 4, 5), (128, 4, 3), (128, 4, 5), (128, 8, 3), (256, 8, 3))
PRODUCTS = ((32, 2, 4), (64, 2, 4), (64, 4, 3), (64, 4, 5), (128, 8, 3))
TORCH = ((32, 4, 3), (64, 4, 3), (128, 4, 3), (128, 8, 3))


# ---- rows and patterns, as bench/suite/patterns.md has them ----


class Row:
    def __init__(self, line):
        self.id, self.tier = line[:2]
        self.m, self.n, self.k, self.block = map(int, line[2:6])
        self.density, self.pattern = float(line[6]), line[7]

    def vary(self, density, pattern):
        if density is not None:
            self.density = density
            self.id += f":density={density:g}"
        if pattern is not None:
            self.id += f":pattern={pattern}"


def read_suite(path):
    with open(path, encoding="utf-8") as lines:
        fields = (line.rstrip("\r\n").split("\t") for line in lines if line.strip() and line[0] != "#")
        return [Row(f) for f in fields]


def uniforms(text):
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield ((z ^ (z >> 31)) >> 11) * 2.0**-53


def band(rows, cols, density):
    width = max(1, math.floor(density * cols + 0.5))
    for r in range(rows):
        first = math.floor((r + 0.5) * cols / rows - width / 2 + 0.5)
        first = max(0, min(first, cols - width))
        for c in range(first, first + width):
            yield r, c


def skew(rows, cols, density):
    lo, hi = 0.0, float(cols * rows)
    for _ in range(60):
        s = (lo + hi) / 2
        if sum(min(cols, s / (r + 1)) for r in range(rows)) < density * rows * cols:
            lo = s
        else:
            hi = s
    return [min(1, (lo + hi) / 2 / ((r + 1) * cols)) for r in range(rows)]


def blocks_of(row):
    """The kept (block row, block column), in order."""
    rows, cols = row.n // row.block, row.k // row.block
    if row.pattern == "banded":
        return list(band(rows, cols, row.density))
    skewed = row.pattern == "rowskew"
    shares = skew(rows, cols, row.density) if skewed else [row.density] * rows
    u = uniforms(row.id)
    return [(r, c) for r in range(rows) for c in range(cols) if next(u) < shares[r]]


# ---- a layer and its product ----


class Layer:
    """Of a row: x, y and the values of w, in sets that take turns; the product makes one of them."""

    def __init__(self, torch, row, dtype, product, blocks, sets=None):
        self.torch, self.row, self.dtype, self.product = torch, row, dtype, product
        self.element = {"f16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
        b, count = row.block, len(blocks)
        self.flops = 2.0 * row.m * count * b * b
        size = torch.empty((), dtype=self.element).element_size()
        bytes_ = size * (row.m * (row.n + row.k) + count * b * b)
        sets = sets or min(100, math.ceil(COLD_BYTES / bytes_))
        torch.manual_seed(1)

        def normal(*shape):
            return torch.randn(*shape, device="cuda").to(self.element)

        x, y, w = normal(row.m, row.k), normal(row.m, row.n), normal(count, b, b) / math.sqrt(row.k)
        self.sets = [(x.clone(), w.clone(), y.clone()) for _ in range(sets)]
        # groups: block rows of W, of dgrad those of the transposed W
        turned = product == "dgrad"
        order = sorted(range(count), key=lambda e: blocks[e][::-1]) if turned else list(range(count))
        self.groups = (row.k if turned else row.n) // b
        starts = [0] * (self.groups + 1)
        for e in order:
            starts[blocks[e][turned] + 1] += 1
        for g in range(self.groups):
            starts[g + 1] += starts[g]

        def indices(values):
            return torch.tensor(values, dtype=torch.int32, device="cuda")

        self.start, self.place = indices(starts), indices(order)
        self.slice = indices([blocks[e][not turned] for e in order])
        self.row_of, self.col_of = (indices([block[i] for block in blocks]) for i in (0, 1))

    def output(self, i):
        return self.sets[i][{"forward": 2, "dgrad": 0, "wgrad": 1}[self.product]]

    def expand(self, values):
        """[n, k] of the kept blocks, in float64."""
        row, b = self.row, self.row.block
        wide = self.torch.zeros(row.n // b, row.k // b, b, b, dtype=self.torch.float64, device="cuda")
        wide[self.row_of.long(), self.col_of.long()] = values.double()
        return wide.transpose(1, 2).reshape(row.n, row.k)

    def exact(self):
        """The product in float64, and the sums of its terms' sizes."""
        x, w, y = self.sets[0]
        if self.product == "forward":
            return tuple(a @ b.T for a, b in self.pairs(x.double(), self.expand(w)))
        if self.product == "dgrad":
            return tuple(a @ b for a, b in self.pairs(y.double(), self.expand(w)))
        row, b = self.row, self.row.block
        return tuple(
            (p.T @ q).reshape(row.n // b, b, row.k // b, b).transpose(1, 2)[
                self.row_of.long(), self.col_of.long()]
            for p, q in self.pairs(y.double(), x.double()))

    @staticmethod
    def pairs(a, b):
        return (a, b), (a.abs(), b.abs())

    def error(self, got, exact):
        """The largest error relative to the terms, and whether rounding explains all of them (as
        bench/operands.c has it for peers)."""
        value, size = exact
        row = self.row
        terms = {"forward": row.k, "dgrad": row.n, "wgrad": row.m}[self.product]
        rounding = {"f16": 2.0**-11, "bf16": 2.0**-8}.get(self.dtype, 2.0**-24)
        part = (rounding if rounding > 2.0**-24 else 0) + (2.01 * 2.0**-10 if self.dtype == "tf32" else 0)
        allowed = 1.13 * ((6 * math.sqrt(terms) + 8) * 2.0**-24 + part) * size
        allowed += (rounding + 2.0**-20) * value.abs() + 2.0**-24
        distance = (got.double() - value).abs()
        relative = distance / self.torch.maximum(size, value.abs()).clamp_min(2.0**-1000)
        right = bool((distance <= allowed).all())
        return float(relative.max()) if relative.numel() else 0.0, right


# ---- those who do it: config -> call(set), and what the call made ----


def triton_kernels(cache=[]):
    if cache:
        return cache[0]
    import triton
    import triton.language as tl

    @triton.jit(do_not_specialize=["m", "swap"])
    def sum_blocks(x, w, y, start, column, place, m, groups, ldx, ldy, swap, TURN: tl.constexpr,
                   B: tl.constexpr, BK: tl.constexpr, BM: tl.constexpr, PRECISION: tl.constexpr):
        pid = tl.program_id(0)
        tiles = tl.cdiv(m, BM)
        g = tl.where(swap > 0, pid % groups, pid // tiles)
        i = tl.where(swap > 0, pid // groups, pid % tiles)
        rows = i * BM + tl.arange(0, BM)
        lanes = tl.arange(0, B)
        inner = tl.arange(0, BK)
        acc = tl.zeros((BM, B), dtype=tl.float32)
        first, last = tl.load(start + g), tl.load(start + g + 1)
        for t in range(first * (B // BK), last * (B // BK)):
            e = t // (B // BK)
            ks = t % (B // BK) * BK + inner
            c, p = tl.load(column + e), tl.load(place + e)
            a = tl.load(x + rows[:, None] * ldx + c * B + ks[None, :], mask=rows[:, None] < m, other=0.0)
            if TURN:
                b = tl.load(w + p * B * B + lanes[None, :] * B + ks[:, None])
            else:
                b = tl.load(w + p * B * B + ks[:, None] * B + lanes[None, :])
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
        out = y + rows[:, None] * ldy + g * B + lanes[None, :]
        tl.store(out, acc.to(y.dtype.element_ty), mask=rows[:, None] < m)

    @triton.jit(do_not_specialize=["m"])
    def multiply_panels(y, x, dw, row, column, m, ldy, ldx, B: tl.constexpr, BM: tl.constexpr,
                        PRECISION: tl.constexpr):
        e = tl.program_id(0)
        r, c = tl.load(row + e), tl.load(column + e)
        lanes = tl.arange(0, B)
        acc = tl.zeros((B, B), dtype=tl.float32)
        for i in range(0, m, BM):
            s = i + tl.arange(0, BM)
            a = tl.load(y + s[:, None] * ldy + r * B + lanes[None, :], mask=s[:, None] < m, other=0.0)
            b = tl.load(x + s[:, None] * ldx + c * B + lanes[None, :], mask=s[:, None] < m, other=0.0)
            acc = tl.dot(tl.trans(a), b, acc, input_precision=PRECISION)
        out = dw + e * B * B + lanes[:, None] * B + lanes[None, :]
        tl.store(out, acc.to(dw.dtype.element_ty))

    cache.append((sum_blocks, multiply_panels))
    return cache[0]


class Triton:
    name = "triton"

    @staticmethod
    def configs(product, block):
        if product == "wgrad":
            return [(c, 0) for c in PRODUCTS]
        return [(c, swap) for c in SUMS for swap in (0, 1)]

    def __init__(self, layer):
        import triton

        self.layer, self.name = layer, f"triton-{triton.__version__}"

    def prepare(self, config):
        (bm, warps, stages), swap = config
        sum_blocks, multiply_panels = triton_kernels()
        layer, row = self.layer, self.layer.row
        b, m = row.block, row.m
        precision = "tf32" if layer.dtype == "tf32" else "ieee"
        forward = layer.product == "forward"

        def sums(i):
            x, w, y = layer.sets[i]
            source, target = (x, y) if forward else (y, x)
            sum_blocks[(layer.groups * -(-m // bm),)](
                source, w, target, layer.start, layer.slice, layer.place, m, layer.groups,
                source.shape[1], target.shape[1], swap, TURN=forward, B=b, BK=min(b, 64), BM=bm,
                PRECISION=precision, num_warps=warps, num_stages=stages)
            return target

        def products(i):
            x, w, y = layer.sets[i]
            multiply_panels[(len(layer.place),)](
                y, x, w, layer.row_of, layer.col_of, m, row.n, row.k, B=b, BM=bm,
                PRECISION=precision, num_warps=warps, num_stages=stages)
            return w

        return products if layer.product == "wgrad" else sums


class Torch:
    name = "torch"

    @staticmethod
    def configs(product, block):
        return [None] if product == "wgrad" else list(TORCH)

    def __init__(self, layer):
        torch, row = layer.torch, layer.row
        self.layer, self.name = layer, f"torch-{torch.__version__}"
        turned = layer.product == "dgrad"
        values = [w[layer.place.long()].mT.contiguous() if turned else w for _, w, _ in layer.sets]
        shape = (row.k, row.n) if turned else (row.n, row.k)
        self.bsr = [torch.sparse_bsr_tensor(layer.start, layer.slice, v, size=shape) for v in values]

    def prepare(self, config):
        from torch.sparse import _triton_ops as ops

        layer, bsr = self.layer, self.bsr
        m = layer.row.m

        def products(i):
            x, _, y = layer.sets[i]
            return ops.sampled_addmm(bsr[i], y.t(), x, beta=0.0, skip_checks=True).values()

        if layer.product == "wgrad":
            return products
        bn, warps, stages = config
        if m % bn:
            raise ValueError(f"m is no multiple of {bn}")
        meta = {"SPLIT_N": m // bn, "GROUP_SIZE_ROW": 4, "num_warps": warps, "num_stages": stages}

        def sums(i):
            x, _, y = layer.sets[i]
            source, target = (x, y) if layer.product == "forward" else (y, x)
            ops.bsr_dense_addmm(target.t(), bsr[i], source.t(), beta=0, out=target.t(), meta=meta,
                                skip_checks=True)
            return target

        return sums


FRAMEWORKS = (Torch, Triton)


# ---- compiling beforehand: each process does tiny layers, and leaves kernels in the cache ----


def compile_one(task):
    framework, product, dtype, block, config = task
    row = Row(["tiny", "S", "256", str(4 * block), str(4 * block), str(block), "1", "uniform"])
    try:
        import torch

        layer = Layer(torch, row, dtype, product, blocks_of(row), sets=1)
        FRAMEWORKS[framework](layer).prepare(config)(0)
        torch.cuda.synchronize()
    except Exception:  # the same happens where it is measured, and is told there
        pass


def compile_all(rows, dtype, products, jobs):
    import concurrent.futures
    import multiprocessing

    tasks = {(f, p, dtype, row.block, c if f == 0 or p == "wgrad" else (c[0], 0))
             for f, framework in enumerate(FRAMEWORKS) for p in products for row in rows
             for c in framework.configs(p, row.block)}
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        done = pool.map(compile_one, sorted(tasks, key=str))
        import torch  # while they do

        list(done)
    return torch


# ---- time ----


class Clock:
    def __init__(self, torch):
        self.torch = torch
        self.filler = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def seconds(self, run):
        """Of what run enqueues, behind other data for the L2 and a pause that hides the host."""
        self.torch.cuda._sleep(1_000_000)
        self.filler.sum()
        self.begin.record()
        run()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e-3

    def graph(self, call, sets, count):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for i in range(count):
                call(i % sets)
        return graph


def tune(layer, framework, clock):
    """The fastest config's call; None: none runs."""
    best, fastest = math.inf, None
    why = "no parameters"
    for config in framework.configs(layer.product, layer.row.block):
        try:
            call = framework.prepare(config)
            call(0)
            once = clock.seconds(lambda: call(0))
            if once > 3 * best + 2e-3:  # the host shows in one call
                continue
            graph = clock.graph(call, len(layer.sets), 5)
            seconds = min(clock.seconds(graph.replay) for _ in range(2)) / 5
        except Exception as failure:  # too much shared memory, sizes that do not fit
            why = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
            continue
        if seconds < best:
            best, fastest = seconds, (config, call)
    return fastest, best, why


def measure(layer, framework, clock, exact, rounds):
    row = layer.row
    name = row.id + ("" if layer.product == "forward" else "/" + layer.product)
    fastest, seconds, why = tune(layer, framework, clock)
    if not fastest:
        print(f"{name}: {framework.name}: {why}", file=sys.stderr)
        return
    config, call = fastest
    layer.output(0).fill_(math.nan)
    error, right = layer.error(call(0), exact)
    if not right:
        print(f"{name}: {framework.name}: wrong: {error:.3g}", file=sys.stderr)
    count = MANY if seconds < SHORT else FEW
    graph = clock.graph(call, len(layer.sets), count)
    median = statistics.median(clock.seconds(graph.replay) for _ in range(rounds)) / count
    label = f"{framework.name}:{config}".replace(" ", "") if config else framework.name
    print(f"{name}\t{layer.dtype}\t{label}\t{median:.6g}\t{layer.flops / median * 1e-9:.6g}\t"
          f"{error if right else math.inf:.3g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--suite", default=os.path.join(here, "suite", "blocksparse.tsv"))
    parser.add_argument("--rows")
    parser.add_argument("--tier", choices=("S", "L"))
    parser.add_argument("--dtype", choices=("f16", "bf16", "f32", "tf32"), default="f16")
    parser.add_argument("--product", choices=("forward", "dgrad", "wgrad", "all"), default="all")
    parser.add_argument("--density", type=float)
    parser.add_argument("--pattern", type=int)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 2))
    options = parser.parse_args()
    rows = [r for r in read_suite(options.suite) if r.block >= 16]
    rows = [r for r in rows if not options.tier or r.tier == options.tier]
    rows = [r for r in rows if not options.rows or r.id in options.rows.split(",")]
    products = ("forward", "dgrad", "wgrad") if options.product == "all" else (options.product,)
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        parser.exit(1, f"{missing[0]} is not installed\n")
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())
    torch = compile_all(rows, options.dtype, products, options.jobs)
    if not torch.cuda.is_available():
        parser.exit(1, "PyTorch sees no CUDA device\n")
    clock = Clock(torch)
    print("id\tdtype\tframework\tmedian_s\tgflops\tmax_rel_err", flush=True)
    for row in rows:
        row.vary(options.density, options.pattern)
        blocks = blocks_of(row)
        for product in products:
            layer = Layer(torch, row, options.dtype, product, blocks)
            exact = layer.exact()
            for framework in FRAMEWORKS:
                measure(layer, framework(layer), clock, exact, options.rounds)


if __name__ == "__main__":
    main()
