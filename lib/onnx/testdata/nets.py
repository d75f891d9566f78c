"""Writes conv.onnx and words.onnx, small nets with random weights, and values.json: what
onnxruntime makes of them, and weights of conv.onnx after one step of gradient descent, by PyTorch.

    pip install onnx onnxruntime torch && python3 nets.py
"""
import json, os
import numpy as np, onnx, onnxruntime, torch
import torch.nn.functional as F
from onnx import TensorProto as T, helper as h, numpy_helper

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(1)
weights = lambda *shape: rng.normal(0, 0.4, shape).astype(np.float32)


def save(name, nodes, inputs, outputs, arrays):
    graph = h.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(a, k) for k, a in arrays.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(here, name + ".onnx"))
    return onnxruntime.InferenceSession(model.SerializeToString())


conv = {"conv.weight": weights(4, 2, 3, 3), "conv.bias": weights(4), "fc.weight": weights(3, 36), "fc.bias": weights(3)}
x = np.sin(np.arange(2 * 2 * 6 * 6) * 0.7).astype(np.float32).reshape(2, 2, 6, 6)
run = save("conv", [
    h.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    h.make_node("Relu", ["a"], ["b"]),
    h.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
    h.make_node("Flatten", ["c"], ["d"]),
    h.make_node("Gemm", ["d", "fc.weight", "fc.bias"], ["logits"], transB=1)],
    [h.make_tensor_value_info("x", T.FLOAT, ["batch", 2, 6, 6])], [h.make_tensor_value_info("logits", T.FLOAT, ["batch", 3])], conv)
flat = lambda a: [float(f"{v:.7g}") for v in np.asarray(a).flatten()]
values = {"conv": {"x": flat(x), "y": flat(run.run(None, {"x": x})[0])}}
p = {k: torch.tensor(v, requires_grad=True) for k, v in conv.items()}
out = F.linear(F.max_pool2d(F.relu(F.conv2d(torch.tensor(x), p["conv.weight"], p["conv.bias"], padding=1)), 2).flatten(1), p["fc.weight"], p["fc.bias"])
F.cross_entropy(out, torch.tensor([2, 0])).backward()
values["conv"]["after"] = {k: flat((v - 0.1 * v.grad).detach()) for k, v in p.items()}

words = {"table": weights(7, 5), "scale": weights(5), "out": weights(5, 4)}
ids = np.array([[1, 2, 3], [6, 0, 5]], np.int64)
mask = np.array([[1, 1, 0], [1, 1, 1]], np.float32)
run = save("words", [
    h.make_node("Gather", ["table", "ids"], ["a"]),
    h.make_node("Unsqueeze", ["mask", "axes"], ["m"]),
    h.make_node("Mul", ["a", "m"], ["b"]),
    h.make_node("ReduceMean", ["b"], ["c"], axes=[1], keepdims=0),
    h.make_node("Mul", ["c", "scale"], ["d"]),
    h.make_node("MatMul", ["d", "out"], ["e"]),
    h.make_node("Softmax", ["e"], ["probabilities"], axis=-1)],
    [h.make_tensor_value_info("ids", T.INT64, ["batch", "length"]), h.make_tensor_value_info("mask", T.FLOAT, ["batch", "length"])],
    [h.make_tensor_value_info("probabilities", T.FLOAT, ["batch", 4])], words | {"axes": np.array([2], np.int64)})
values["words"] = {"ids": ids.tolist(), "mask": flat(mask), "y": flat(run.run(None, {"ids": ids, "mask": mask})[0])}
json.dump(values, open(os.path.join(here, "values.json"), "w"), separators=(",", ":"))
