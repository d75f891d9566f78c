"""Runs the kernels of programs under compute-sanitizer.

    bench trial -texts DIR [-only REGEXP]                # anywhere: the programs, for CUDA
    python3 sanitize.py DIR --json FILE                  # on the machine with the GPU
    python3 sanitize.py DIR --json FILE --known RESULTS  # what no file of a folder has
    python3 sanitize.py DIR --json FILE --after EARLIER  # what EARLIER lacks, and its lines too
    python3 sanitize.py DIR --json FILE --known RESULTS --blocks 64  # at most so many blocks under racecheck
    python3 sanitize.py DIR --dry                        # compile only: the machine code stays in DIR
    python3 sanitize.py DIR --known RESULTS --list       # what would be run; needs only Python

Triton, in Python, makes machine code of each kernel; then each tool runs some kernels,
one after the other, in a process that needs nothing but the driver and numpy, so that
a sanitizer has little to watch: around a session it takes minutes to start, and 3 s of
this. Where such a process is not clean each of its kernels is run
alone, so that one that fails or takes too long costs its own line. The end is
a table, and status 1 if a line is not clean, or 2 if all that was run is and the time was up
before the rest.

Arrays are exact in size, so that a step over an edge is seen, and what a kernel
does not take from an input is not initialized. Integers are what they are in a net: orders
are permutations, labels below the classes, winners 0 to 3 (see integers). Lines of such
kernels say so, and those of files from before that had only zeros count as not run. With
--dry kernels are compiled, and none is run.

Racecheck takes minutes for thousands of blocks, each of which has shared memory of its
own and runs the same code: with --blocks it sees the first ones only, and the lines say
how many.

Some kernels are compiled and run by all tools, then the next ones, until --limit is
reached: those that are left are in the file as not run. They go in the order of how soon
they are done: with --known or --after, by what a kernel took in an earlier file, and what
is not known comes first. What is clean there is not run again; a kernel is its text and
the version of Triton that made its code.
"""

import argparse
import ctypes
import datetime
import glob
import hashlib
import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait

CALL = re.compile(r'stablehlo\.custom_call @__gpu\$xla\.gpu\.triton\(.*?\) \{(.*)\} : \((.*?)\) -> (.*)$')
TENSOR = re.compile(r"tensor<([^>]*)>")
ALIAS = re.compile(r"output_operand_alias<output_tuple_indices = \[(\d*)\],\s*operand_index = (\d+)")
LATE = "not run: the time is up"
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
    """What whole numbers an input of a kernel is: an order, numbers below a limit, or one number. None says that nobody knows."""
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
    if name.startswith("softmax"):
        return below(dims(0)[1])
    if name.startswith("group"):
        return ("is", dims(i - 1)[0] - 1)  # the journal's last row
    return None


def whole(k):
    """The inputs of a kernel that are whole numbers, and what these are."""
    return {i: integers(k, i) for i, kind in enumerate(k["inputs"]) if kind.split("x")[-1][0] in "iu"}


def compiled(k, directory):
    """Makes machine code of a kernel, beside what is needed to start it."""
    import triton
    from triton.backends.compiler import GPUTarget
    base = os.path.join(directory, "made", k["sum"])
    try:
        if os.path.exists(base + ".json") and os.path.exists(base + ".cubin"):
            with open(base + ".json") as f:
                old = json.load(f)
            if old.get("triton") == triton.__version__:  # by --dry, perhaps on another machine
                with open(base + ".json", "w") as f:
                    json.dump(dict(old, **{key: k[key] for key in k if key not in ("text", "shared")}), f)
                return ""
        with open(base + ".ttir", "w") as f:
            f.write(k["text"])
        made = triton.compile(base + ".ttir", target=GPUTarget("cuda", 90, 32), options={"num_warps": k["warps"], "num_stages": k["stages"]})
        with open(base + ".cubin", "wb") as f:
            f.write(made.asm["cubin"])
        parameters = len(re.findall(rf"\.param \.[^\n]*\b{k['kernel']}_param_\d+", made.asm["ptx"].split(")")[0]))
        with open(base + ".json", "w") as f:
            json.dump(dict(k, text="", triton=triton.__version__, shared=made.metadata.shared, parameters=parameters), f)
        return ""
    except Exception as e:
        return f"not compiled: {e}"[:300]


def bytes_of(kind, given, numbers=None):
    """How many bytes an array has, and, for inputs, what is in it."""
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


def cut(grid, most):
    """A grid of fewer blocks, where it has more than so many."""
    grid = list(grid)
    while math.prod(grid) > most and max(grid) > 1:
        i = grid.index(max(grid))
        grid[i] = max(1, int(most * grid[i] / math.prod(grid)))
    return grid


def one(most, paths):
    """Runs kernels by the driver alone, the first blocks of each."""
    cuda = ctypes.CDLL("libcuda.so.1")

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
    for path in paths:
        launch(call, path, float(most))


def launch(call, path, most):
    """Runs a kernel on arrays of its own."""
    k = json.load(open(path))
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
    call("cuLaunchKernel", function, *cut(k["grid"], most), 32 * k["warps"], 1, 1, k["shared"], None, parameters, None)
    call("cuCtxSynchronize")
    for p in {p.value for p in inputs + outputs}:
        call("cuMemFree_v2", ctypes.c_uint64(p))
    print("ran", flush=True)


def checked(sanitizer, tool, bases, most, seconds):
    """What a tool says of kernels: clean, or what not."""
    command = [sys.executable, os.path.abspath(__file__), "--one", str(most)] + [base + ".json" for base in bases]
    if tool != "none":
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "3"] + command
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        out, _ = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        return f"time-out after {seconds:.0f} s"
    summary = re.search(r"(ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", out)
    if p.returncode == 0 and out.splitlines().count("ran") == len(bases) and (tool == "none" or summary and summary[2] == "0"):
        return "clean"
    told = [l.strip() for l in out.splitlines() if re.search(r"[Ee]rror|[Rr]ace|Invalid|Uninit|not supported|CUDA", l)]
    return f"status {p.returncode}: " + " | ".join(told[:4] or out.splitlines()[-3:])[:400]


def version():
    """Triton's, None where there is none."""
    try:
        import triton
        return triton.__version__
    except ImportError:
        return None


def read(file):
    """An earlier file: its head, and its clean lines. One of another Triton has none that count."""
    with open(file) as f:
        head = json.load(f)
    lines = head.pop("lines", [])
    if version() and head.get("triton") != version():
        print(f"{file}: made with Triton {head.get('triton')}, and here is {version()}: its lines do not count")
        lines = []
    return head, [l for l in lines if l["result"] == "clean"]


def files(paths):
    """Those of sanitizer results among files and folders."""
    for path in paths:
        yield from sorted(glob.glob(os.path.join(path, "*sanitizer*.json"))) if os.path.isdir(path) else [path]


class Record:
    """What earlier files have."""

    def __init__(self, lines):
        self.clean, self.took = {}, {}
        for l in lines:
            self.clean.setdefault((l["sum"], l["tool"], bool(l.get("integers"))), l)
            self.took[l["sum"]] = max(l["seconds"], self.took.get(l["sum"], 0))

    def line(self, k, tool):
        """The clean line of a kernel and a tool, None if there is none, or one of zeros only for a kernel that has whole numbers."""
        return self.clean.get((k["sum"], tool, True)) or (None if drawn(k) else self.clean.get((k["sum"], tool, False)))


def drawn(k):
    """Whether a kernel's whole numbers are other than 0."""
    return any(n != ("is", 0) for n in whole(k).values())


def told(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("directory")
    a.add_argument("--json")
    a.add_argument("--known", nargs="*", default=[], help="earlier files of --json, or folders of such: what is clean there is not run again")
    a.add_argument("--after", help="an earlier file of --json: its clean lines are kept, and not run again")
    a.add_argument("--dry", action="store_true")
    a.add_argument("--list", action="store_true", help="say what would be run; status 1 if nobody knows what some whole numbers are")
    a.add_argument("--jobs", type=int, default=os.cpu_count())
    a.add_argument("--seconds", type=float, default=40, help="for a kernel and a tool")
    a.add_argument("--limit", type=float, default=1e9, help="stop after so many seconds, and write down what was run and what not")
    a.add_argument("--together", type=int, default=8, help="kernels of a process")
    a.add_argument("--tools", default="none,memcheck,initcheck,racecheck", help="none runs the kernel alone")
    a.add_argument("--blocks", type=float, default=math.inf, help="of a kernel, under racecheck")
    a.add_argument("--sanitizer", default="/usr/local/cuda/bin/compute-sanitizer")
    a = a.parse_args()
    began = time.time()
    found, tools = list(kernels(a.directory)), a.tools.split(",")
    head, kept = read(a.after) if a.after else (None, [])
    record = Record(kept + [l for file in files(a.known) for l in read(file)[1]])
    kept = Record(kept)
    lines = [dict(kept.line(k, tool), case=k["case"]) for tool in tools for k in found if kept.line(k, tool)]
    missing = sorted((k for k in found if any(not record.line(k, tool) for tool in tools)), key=lambda k: record.took.get(k["sum"], 0))
    print(f"{len(found)} kernels, {len(missing)} to be run", flush=True)
    if a.list:
        for k in missing:
            print(k["sum"], k["kernel"], ",".join(tool for tool in tools if not record.line(k, tool)), *(f"{i}:{n and ' '.join(map(str, n))}" for i, n in whole(k).items()), sep="\t")
        return 1 if any(n is None for k in found for n in whole(k).values()) else 0
    os.makedirs(os.path.join(a.directory, "made"), exist_ok=True)

    def most(tool):
        return a.blocks if tool == "racecheck" else math.inf

    def line(k, tool, result, seconds):
        l = dict(case=k["case"], kernel=k["kernel"], sum=k["sum"], tool=tool, result=result, seconds=seconds)
        if math.prod(k["grid"]) > most(tool):
            l["blocks"] = [math.prod(cut(k["grid"], most(tool))), math.prod(k["grid"])]
        return dict(l, integers=True) if drawn(k) else l

    def left():
        return began + a.limit - time.time()

    def work(job):
        tool, some = job
        start, result = time.time(), LATE
        if left() > 5:  # less is not enough for a process to begin
            short = left() < a.seconds
            result = checked(a.sanitizer, tool, [os.path.join(a.directory, "made", k["sum"]) for k in some], most(tool), min(a.seconds, left()))
            if short and result.startswith("time-out"):
                result = LATE
            elif result != "clean" and len(some) > 1:
                return [l for k in some for l in work((tool, [k]))]
        took = round((time.time() - start) / len(some), 2)
        return [line(k, tool, result, took) for k in some]

    many = len(missing) if a.dry else a.together * a.jobs
    with ProcessPoolExecutor(a.jobs, mp_context=multiprocessing.get_context("spawn")) as makers, ThreadPoolExecutor(a.jobs) as pool:
        for at in range(0, len(missing), max(1, many)):
            some = missing[at:at + many]
            making = [makers.submit(compiled, k, a.directory) for k in some] if left() > 0 else []
            done, _ = wait(making, timeout=max(0, left()))
            good = []
            for k, m in zip(some, making or [None] * len(some)):
                if m in done and not m.result():
                    good.append(k)
                    continue
                if m:
                    m.cancel()
                lines += [line(k, "compile", m.result() if m in done else LATE, 0)]
            jobs = []
            for tool in [] if a.dry else tools:
                l = [k for k in good if not record.line(k, tool)]
                jobs += [(tool, l[i:i + a.together]) for i in range(0, len(l), a.together)]
            for some in pool.map(work, jobs):
                lines += some
                for l in some:
                    if l["result"] not in ("clean", LATE):
                        print(f'{l["tool"]:10} {l["case"]:10} {l["kernel"]:28} {l["result"]}', flush=True)
            if good:
                print(f"{at + len(good)} of {len(missing)} after {time.time() - began:.0f} s", flush=True)
    for tool in dict.fromkeys(l["tool"] for l in lines):
        results = [l["result"] for l in lines if l["tool"] == tool]
        print(f'{tool:10} {results.count("clean")} of {len(results)} clean, {results.count(LATE)} not run')
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                           device=told(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]), triton=version(),
                           sanitizer=told([a.sanitizer, "--version"]).splitlines()[-1:], after=head, lines=lines), f, indent=1)
    if not found or any(l["result"] not in ("clean", LATE) for l in lines):
        return 1
    return 2 if any(l["result"] == LATE for l in lines) else 0


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
