"""Runs the kernels of programs alone, each once, for compute-sanitizer.

    trial -texts DIR [-only REGEXP]          # anywhere: the programs, for CUDA
    compute-sanitizer --tool memcheck  --error-exitcode 1 python3 sanitize.py DIR
    compute-sanitizer --tool racecheck --error-exitcode 1 python3 sanitize.py DIR
    compute-sanitizer --tool initcheck --error-exitcode 1 python3 sanitize.py DIR

It needs PyTorch and Triton on the machine with the GPU, and no session: a
sanitizer around a whole session takes minutes to start. With --dry it compiles,
and launches nothing. Arrays are exact in size, so that a step over an edge is
seen; PyTorch's pool is off for the same reason. Integers are 0: as labels,
orders and numbers of rows they are all within bounds.
"""

import os
import re
import sys
import tempfile

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"

import triton
from triton.backends.compiler import GPUTarget

CALL = re.compile(r'stablehlo\.custom_call @__gpu\$xla\.gpu\.triton\(.*?\) \{(.*)\} : \((.*?)\) -> (.*)$')
TENSOR = re.compile(r"tensor<([^>]*)>")
ALIAS = re.compile(r"output_operand_alias<output_tuple_indices = \[(\d*)\],\s*operand_index = (\d+)")
KINDS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i32": "int32", "i64": "int64", "ui8": "uint8", "i8": "uint8", "i1": "bool"}


def plain(text):
    """The text of an MLIR string: \\0A is a byte, \\" a quote."""
    return re.sub(rb'\\([0-9A-Fa-f]{2}|["\\])', lambda m: m[1] if m[1] in b'"\\' else bytes([int(m[1], 16)]), text.encode()).decode()


def kernels(path):
    for line in open(path, encoding="utf-8"):
        m = CALL.search(line)
        if not m:
            continue
        config, operands, results = m.groups()
        number = lambda name: int(re.search(rf"\b{name} = (\d+)", config)[1])
        text = plain(re.search(r'\bir = "((?:[^"\\]|\\.)*)"', config)[1])
        yield dict(text=text, grid=tuple(number(f"grid_{a}") for a in "xyz"), warps=number("num_warps"), stages=number("num_stages"),
                   inputs=TENSOR.findall(operands), outputs=TENSOR.findall(results),
                   aliases={int(o or 0): int(i) for o, i in ALIAS.findall(config)}, parameters=len(re.findall(r"%(?:in|out)\d+: !tt\.ptr", text)))


def tensor(kind):
    import torch
    *dims, element = kind.split("x")
    kind, shape = getattr(torch, KINDS[element]), [int(d) for d in dims]
    return torch.rand(shape, device="cuda").to(kind) if kind.is_floating_point else torch.zeros(shape, dtype=kind, device="cuda")


def run(k, dry, scratch):
    source = os.path.join(scratch, "kernel.ttir")
    with open(source, "w") as f:
        f.write(k["text"])
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": k["warps"], "num_stages": k["stages"]})
    if dry:
        return
    import torch
    inputs = [tensor(s) for s in k["inputs"][:k["parameters"] - len(k["outputs"])]]  # the others come after, untouched
    outputs = [inputs[k["aliases"][i]] if i in k["aliases"] else torch.empty_like(tensor(s)) for i, s in enumerate(k["outputs"])]
    compiled[k["grid"]](*inputs, *outputs)
    torch.cuda.synchronize()


if __name__ == "__main__":
    directory, dry = sys.argv[1], "--dry" in sys.argv
    done = set()
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(os.listdir(directory)):
            for k in kernels(os.path.join(directory, name)):
                if k["text"] not in done:
                    done.add(k["text"])
                    run(k, dry, scratch)
                    print(name, k["text"].split("\n")[0], flush=True)
    print(len(done), "kernels")
