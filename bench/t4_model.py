#!/usr/bin/env python3
"""What a T4 should reach, from the machine code of sm_75: counts the instructions of each main loop
and sets them against the clocks of Turing's pipes, its shared memory, L2 and DRAM.

usage: t4_model.py [--share S] [--size N]... OBJECT...

OBJECT: object files or cubins with code of sm_75 (build/backends/cuda/.libs/*.o). --share: what part
of the model's bound the loops reach where they can be measured (default 1). --size: of square
products (default 2048 and 4096). Needs cuobjdump, or what $CUOBJDUMP names.

No part of it was measured on a T4."""
import argparse
import collections
import json
import os
import re
import subprocess
import sys

CUOBJDUMP = os.environ.get("CUOBJDUMP", "cuobjdump")
DEVICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/devices/t4.json")

# Of an SM of Turing, which has four schedulers: the clocks for which one warp's instruction keeps its
# scheduler's pipe, and the multiply-adds that it makes.
MATH = {"HMMA.1688.F32": (8, 1024), "IMMA.8816": (4, 1024), "FFMA": (2, 32)}
SHARED_CLOCK = 64   # bytes of shared memory a clock
REGISTERS, SHARED, THREADS, BLOCKS = 65536, 65536, 1024, 16
COPY = 220e9        # bytes a second that copies reach; 320e9 on paper
CLASSES = (("math", r"HMMA|IMMA|FFMA"), ("LDSM", "LDSM"), ("LDS", r"LDS\b"), ("STS", "STS"),
           ("LDG", "LDG"), ("BAR", "BAR"), ("branch", "BRA"), ("other", ""))

# What the names of kernels tell: rows, columns, threads, bytes of shared memory, bytes of an element.
KERNELS = [
    (r"mma_kernelILi(\d)ELb0ELb1ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)E", lambda g: {
        "name": "%s %dx%d" % (("f16", "", "", "s8", "u8")[g[0]], g[1], g[2]),
        "bm": g[1], "bn": g[2], "threads": 32 * (g[1] // g[3]) * (g[2] // g[4]),
        "shared": 128 * (g[1] + g[2]), "element": 1 if g[0] > 2 else 2}),
    (r"lo_gemm_kernelIf7lo_tileILi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)E.*Lb0ELb1E", lambda g: {
        "name": "f32 %dx%d" % (g[0], g[1]), "bm": g[0], "bn": g[1],
        "threads": g[0] * g[1] // (g[3] * g[4]), "shared": None, "element": 4}),
]


def kernels(path):
    """Each kernel's name, resources and instructions."""
    dump = lambda what: subprocess.run([CUOBJDUMP, "-arch", "sm_75", what, path], check=True,
                                       capture_output=True, text=True).stdout
    resources = dict(re.findall(r"Function (\S+):\s+(REG.*)", dump("--dump-resource-usage")))
    name, code = None, collections.defaultdict(list)
    for line in dump("--dump-sass").splitlines():
        match = re.search(r"Function : (\S+)", line)
        if match:
            name = match.group(1)
        match = re.match(r"\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\d+ )?\s*(\S.*?);", line)
        if match and name:
            code[name].append((int(match.group(1), 16), match.group(2)))
    for name, body in code.items():
        numbers = {key: int(n) for key, n in re.findall(r"(\w+):(\d+)", resources.get(name, ""))}
        yield name, numbers, body


def main_loop(body):
    """The shortest of the innermost loops with the most arithmetic: the others ask more questions.
    Where there are tensor cores' instructions, they are the arithmetic."""
    loops, tensor = [], any("MMA." in t for _, t in body)
    for address, text in body:
        match = re.match(r"BRA\S* (0x[0-9a-f]+)", text)
        if match and int(match.group(1), 16) < address:
            inside = [t for a, t in body if int(match.group(1), 16) <= a <= address]
            busy = sum("MMA." in t if tensor else math_of(t) is not None for t in inside)
            if busy:
                loops.append((int(match.group(1), 16), address, inside, busy))
    inner = [l for l in loops
             if not any(l[0] <= o[0] and o[1] <= l[1] and o is not l for o in loops)]
    busy = max((l[3] for l in inner), default=0)
    return min((l[2] for l in inner if l[3] == busy), key=len, default=[])


def math_of(text):
    return next((MATH[op] for op in MATH if text.startswith(op)), None)


def shared_bytes(text):
    """Of a warp. LDSM takes 128 bytes for each matrix. The lanes of the SIMT loop share quads: two
    wavefronts for each LDS.128, as counted on an H200. What a load of 512 bytes brings is stored
    once, by whichever lanes: half of a warp at a time on tensor cores."""
    if text.startswith("LDSM"):
        return 128 * int(text.split(" ")[0].split(".")[-1])
    if text.startswith("LDS."):
        return 256
    return 512 if text.startswith("LDG") else 0


def count(loop):
    found = collections.Counter()
    for text in loop:
        found[next(c for c, pattern in CLASSES if re.match(pattern, text))] += 1
    return found


def model(k, numbers, loop):
    """Clocks of an SM for a pass of the main loop of all blocks that fit on it."""
    warps = k["threads"] // 32
    registers = (numbers["REG"] + 7) // 8 * 8 * k["threads"]
    room = k["shared"] or numbers["SHARED"]
    blocks = min(REGISTERS // registers, SHARED // room, THREADS // k["threads"], BLOCKS)
    k["blocks"], k["registers"] = blocks, numbers["REG"]
    k["spills"] = sum(t.startswith(("LDL", "STL")) for t in loop)
    k["k"] = sum(math_of(t)[1] for t in loop if math_of(t)) * warps // (k["bm"] * k["bn"])
    each = blocks * warps / 4
    # A warp's load of 512 bytes takes more wavefronts than four: an H200 counts eight, be it of
    # whole lines or of rows of 64 bytes, and sixteen of rows of 32.
    loads = sum(t.startswith("LDG") for t in loop) * 512 * max(128 // (k["k"] * k["element"]), 2)
    shared = sum(map(shared_bytes, loop))
    k["clocks"] = {
        "pipe": each * sum(math_of(t)[0] for t in loop if math_of(t)),
        "issue": each * len(loop),
        "shared": blocks * warps * shared / SHARED_CLOCK,
        "LSU": blocks * warps * (shared + loads) / SHARED_CLOCK,
        "L2": blocks * (k["bm"] + k["bn"]) * k["k"] * k["element"] / T4["l2_clock"],
    }


def read_of(k, n, at_once):
    """Bytes from DRAM: what blocks that run together share is read once. Tiles go by eight rows."""
    tiles_m, tiles_n = -(-n // k["bm"]), -(-n // k["bn"])
    order = [(row, col) for group in range(0, tiles_m, 8) for col in range(tiles_n)
             for row in range(group, min(group + 8, tiles_m))]
    total = 0
    for first in range(0, len(order), at_once):
        wave = order[first:first + at_once]
        total += len({r for r, _ in wave}) * k["bm"] + len({c for _, c in wave}) * k["bn"]
    return total * n * k["element"], len(order)


def predict(k, n, share):
    """Tera-operations a second for n x n x n, and what binds."""
    at_once = T4["sms"] * k["blocks"]
    read, tiles = read_of(k, n, at_once)
    slowest = max(k["clocks"], key=k["clocks"].get)
    waves = -(-tiles // at_once)
    seconds = waves * n / k["k"] * k["clocks"][slowest] / share / T4["clock"]
    dram = (read + n * n * max(k["element"], 2)) / COPY
    if dram > seconds:
        seconds, slowest = dram, "DRAM"
    return 2e-12 * n ** 3 / seconds, slowest, tiles / (waves * at_once)


def load_device():
    with open(DEVICE) as file:
        d = json.load(file)
    clock, sms = d["peaks"]["f16"]["clock"]["value"], d["peaks"]["f16"]["units"]["value"]
    l2 = next(m["bandwidth"]["value"] for m in d["memory"] if m["level"] == "L2")
    return {"clock": clock, "sms": sms, "l2_clock": l2 / clock / sms}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("object", nargs="+")
    args = parser.parse_args()
    sizes = args.size or [2048, 4096]
    print("| kernel | registers | spills a pass | blocks an SM | k a pass | " +
          " | ".join(c for c, _ in CLASSES) + " | clocks: pipe | issue | shared | and loads | L2 | " +
          " | ".join("%d^3, T/s" % n for n in sizes) + " |")
    print("|---" * (10 + len(CLASSES) + len(sizes)) + "|")
    found = 0
    for path in args.object:
        for name, numbers, body in kernels(path):
            for pattern, facts in KERNELS:
                match = re.search(pattern, name)
                loop = main_loop(body) if match else []
                if not loop:
                    continue
                k = facts([int(g) for g in match.groups()])
                model(k, numbers, loop)
                counts, c = count(loop), k["clocks"]
                print("| %s | %d | %d | %d | %d | " % (k["name"], k["registers"], k["spills"],
                                                       k["blocks"], k["k"]) +
                      " | ".join(str(counts[c]) for c, _ in CLASSES) +
                      " | %.0f | %.0f | %.0f | %.0f | %.0f | " %
                      (c["pipe"], c["issue"], c["shared"], c["LSU"], c["L2"]) +
                      " | ".join("%.1f (%s, waves %.0f%% full)" %
                                 (t, why, 100 * full) for t, why, full in
                                 (predict(k, n, args.share) for n in sizes)) + " |")
                found += 1
    if not found:
        sys.exit("t4_model.py: no kernel of ours with code of sm_75")


if __name__ == "__main__":
    T4 = load_device()
    main()
