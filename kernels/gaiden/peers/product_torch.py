# A product of square float32 matrices in PyTorch, by torch.utils.benchmark, with
# TF32 as Gaiden and JAX have it. One JSON line.   python product_torch.py N NAME
import json, sys
try:
    import torch
    import torch.utils.benchmark as benchmark
except ImportError:
    raise SystemExit(0)

n, name = int(sys.argv[1]), sys.argv[2]
torch.backends.cuda.matmul.allow_tf32 = True
x = torch.rand(n, n, device="cuda" if torch.cuda.is_available() else "cpu")
timer = benchmark.Timer("x @ x", globals={"x": x}, num_threads=torch.get_num_threads())
timer.timeit(3)
found = timer.blocked_autorange(min_run_time=2)
print(json.dumps({"Case": name, "Subject": "PyTorch %s utils.benchmark" % torch.__version__, "Unit": "µs", "Samples": [1e6 * t for t in found.times]}))
