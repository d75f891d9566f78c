"""Reads events.tfevents with TensorBoard's own reader and writes what it saw to events.txt.

    python3 -m venv /tmp/tb && /tmp/tb/bin/pip install tensorboard==2.20.0
    /tmp/tb/bin/python lib/tensorboard/testdata/read.py

The reader checks the sums of all records. TestEvents holds the file byte for byte."""
import os
import shutil
import sys
import tempfile

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

here = os.path.dirname(os.path.abspath(__file__))


def read(folder):
    a = event_accumulator.EventAccumulator(folder, size_guidance={k: 0 for k in event_accumulator.DEFAULT_SIZE_GUIDANCE})
    a.Reload()
    tags = a.Tags()
    for kind in "scalars", "histograms", "images", "tensors":
        for tag in sorted(tags[kind]):
            if kind == "scalars":
                for e in a.Scalars(tag):
                    yield f"scalar {tag} step {e.step} time {e.wall_time}: {e.value}"
            elif kind == "histograms":
                for e in a.Histograms(tag):
                    h = e.histogram_value
                    yield f"histogram {tag} step {e.step}: min {h.min} max {h.max} num {h.num} sum {h.sum} squares {h.sum_squares}, {[n for n in zip(h.bucket_limit, h.bucket) if n[1]]}"
            elif kind == "images":
                for e in a.Images(tag):
                    yield f"image {tag} step {e.step}: {e.width} x {e.height}, {len(e.encoded_image_string)} bytes, {e.encoded_image_string[:4]}"
            else:
                for e in a.Tensors(tag):
                    plugin = a.SummaryMetadata(tag).plugin_data.plugin_name
                    yield f"tensor {tag} step {e.step} plugin {plugin}: {tensor_util.make_ndarray(e.tensor_proto)}"
    if tags["graph"]:
        for n in a.Graph().node:
            yield f"node {n.name} {n.op} {list(n.input)}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*read(sys.argv[1]), sep="\n")
    else:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(here, "events.tfevents"), os.path.join(folder, "events.out.tfevents.1700000000.host"))
            lines = list(read(folder))
        with open(os.path.join(here, "events.txt"), "w", encoding="utf-8") as f:
            print(*lines, sep="\n", file=f)
