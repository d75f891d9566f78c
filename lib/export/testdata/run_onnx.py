"""Runs ONNX files with onnxruntime: run_onnx.py DIRECTORY reads NAME.onnx and NAME.json, {"x": {"shape": [...], "data": [...], "type": "float32"}},
checks the files with onnx.checker, and prints {NAME: {"sha256": ..., "y": [...]}}. TestONNX runs it: see there."""
import glob, hashlib, json, os, sys

import numpy as np
import onnx
import onnxruntime

results = {}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx"))):
    name = os.path.basename(path)[: -len(".onnx")]
    inputs = json.load(open(path[: -len("onnx")] + "json"))
    try:
        onnx.checker.check_model(onnx.load(path), full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feed = {k: np.array(v["data"], dtype=v["type"]).reshape(v["shape"]) for k, v in inputs.items()}
        y = session.run(None, feed)[0]
    except Exception as e:
        print(f"{name}: {e}", file=sys.stderr)
        continue
    results[name] = {"sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "shape": list(y.shape), "y": [float(f"{x:.7g}") for x in y.flatten().tolist()]}
json.dump(results, sys.stdout, indent=0)
