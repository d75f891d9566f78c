"""Runs the kernels of programs under compute-sanitizer.

    trial -texts DIR [-only REGEXP]      # anywhere: the programs, for CUDA
    python3 sanitize.py DIR --json FILE  # on the machine with the GPU
    python3 sanitize.py DIR --json FILE --after EARLIER  # what EARLIER lacks

Triton, in Python, makes machine code of each kernel, and the driver of those that are
PTX; then each tool runs some
kernels, one after the other, in a process that needs nothing but the driver and
numpy, so that a sanitizer has little to watch: around a session it takes minutes
to start, and 3 s of this. Where such a process is not clean each of its kernels is run
alone, so that one that fails or takes too long costs its own line. The end is
a table, and status 1 if a line is not clean.

Arrays are exact in size, so that a step over an edge is seen, and what a kernel
does not take from an input is not initialized. Integers are 0: as labels, orders
and numbers of rows they are all within bounds. With --dry kernels are compiled,
and none is run.

Kernels are run in the order of how soon they are done: first by the tools that
are faster, then, with --after, by what a kernel took in the earlier file. What
is clean there stays in the file and is not run again; a kernel is its text and
the version of Triton that made its code.
"""

import argparse
import ctypes
import datetime
import hashlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

CALL = re.compile(r'stablehlo\.custom_call @__gpu\$xla\.gpu\.(triton|ptx)\(.*?\) \{(.*)\} : \((.*?)\) -> (.*)$')
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
            language, config, operands, results = m.groups()
            number = lambda key: int(re.search(rf"\b{key} = (\d+)", config)[1])
            text = plain(re.search(r'\b(?:ir|kernel_data) = "((?:[^"\\]|\\.)*)"', config)[1])
            sum = hashlib.sha256(text.encode()).hexdigest()[:12]
            if sum in done:
                continue
            done.add(sum)
            if language == "ptx":
                yield dict(case=name, sum=sum, text=text, kernel=re.search(r"\.entry (\w+)\(", text)[1], grid=[number(f"grid_{a}") for a in "xyz"], ptx=True,
                           warps=number("block_x") // 32, shared=number("shared_mem_bytes"), inputs=TENSOR.findall(operands), outputs=TENSOR.findall(results),
                           aliases={int(o or 0): int(i) for o, i in ALIAS.findall(config)}, after=0)
                continue
            yield dict(case=name, sum=sum, text=text, kernel=re.search(r"@(\w+)\(", text)[1], grid=[number(f"grid_{a}") for a in "xyz"],
                       warps=number("num_warps"), stages=number("num_stages"), inputs=TENSOR.findall(operands), outputs=TENSOR.findall(results),
                       aliases={int(o or 0): int(i) for o, i in ALIAS.findall(config)}, after=len(re.findall(r"%after\d+: !tt\.ptr", text)))


def compiled(k, directory):
    """Makes machine code of a kernel, beside what is needed to start it. Of PTX the driver does."""
    import triton
    from triton.backends.compiler import GPUTarget
    base = os.path.join(directory, "made", k["sum"])
    try:
        if "ptx" in k:
            with open(base + ".cubin", "wb") as f:
                f.write(k["text"].encode() + b"\0")
            with open(base + ".json", "w") as f:
                json.dump(dict(k, text="", parameters=len(k["inputs"]) + len(k["outputs"])), f)
            return ""
        with open(base + ".ttir", "w") as f:
            f.write(k["text"])
        made = triton.compile(base + ".ttir", target=GPUTarget("cuda", 90, 32), options={"num_warps": k["warps"], "num_stages": k["stages"]})
        with open(base + ".cubin", "wb") as f:
            f.write(made.asm["cubin"])
        parameters = len(re.findall(rf"\.param \.[^\n]*\b{k['kernel']}_param_\d+", made.asm["ptx"].split(")")[0]))
        with open(base + ".json", "w") as f:
            json.dump(dict(k, text="", shared=made.metadata.shared, parameters=parameters), f)
        return ""
    except Exception as e:
        return f"not compiled: {e}"[:300]


def bytes_of(kind, inputs):
    """How many bytes an array has, and, for inputs, what is in it."""
    import numpy as np
    *dims, element = kind.split("x")
    n = int(np.prod([int(d) for d in dims], dtype=np.int64))
    if not inputs or element[0] in "iu":
        return n * SIZES[element], np.zeros(n * SIZES[element], np.uint8)
    x = np.random.default_rng(1).random(n, dtype=np.float32)
    if element == "bf16":
        x = (x.view(np.uint32) >> 16).astype(np.uint16)
    return n * SIZES[element], x.astype(np.float16) if element == "f16" else x


def one(paths):
    """Runs kernels by the driver alone."""
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
        launch(call, path)


def launch(call, path):
    """Runs a kernel on arrays of its own."""
    k = json.load(open(path))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), open(path.replace(".json", ".cubin"), "rb").read())
    call("cuModuleGetFunction", ctypes.byref(function), module, k["kernel"].encode())
    if k["shared"] > 48 << 10:
        call("cuFuncSetAttribute", function, 8, k["shared"])  # the largest dynamic shared memory

    def array(kind, given):
        size, content = bytes_of(kind, given)
        p = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(size))
        if given:
            call("cuMemcpyHtoD_v2", p, content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(size))
        return p

    inputs = [array(s, True) for s in k["inputs"][:len(k["inputs"]) - k["after"]]]
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


def checked(sanitizer, tool, bases, seconds):
    """What a tool says of kernels: clean, or what not."""
    command = [sys.executable, os.path.abspath(__file__), "--one"] + [base + ".json" for base in bases]
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


def known(file):
    """An earlier file: its head, its clean lines, and what kernels took."""
    if not file:
        return None, {}, {}
    import triton
    with open(file) as f:
        head = json.load(f)
    lines = head.pop("lines")
    if head["triton"] != triton.__version__:
        sys.exit(f"sanitize: {file}: made with Triton {head['triton']}, and here is {triton.__version__}: run without --after")
    clean = {(l["sum"], l["tool"]): l for l in lines if l["result"] == "clean"}
    took = {}
    for l in clean.values():
        took[l["sum"]] = max(l["seconds"], took.get(l["sum"], 0))
    return head, clean, took


def told(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("directory")
    a.add_argument("--json")
    a.add_argument("--after", help="an earlier file of --json: its clean lines are kept, and not run again")
    a.add_argument("--dry", action="store_true")
    a.add_argument("--jobs", type=int, default=os.cpu_count())
    a.add_argument("--seconds", type=float, default=40, help="for a kernel and a tool")
    a.add_argument("--budget", type=float, default=1e9, help="stop after so many seconds, and write down what is known by then")
    a.add_argument("--together", type=int, default=8, help="kernels of a process")
    a.add_argument("--tools", default="none,memcheck,initcheck,racecheck", help="none runs the kernel alone")
    a.add_argument("--sanitizer", default="/usr/local/cuda/bin/compute-sanitizer")
    a = a.parse_args()
    began = time.time()
    os.makedirs(os.path.join(a.directory, "made"), exist_ok=True)
    head, clean, took = known(a.after)
    found, tools = list(kernels(a.directory)), a.tools.split(",")
    lines = [dict(clean[k["sum"], tool], case=k["case"]) for tool in tools for k in found if (k["sum"], tool) in clean]
    missing = [k for k in found if any((k["sum"], tool) not in clean for tool in tools)]
    with ProcessPoolExecutor(a.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        notes = list(pool.map(compiled, missing, [a.directory] * len(missing)))
    print(f"{len(found)} kernels, {len(missing)} compiled in {time.time() - began:.0f} s, {len(lines)} lines are known", flush=True)
    lines += [dict(case=k["case"], kernel=k["kernel"], sum=k["sum"], tool="compile", result=n) for k, n in zip(missing, notes) if n]
    good = sorted((k for k, n in zip(missing, notes) if not n), key=lambda k: took.get(k["sum"], 0))
    jobs = []
    for tool in [] if a.dry else tools:
        l = [k for k in good if (k["sum"], tool) not in clean]
        jobs += [(tool, l[i:i + a.together]) for i in range(0, len(l), a.together)]

    def work(job):
        tool, some = job
        start = time.time()
        result = "not run: the time is up"
        left = began + a.budget - start
        if left > 5:  # less is not enough for a process to begin
            result = checked(a.sanitizer, tool, [os.path.join(a.directory, "made", k["sum"]) for k in some], min(a.seconds, left))
            if result != "clean" and len(some) > 1:
                return [line for k in some for line in work((tool, [k]))]
        took = round((time.time() - start) / len(some), 2)
        return [dict(case=k["case"], kernel=k["kernel"], sum=k["sum"], tool=tool, result=result, seconds=took) for k in some]

    with ThreadPoolExecutor(a.jobs) as pool:
        for some in pool.map(work, jobs):
            lines += some
            for line in some:
                if line["result"] != "clean":
                    print(f'{line["tool"]:10} {line["case"]:10} {line["kernel"]:28} {line["result"]}', flush=True)
    for tool in dict.fromkeys(l["tool"] for l in lines):
        results = [l["result"] == "clean" for l in lines if l["tool"] == tool]
        print(f"{tool:10} {sum(results)} of {len(results)} clean")
    if a.json:
        import triton
        with open(a.json, "w") as f:
            json.dump(dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                           device=told(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]), triton=triton.__version__,
                           sanitizer=told([a.sanitizer, "--version"]).splitlines()[-1:], after=head, lines=lines), f, indent=1)
    return 0 if found and all(l["result"] == "clean" for l in lines) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(sys.argv[2:])
    else:
        sys.exit(main())
