# Greedy texts of a GPT in PyTorch: transformers' generate() with its cache, and a step by hand
# with a static cache, eager and compiled.
import json, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

W = json.loads(sys.argv[1])
V, D, H, L, P, N, B = (W[k] for k in ("Vocab", "Width", "Heads", "Layers", "Prompt", "Tokens", "Batch"))
S = P + N
dev = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
torch.set_grad_enabled(False)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.qkv, self.out, self.up, self.down = nn.LayerNorm(D), nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.register_buffer("k", torch.zeros(B, H, S, D // H))
        self.register_buffer("v", torch.zeros(B, H, S, D // H))

    def forward(self, x, at, mask):
        n = x.shape[1]
        q, k, v = (t.view(B, n, H, D // H).transpose(1, 2) for t in self.qkv(self.n1(x)).split(D, -1))
        self.k.index_copy_(2, at, k)
        self.v.index_copy_(2, at, v)
        x = x + self.out(F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask).transpose(1, 2).reshape(B, n, D))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions, self.norm, self.head = nn.Embedding(V, D), nn.Embedding(W["Length"], D), nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(L))

    def forward(self, ids, at):
        x, mask = self.tokens(ids) + self.positions(at), torch.arange(S, device=dev)[None, :] <= at[:, None]
        for b in self.blocks:
            x = b(x, at, mask)
        return self.head(self.norm(x[:, -1])).argmax(-1, keepdim=True)


ids = torch.tensor([[(7 * i + r) % V for i in range(P)] for r in range(B)], device=dev)
T = torch.bfloat16 if W["BF16"] else torch.float32
net = GPT().to(dev, T).eval()


def by_hand(step):
    def write():
        out = [net(ids, torch.arange(P, device=dev))]
        for i in range(N - 1):
            out.append(step(out[-1], torch.tensor([P + i], device=dev)).clone())
        return torch.cat(out, 1).tolist()

    return write


ways = {"torch eager": by_hand(net), "torch compile, static cache": by_hand(torch.compile(net, dynamic=False, mode="reduce-overhead" if dev == "cuda" else None))}
try:
    from transformers import GPT2Config, GPT2LMHeadModel
    hf = GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=D, n_head=H, n_layer=L, n_positions=W["Length"], bos_token_id=None, eos_token_id=None)).to(dev, T).eval()
    ways["transformers generate()"] = lambda: hf.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=N, min_new_tokens=N, do_sample=False, pad_token_id=0).tolist()
except ImportError:
    pass
for way in list(ways):
    try:
        ways[way]()
        ways[way]()
        print(json.dumps({"Subjects": [way]}), flush=True)
    except Exception as e:  # a compiler that is not there is no failure of the others
        print(f"{way}: {str(e)[:200]}", file=sys.stderr)
print(json.dumps({"Subjects": []}), flush=True)
for line in sys.stdin:
    began, turns = time.perf_counter(), 0
    while time.perf_counter() - began < 0.4:
        ways[line.strip()]()
        turns += 1
    took = (time.perf_counter() - began) / turns / N
    print(json.dumps({"Case": W["Name"], "Subject": line.strip(), "Unit": "µs", "Samples": [took * 1e6]}), flush=True)
