"""Compiles kernels, as text, for a Hopper GPU without having one.

    python3 -m venv venv && venv/bin/pip install triton==3.6.0
    venv/bin/python lib/engine/triton/testdata/validate.py lib/engine/triton/kernels/testdata/*.ttir

A development check, needed by no test: the goldens say what is written, this
says that Triton takes it, and what becomes of it: registers, shared memory,
spills (a stack), and which instructions. Triton 3.6 is close to the one inside
XLA 0.11.2. XLA rounds float32 factors of products to TF32 before it hands the
kernel on; so does this. The first line of each file says how many warps and
stages the kernel wants. It ends with 1 when a kernel is refused or spills.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

import triton
from triton.backends.compiler import GPUTarget

TOOLS = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
DOT = re.compile(r"(\s*)(%\S+) = tt\.dot (%\S+), (%\S+), (%\S+), inputPrecision = tf32 : (tensor<\S+xf32>) \* (tensor<\S+xf32>) -> (.*)")
HEAD = re.compile(r"// .*?(\d+) warps, (\d+) stages")
SHOWN = "HGMMA HMMA FFMA LDGSTS LDG STG LDS STS LDSM BAR LDL STL".split()


def rounded(text):
    """What XLA's pass RoundF32ToTF32ForTf32Dot does."""
    out = []
    for n, line in enumerate(text.split("\n")):
        m = DOT.match(line)
        if m:
            space, result, a, b, c, ta, tb, tc = m.groups()
            for side, value, kind in (("a", a, ta), ("b", b, tb)):
                out.append(f'{space}%r{side}{n} = tt.elementwise_inline_asm "cvt.rna.tf32.f32 $0, $1;" '
                           f'{{constraints = "=r,r", packed_element = 1 : i32, pure = true}} {value} : {kind} -> {kind}')
            line = f"{space}{result} = tt.dot %ra{n}, %rb{n}, {c}, inputPrecision = tf32 : {ta} * {tb} -> {tc}"
        out.append(line)
    return "\n".join(out)


def tool(name, path):
    return subprocess.run([os.path.join(TOOLS, name)] + path, capture_output=True, text=True).stdout


def validate(path, scratch):
    text = open(path).read()
    warps, stages = map(int, HEAD.match(text).groups())
    source = os.path.join(scratch, "kernel.ttir")  # its name ends up in the machine code
    with open(source, "w") as f:
        f.write(rounded(text))
    began = time.time()
    try:
        k = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})
    except Exception as e:
        print(f"{os.path.basename(path):40} REFUSED: {str(e)[:300]}", flush=True)
        return False
    cubin = os.path.join(scratch, "kernel.cubin")
    with open(cubin, "wb") as f:
        f.write(k.asm["cubin"])
    usage = re.search(r"REG:(\d+) STACK:(\d+)", tool("cuobjdump", ["-res-usage", cubin]))
    registers, stack = map(int, usage.groups())
    sass = tool("nvdisasm", [cubin])
    counts = {op: len(re.findall(rf"\b{op}\b", sass)) for op in SHOWN}
    print(f"{os.path.basename(path):40} {time.time() - began:4.1f} s  {registers:3} registers  {k.metadata.shared / 1024:5.1f} KiB shared  "
          f"{'SPILLS ' + str(stack) if stack else ''} {' '.join(f'{op} {n}' for op, n in counts.items() if n)}", flush=True)
    return stack == 0 and k.metadata.shared <= 227 * 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(scratch, "cache"))
        good = [validate(path, scratch) for path in sys.argv[1:]]
    sys.exit(0 if all(good) else 1)
