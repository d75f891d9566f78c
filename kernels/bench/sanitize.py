"""Runs Gaiden's GPU kernels under compute-sanitizer.

    scripts/bench kernels -texts DIR [-only NAMES]  # anywhere: the programs, for CUDA
    python3 sanitize.py DIR --json FILE             # on the machine with the GPU
    python3 sanitize.py DIR --list                  # what would be run; needs only Python

Triton, in Python, compiles each kernel; then each tool runs it in a process that needs
only the driver and numpy: a sanitizer around a session takes minutes to start. Arrays have
their exact sizes, so that an access beyond the end is seen. Integers are what they are in a
net: orders are permutations, labels are below the number of classes, and so on (see
integers). The exit status is 1 if a run is not clean.
"""

import argparse
import ctypes
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

CALL = re.compile(r'stablehlo\.custom_call @__gpu\$xla\.gpu\.triton\(.*?\) \{(.*)\} : \((.*?)\) -> (.*)$')
TENSOR = re.compile(r"tensor<([^>]*)>")
ALIAS = re.compile(r"output_operand_alias<output_tuple_indices = \[(\d*)\],\s*operand_index = (\d+)")
SIZES = {"f32": 4, "bf16": 2, "f16": 2, "i32": 4, "i64": 8, "ui8": 1, "i8": 1, "i1": 1}


def plain(text):
    """The text of an MLIR string: \\0A is a byte, \\" a quote."""
    return re.sub(rb'\\([0-9A-Fa-f]{2}|["\\])', lambda m: m[1] if m[1] in b'"\\' else bytes([int(m[1], 16)]), text.encode()).decode()


def kernels(directory):
    """The kernels of all programs, each text once."""
    done = set()
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".mlir"):
            continue
        for line in open(os.path.join(directory, name), encoding="utf-8"):
            m = CALL.search(line)
            if not m:
                continue
            config, operands, results = m.groups()
            number = lambda key: int(re.search(rf"\b{key} = (\d+)", config)[1])
            text = plain(re.search(r'\bir = "((?:[^"\\]|\\.)*)"', config)[1])
            sum = hashlib.sha256(text.encode()).hexdigest()[:12]
            if sum in done:
                continue
            done.add(sum)
            yield dict(case=name, sum=sum, text=text, kernel=re.search(r"@(\w+)\(", text)[1], grid=[number(f"grid_{a}") for a in "xyz"],
                       warps=number("num_warps"), stages=number("num_stages"), inputs=TENSOR.findall(operands), outputs=TENSOR.findall(results),
                       aliases={int(o or 0): int(i) for o, i in ALIAS.findall(config)}, after=len(re.findall(r"%after\d+: !tt\.ptr", text)))


def integers(k, i):
    """The values of an integer input: a permutation, numbers below a limit, or one number. None: not known."""
    name, inputs = k["kernel"], k["inputs"]
    dims = lambda i: [int(d) for d in inputs[i].split("x")[:-1]]
    below = lambda limit: ("below", limit)
    if inputs[i].endswith("ui8"):
        return below(4 if "conv" in name else 256)  # winners of windows, or images
    if name.startswith("gather"):
        return {0: ("order",), 1: ("is", 1), 2: ("is", 3), 3: ("is", 1), 5: below(10)}.get(i)  # place, steps before, number of the batch
    if name.startswith("head"):
        return below(dims(1)[1])
    if name.startswith("end"):
        return below(dims(i + 1)[1])
    if name.startswith(("softmax", "cross_entropy")):
        return below(dims(0)[1])
    if name.startswith("cached_attention"):
        slots = dims(3)[2]
        return {5: below(slots), 6: ("is", slots // 2), 7: ("is", slots // 2)}.get(i)  # positions of slots, of the tokens, and their slot
    return None


def whole(k):
    """The integer inputs of a kernel, with their values."""
    return {i: integers(k, i) for i, kind in enumerate(k["inputs"]) if kind.split("x")[-1][0] in "iu"}


def compiled(k, directory):
    """Compiles a kernel, and writes its machine code and how to launch it. Returns the path without its extension."""
    import triton
    from triton.backends.compiler import GPUTarget
    base = os.path.join(directory, k["sum"])
    with open(base + ".ttir", "w") as f:
        f.write(k["text"])
    made = triton.compile(base + ".ttir", target=GPUTarget("cuda", 90, 32), options={"num_warps": k["warps"], "num_stages": k["stages"]})
    with open(base + ".cubin", "wb") as f:
        f.write(made.asm["cubin"])
    parameters = len(re.findall(rf"\.param \.[^\n]*\b{k['kernel']}_param_\d+", made.asm["ptx"].split(")")[0]))
    with open(base + ".json", "w") as f:
        json.dump(dict(k, text="", shared=made.metadata.shared, parameters=parameters), f)
    return base


def bytes_of(kind, given, numbers=None):
    """The size of an array in bytes, and the values of an input."""
    import numpy as np
    *dims, element = kind.split("x")
    n = int(np.prod([int(d) for d in dims], dtype=np.int64))
    if not given:
        return n * SIZES[element], None
    random = np.random.default_rng(1)
    if element[0] in "iu":
        what, *number = numbers or ("is", 0)
        x = {"order": lambda: random.permutation(n), "below": lambda: random.integers(0, number[0], n), "is": lambda: np.full(n, number[0])}[what]()
        return n * SIZES[element], x.astype({"i32": np.int32, "i64": np.int64, "ui8": np.uint8}.get(element, np.int8))
    x = random.random(n, dtype=np.float32)
    if element == "bf16":
        x = (x.view(np.uint32) >> 16).astype(np.uint16)
    return n * SIZES[element], x.astype(np.float16) if element == "f16" else x


def launch(path):
    """Runs a compiled kernel once, by the driver alone."""
    cuda, k = ctypes.CDLL("libcuda.so.1"), json.load(open(path))

    def call(name, *args):
        status = getattr(cuda, name)(*args)
        if status != 0:
            print(f"{name}: CUDA error {status}", flush=True)
            sys.exit(3)

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), open(path.replace(".json", ".cubin"), "rb").read())
    call("cuModuleGetFunction", ctypes.byref(function), module, k["kernel"].encode())
    if k["shared"] > 48 << 10:
        call("cuFuncSetAttribute", function, 8, k["shared"])  # the largest dynamic shared memory

    def array(kind, given, numbers=None):
        size, content = bytes_of(kind, given, numbers)
        p = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(size))
        if given:
            call("cuMemcpyHtoD_v2", p, content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(size))
        return p

    numbers = whole(k)
    inputs = [array(s, True, numbers.get(i)) for i, s in enumerate(k["inputs"][:len(k["inputs"]) - k["after"]])]
    outputs = [inputs[k["aliases"][str(i)]] if str(i) in k["aliases"] else array(s, False) for i, s in enumerate(k["outputs"])]
    nothing = [ctypes.c_uint64()]  # arrays that come before and are not touched, and Triton's own
    all = inputs + nothing * k["after"] + outputs
    all += nothing * (k["parameters"] - len(all))
    parameters = (ctypes.c_void_p * len(all))(*[ctypes.cast(ctypes.pointer(p), ctypes.c_void_p) for p in all])
    call("cuLaunchKernel", function, *k["grid"], 32 * k["warps"], 1, 1, k["shared"], None, parameters, None)
    call("cuCtxSynchronize")
    for p in {p.value for p in inputs + outputs}:
        call("cuMemFree_v2", ctypes.c_uint64(p))
    print("ran", flush=True)


def checked(sanitizer, tool, base, seconds):
    """The result of one tool for one kernel: clean, or what was reported."""
    command = [sys.executable, os.path.abspath(__file__), "--one", base + ".json"]
    if tool != "none":
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "3"] + command
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"time-out after {seconds:.0f} s"
    summary = re.search(r"(ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", p.stdout)
    if p.returncode == 0 and "ran" in p.stdout.splitlines() and (tool == "none" or summary and summary[2] == "0"):
        return "clean"
    told = [l.strip() for l in p.stdout.splitlines() if re.search(r"[Ee]rror|[Rr]ace|Invalid|Uninit|not supported|CUDA", l)]
    return f"status {p.returncode}: " + " | ".join(told[:4] or p.stdout.splitlines()[-3:])[:400]


def write(path, lines):
    if path:
        with open(path, "w") as f:
            json.dump(dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), lines=lines), f, indent=1)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("directory")
    a.add_argument("--json")
    a.add_argument("--list", action="store_true", help="print what would be run; the status is 1 if the values of an integer input are not known")
    a.add_argument("--jobs", type=int, default=os.cpu_count())
    a.add_argument("--seconds", type=float, default=120, help="for a kernel and a tool")
    a.add_argument("--tools", default="none,memcheck,initcheck,racecheck", help="none runs the kernel alone")
    a.add_argument("--sanitizer", default="/usr/local/cuda/bin/compute-sanitizer")
    a = a.parse_args()
    found = list(kernels(a.directory))
    if a.list:
        for k in found:
            print(k["sum"], k["kernel"], *(f"{i}:{n and ' '.join(map(str, n))}" for i, n in whole(k).items()), sep="\t")
        return 1 if any(n is None for k in found for n in whole(k).values()) else 0

    def work(k):
        lines = []
        try:
            base = compiled(k, a.directory)
            for tool in a.tools.split(","):
                lines.append(dict(tool=tool, result=checked(a.sanitizer, tool, base, a.seconds)))
        except Exception as e:
            lines.append(dict(tool="compile", result=f"not compiled: {e}"[:300]))
        return [dict(case=k["case"], kernel=k["kernel"], sum=k["sum"], **l) for l in lines]

    lines = []
    with ThreadPoolExecutor(a.jobs) as pool:
        for some in pool.map(work, found):
            lines += some
            write(a.json, lines)  # the time may end before the kernels do
            for l in some:
                if l["result"] != "clean":
                    print(f'{l["tool"]:10} {l["case"]:10} {l["kernel"]:28} {l["result"]}', flush=True)
    clean = sum(l["result"] == "clean" for l in lines)
    print(f"{clean} of {len(lines)} runs of {len(found)} kernels are clean")
    return 0 if found and clean == len(lines) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        launch(sys.argv[2])
    else:
        sys.exit(main())
