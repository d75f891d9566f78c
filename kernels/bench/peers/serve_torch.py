"""Serves an MLP with FastAPI, uvicorn and PyTorch, as their guides do it: serve_torch.py WEIGHTS, a safetensors file of
dense layers with weights [in out]. It prints its address as the only subject, and ends when its input does."""
import json, socket, sys, threading

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from safetensors.torch import load_file

W = load_file(sys.argv[1])
names = sorted((k[: -len("/weights")] for k in W if k.endswith("/weights")), key=lambda n: (len(n), n))
layers = []
for n in names:
    w, b = W[n + "/weights"], W[n + "/biases"]
    l = torch.nn.Linear(*w.shape)
    with torch.no_grad():
        l.weight.copy_(w.T), l.bias.copy_(b)
    layers += [l, torch.nn.ReLU()]
dev = "cuda" if torch.cuda.is_available() else "cpu"
net = torch.nn.Sequential(*layers[:-1]).eval().to(dev)
app = FastAPI()


@app.post("/predict")
async def predict(request: Request):
    body = await request.body()
    raw = request.headers["content-type"] == "application/octet-stream"
    x = torch.frombuffer(bytearray(body), dtype=torch.float32) if raw else torch.tensor(json.loads(body)["x"])
    with torch.inference_mode():
        y = net(x.reshape(-1, layers[0].in_features).to(dev)).cpu()
    if raw:
        return Response(np.ascontiguousarray(y.numpy()).tobytes(), media_type="application/octet-stream")
    return {"outputs": y.tolist()}


s = socket.socket()
s.bind(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
threading.Thread(target=lambda: server.run(sockets=[s]), daemon=True).start()
while not server.started:
    pass
print(json.dumps({"Subjects": [f"http://127.0.0.1:{s.getsockname()[1]}"]}), flush=True)
sys.stdin.read()
