#!/usr/bin/env python3
"""Fits the rule that chooses among CUDA's kernels to measured times.

  kernel_times SUITE SECONDS SEED TYPE... >FILE     (bench/kernel_times.c, on the device)
  fit_cost.py [--check] FILE... [-- FILE...]

prints the rows of backends/cuda/times.c and the constants of backends/cuda/cost.c, whose formula
stands here once more (predict). --check fits to one half of the products, twice, and says how well
the rule chooses on the other half. Needs numpy. A kernel's three numbers are found by random steps
that make its own times fit better; the constants, which all kernels share, in between. Then steps
of some kernels at once, that make what the rule would choose faster: there products of the files
before -- (the suite's) count four times, large ones ten times, for a fit that counts all alike is
10% slower on large squares.
"""
import sys
import time
import numpy as np

SMS, CLOCK, MEMORY = 132, 1755e6, 18  # an H200: what FILE was measured on
UNITS = [128, 232, 1025, 1390, 695, 1050, 2790, 2048, 1024, 4096, 4096]  # cost.c's, by lo_cuda_unit
SIZES = {"f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "int8": 1, "f8e4m3": 1, "f8e4m3:fast": 1}
CONSTANTS = {"output": 0.67, "bytes_a_clock": 36.0, "boxed_output": 0.3, "boxed_16_output": 0.1,
             "boxed_bytes_a_clock": 40.0, "ragged": 0.2, "boxed_ragged": 0.3,
             "crossing": 2.0, "meeting": 3350.0, "each_part": 1220.0,
             "part_output": 0.08, "cluster_meeting": 3500.0, "follows": 3000.0,
             "launch": 3000.0, "boxed_launch": 6000.0, "copied_a_clock": 16.0, "start": 1500.0}
MOST = {"bytes_a_clock": 64, "boxed_bytes_a_clock": 64}  # what an SM can take in
LEAST = {"cluster_meeting": 2000, "follows": 3000}  # a barrier and the sums' way; a launch


class Times:
    """Rows of kernel_times, as arrays; a product is a (m, n, k, type)."""

    def __init__(self, paths):
        kernels, rows = {}, {}
        for line in (line for path in paths for line in open(path)):
            f = line.split()
            if len(f) == 13 and not f[0].isdigit():
                kernels[f[0]] = [int(x) for x in f[1:]]
            elif len(f) == 10 and f[0].isdigit() and f[4] in kernels:
                rows[tuple(f[:6])] = f
        rows = list(rows.values())
        self.names = sorted({f[4] for f in rows})
        self.prior = np.array([kernels[n][9:12] for n in self.names], float).T
        self.kernel = np.array([self.names.index(f[4]) for f in rows])
        column = lambda i: np.array([float(f[i]) for f in rows])
        self.m, self.n, self.k = column(0), column(1), column(2)
        self.split, self.slice, self.seconds = column(5), column(6), column(7)
        self.tail = column(9)
        as_it_is = ("_f8_", "_w8_")
        widened = np.array([f[3][:2] == "f8" and not any(x in f[4] for x in as_it_is)
                            for f in rows])
        self.size = np.where(widened, 2.0, [SIZES[f[3]] for f in rows])
        of = lambda i: np.array([kernels[f[4]][i] for f in rows], float)
        unit, bm, bn, self.bk, self.resident, align, few, self.cluster, self.meets = (
            of(i) for i in range(9))
        swap = (few > 0) & ~(self.n < self.m)
        self.bm, self.bn = np.where(swap, bn, bm), np.where(swap, bm, bn)
        self.rate = np.array(UNITS, float)[unit.astype(int)]
        self.boxed = np.array([f[4].startswith("wgmma_") for f in rows])
        self.boxed_16 = np.array([f[4].startswith("wgmma_") and f[4][6].isdigit() for f in rows])
        loose = self.k * self.size % 16 != 0
        row = np.ceil(self.k * self.size / 16) * 16
        pitch = np.where(loose & (row >= 512), np.ceil(row / 128) * 128, row)  # lo_cuda_pitch
        self.lean = np.array([f[4] == "wgmma_f8_128x256" for f in rows])
        self.crosses = self.boxed & (pitch % 128 != 0)
        self.copied = np.where(loose & (align == 16) | widened, (self.m + self.n) * row, 0)
        self.group_by_product([tuple(f[:4]) for f in rows])
        self.make_terms()

    def group_by_product(self, keys):
        self.products = {}
        self.product = np.array([self.products.setdefault(k, len(self.products)) for k in keys])
        self.best = np.full(len(self.products), np.inf)
        np.minimum.at(self.best, self.product, self.seconds)
        self.relative = self.seconds / self.best[self.product]

    def make_terms(self):
        blocks = np.ceil(self.m / self.bm) * self.cluster * np.ceil(self.n / self.bn) * self.split
        bm = self.bm / self.cluster
        self.each = np.ceil(blocks / SMS)
        self.rounds = np.ceil(self.each / self.resident)
        clusters = np.where(self.split > 2, SMS // 16 * (16 * self.resident // self.split) - 1,
                            SMS * self.resident // self.split)
        met = np.ceil(blocks / self.split / clusters)
        self.rounds = np.where((self.split > 1) & (self.meets > 0), met, self.rounds)
        self.each = np.maximum(self.each, self.rounds)
        last = self.rounds - 1 + 1 / np.maximum(self.tail, 1)
        self.rounds = np.where(self.tail > 0, last, self.rounds)
        self.each = np.where(self.tail > 0, last * self.resident, self.each)
        self.begun = np.where(self.boxed & (self.split == 1), 1, self.rounds)
        self.steps = np.ceil(self.slice / self.bk)
        self.turns = self.rounds * self.steps
        self.work = self.each * self.steps * bm * self.bn * self.bk / self.rate
        depth = np.minimum(self.slice, self.k)
        self.loads = self.each * (bm + self.bn / self.cluster) * depth * self.size
        moved = ((self.m + self.n) * self.k + self.m * self.n) * self.size
        self.memory = moved / (SMS * MEMORY)
        self.outputs = self.each * bm * self.bn
        self.parted = (self.split > 1) & (self.meets == 0)
        self.met = (self.split > 1) & (self.meets > 0)
        self.partials = 8 * self.split * self.m * self.n / SMS

    def predict(self, p, c):
        """Seconds; p: rate, wait, fixed by kernel."""
        rate, wait, fixed = (x[self.kernel] for x in p)
        a_clock = np.where(self.boxed, c["boxed_bytes_a_clock"], c["bytes_a_clock"])
        a_clock = a_clock / np.where(self.crosses, c["crossing"], 1)
        clocks = np.maximum(np.maximum(self.work / (rate * 0.01), self.loads / a_clock),
                            np.maximum(self.memory, self.begun * fixed + self.turns * wait))
        boxed_output = np.where(self.boxed_16, c["boxed_16_output"], c["boxed_output"])
        clocks = clocks + np.where(self.boxed, boxed_output, c["output"]) * self.outputs
        ragged = self.n % np.where(self.boxed, 8, 4) != 0
        in_line = np.where(self.boxed, c["boxed_ragged"] + 0.5 * self.lean, c["ragged"])
        clocks += ragged * in_line * self.outputs
        launch = np.where(self.boxed, c["boxed_launch"], c["launch"])
        clocks += np.where(self.copied > 0,
                           launch + 2 * self.copied / (SMS * c["copied_a_clock"]), 0)
        clocks += self.parted * (c["meeting"] + self.partials / c["bytes_a_clock"] + self.split *
                                 (c["each_part"] + c["part_output"] * self.bm * self.bn))
        clocks += (self.met | (self.tail > 0)) * c["cluster_meeting"]
        clocks += (self.tail > 0) * (fixed + c["follows"])
        return (clocks + c["start"]) / CLOCK

    def regrets(self, predicted):
        """By product: the time of the kernel that is predicted to be best over the best time."""
        order = np.lexsort((predicted, self.product))
        first = order[np.unique(self.product[order], return_index=True)[1]]
        return self.relative[first]


def fit(t, chosen, seed=1, turns=40, steps=200):
    """chosen: which rows count."""
    random = np.random.default_rng(seed)
    weight = np.exp(-np.minimum(t.relative - 1, 3)) * chosen
    p, c = np.maximum(t.prior, [[1], [50], [500]]), dict(CONSTANTS)
    start = p.copy()
    keep = 0.05  # what a factor of e away from where it began costs a kernel

    def losses(predicted):
        return weight * np.log(predicted / t.seconds) ** 2

    def by_kernel(p):
        sums = np.bincount(t.kernel, losses(t.predict(p, c)), len(t.names))
        return sums + keep * np.sum(np.log(p / start) ** 2, axis=0)

    for turn in range(turns):
        now = by_kernel(p)
        for step in range(steps):
            size = 0.5 * 0.98 ** step
            q = p * np.exp(random.normal(0, size, p.shape) * (random.random(p.shape) < 0.6))
            q[0] = np.minimum(q[0], 97)
            new = by_kernel(q)
            p, now = np.where(new < now, q, p), np.minimum(now, new)
        now = np.sum(losses(t.predict(p, c)))
        for step in range(steps // 2):
            d = dict(c)
            name = random.choice(list(d))
            d[name] = d[name] * np.exp(random.normal(0, 0.2))
            d[name] = min(max(d[name], LEAST.get(name, 0)), MOST.get(name, np.inf))
            new = np.sum(losses(t.predict(p, d)))
            if new < now:
                c, now = d, new
    return p, c


def counts_of(t, suite):
    """How often each product counts."""
    counts = np.ones(len(t.products))
    for product, i in t.products.items():
        if product in suite.products:
            counts[i] = 10 if np.prod([float(x) for x in product[:3]]) > 2e9 else 4
    return counts


def sharpen(t, p, c, chosen, counts, seed=1, seconds=240):
    """What counts is the time of the kernel that is chosen, over the best one's: in the mean, with
    kernels that are predicted within some 4% of each other chosen alike."""
    random = np.random.default_rng(seed)
    products = len(t.products)
    weight = np.exp(-np.minimum(t.relative - 1, 3)) * chosen[t.product]
    slow, times = np.minimum(t.relative, 4), np.log(t.seconds)

    def loss(p, c):
        predicted = np.log(t.predict(p, c))
        least = np.full(products, np.inf)
        np.minimum.at(least, t.product, predicted)
        share = np.exp((least[t.product] - predicted) / 0.04)
        mean = (np.bincount(t.product, share * slow, products) /
                np.bincount(t.product, share, products))
        error = np.sum(weight * (predicted - times) ** 2) / np.sum(weight)
        return np.average(np.log(mean[chosen]), weights=counts[chosen]) + 0.03 * error

    now, begun = loss(p, c), time.monotonic()
    while (left := 1 - (time.monotonic() - begun) / seconds) > 0:
        q, d = p, c
        if random.random() < 0.2:
            d, name = dict(c), random.choice(list(c))
            d[name] = max(d[name], 1e-3) * np.exp(random.normal(0, 0.3))
            d[name] = min(max(d[name], LEAST.get(name, 0)), MOST.get(name, np.inf))
        else:
            some = random.random(p.shape[1]) < random.choice([0.02, 0.05, 0.15])
            size = (0.05 + 0.5 * left * random.random()) * some * (random.random(p.shape) < 0.6)
            q = p * np.exp(random.normal(0, 1, p.shape) * size)
            q[0] = np.minimum(q[0], 97)
        new = loss(q, d)
        if new < now:
            p, c, now = q, d, new
    return p, c


def report(t, p, c, which, what):
    regret = t.regrets(t.predict(p, c))[which]
    near = (t.relative < 1.5) & which[t.product]
    error = np.log(t.predict(p, c) / t.seconds)[near]
    print("# %s: %d products, %.1f%% within 5%% of the best, mean %.3f, worst %.2f; error %.0f%%" %
          (what, len(regret), 100 * np.mean(regret <= 1.05), np.exp(np.mean(np.log(regret))),
           regret.max(), 100 * np.sqrt(np.mean(error ** 2))))


def check(t, counts):
    half = np.random.default_rng(7).permutation(len(t.products)) % 2 == 0
    for train in (half, ~half):
        p, c = sharpen(t, *fit(t, train[t.product]), train, counts)
        report(t, p, c, train, "fitted to")
        report(t, p, c, ~train, "held out")


def main():
    words = [a for a in sys.argv[1:] if a != "--check"]
    end = words.index("--") if "--" in words else len(words)
    t = Times(words[:end] + words[end + 1:])
    counts = counts_of(t, Times(words[:end])) if end < len(words) else np.ones(len(t.products))
    if "--check" in sys.argv:
        check(t, counts)
        return
    everything = np.ones(len(t.products), bool)
    p, c = sharpen(t, *fit(t, everything[t.product]), everything, counts)
    report(t, p, c, everything, "fitted to")
    print("# " + ", ".join("%s = %.3g" % x for x in c.items()))
    for name, rate, wait, fixed in zip(t.names, *p):
        print('    {"%s", {%.0f, %.0f, %.0f}},' % (name, rate, round(wait, -1), round(fixed, -2)))


if __name__ == "__main__":
    main()
