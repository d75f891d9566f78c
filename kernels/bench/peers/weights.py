# Weights of a file of Gaiden's, in the format safetensors.
import json, os
import numpy as np

OWN = {"weight": "weights", "bias": "biases", "weight_ih_l0": "weights", "bias_ih_l0": "biases", "weight_hh_l0": "recurrent", "bias_hh_l0": ""}


class Weights:
    def __init__(self, path):
        raw = open(path, "rb").read()
        size = int.from_bytes(raw[:8], "little")
        self.raw, self.at, self.head = raw, 8 + size, json.loads(raw[8:8 + size])

    def array(self, name):
        t = self.head[name]
        a, b = t["data_offsets"]
        return np.frombuffer(self.raw, np.float32, (b - a) // 4, self.at + a).reshape(t["shape"])

    def get(self, name, shape, table=False):
        """A weight in PyTorch's layout, by PyTorch's name. Layers of a function of the user's
        have Gaiden's names and layouts, which are the same for a table of vectors."""
        if name in self.head:
            return self.array(name)
        first, _, last = name.rpartition(".")
        if first.endswith("qkv"):  # the peers have one matmul for all three
            return np.concatenate([self.get(first[:-3] + part + "." + last, [shape[0] // 3] + list(shape[1:])) for part in ("query", "key", "value")])
        if last == "bias_hh_l0" and first.replace(".", "/") + "/recurrent/biases" not in self.head:
            return np.zeros(shape, np.float32)  # an LSTM has one only
        own = first.replace(".", "/") + "/" + OWN[last]
        if own not in self.head and "_hh_" in last:
            own = first.replace(".", "/") + "/recurrent/" + OWN[last.replace("hh", "ih")]
        w = self.array(own)
        return w if table or w.ndim != 2 else w.T


def examples(folder, name, bytes, vocab, shape):
    """A file of examples."""
    return np.fromfile(os.path.join(folder, name), np.uint8 if bytes else np.int32 if vocab else np.float32).reshape(shape)
