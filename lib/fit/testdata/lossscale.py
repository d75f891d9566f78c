"""Writes lossscale.json: a product in float16 that PyTorch trains with torch.amp.GradScaler.

    pip install torch && python3 lossscale.py > lossscale.json

Each step has its loss, the scale after it, and the weights.
"""
import json
import torch

x = torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 1.0], [-2.0, 0.25]])
t = torch.tensor([[24.0], [-6.0], [20.0], [-9.0]])
w = torch.nn.Parameter(torch.tensor([[0.5], [-0.25]]))
optimizer = torch.optim.Adam([w], lr=0.5)
scaler = torch.amp.GradScaler("cpu", growth_interval=3)
steps = []
for _ in range(18):
    optimizer.zero_grad()
    loss = ((x.half() @ w.half()).float() - t).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    steps.append({"Loss": loss.item(), "Scale": scaler.get_scale(), "Weights": w.detach().flatten().tolist()})
print(json.dumps(steps, indent=0))
