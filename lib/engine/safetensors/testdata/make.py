"""Writes python.safetensors with Python's own library, and checks go.safetensors,
which the Go test writes with -update: pip install safetensors numpy; python make.py"""
import json, os, numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file, load_file

here = os.path.dirname(os.path.abspath(__file__))
save_file({
    "conv/weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "labels": np.array([0, 255, 7], dtype=np.uint8),
    "seed": np.array([1 << 63, 5], dtype=np.uint64),
    "step": np.array(41, dtype=np.int32),
    "mask": np.array([True, False]),
    "none": np.zeros((0, 4), dtype=np.float64),
    "half": np.array([1.5, -2], dtype=np.float16),
    "größe/日本 \"x\"": np.array([3], dtype=np.int64),
}, os.path.join(here, "python.safetensors"), metadata={"made by": "Python"})

path = os.path.join(here, "go.safetensors")
if os.path.exists(path):
    got = load_file(path)
    assert got["w"].dtype == np.float32 and (got["w"] == [[1, 2, 3], [4, 5, 6]]).all(), got["w"]
    assert got["b"].dtype == np.uint8 and (got["b"] == [9, 8, 7]).all()
    assert got["ü\n<&>"].shape == (0, 3) and got["i"] == -5
    with safe_open(path, "np") as f:
        m = f.metadata()
    assert m["epoch"] == "7" and len(m["header"]) == 64, m
    json.dumps(m)
    print("go.safetensors is right")
