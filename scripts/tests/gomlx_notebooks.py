"""Runs GoMLX's own notebooks, unchanged, with gaiden run, and programs of its examples,
each as one cell: GAIDEN FOLDER NOTEBOOK|PROGRAM.go...

A cell that fails in GoMLX's own outputs may fail here; no other may. What a cell
prints that is not random is what it prints there. The last line on standard output
is "PASSED FAILED SKIPPED".
"""

import json
import pathlib
import subprocess
import sys

# Text that a notebook must print: its own outputs have it, too.
PRINTED = {
    "tutorial": ["CallOnce:\t1+1=float64(2)", "counter=int64(11)", "df/dx=[3]float64{10, 22, 34}", "- State of counter=int32(13)",
                 "Minimum found at x=-1, f(x)=2 after 10.000000 steps.", "Minimum found at x=-3, f(x)=2 after 10.000000 steps."],
    "fft": ["x: shape=(Float32)[1, 100]", "y: shape=(Complex64)[1, 51]"],
    "linear": ["Backend: gaiden", "[step=999] [loss=0.0", "Learned coefficients: [["],
}


def code_cells(notebook):
    return [c for c in notebook["cells"] if c["cell_type"] == "code"]


def printed(notebook):
    return "".join("".join(o.get("text", "")) for c in code_cells(notebook) for o in c["outputs"])


def run(gaiden, folder, path):
    if path.suffix == ".go":
        cell = {"cell_type": "code", "id": "program", "metadata": {}, "execution_count": None, "outputs": [], "source": path.read_text()}
        kernel = {"name": "gaiden", "language": "go", "display_name": "Go (Gaiden)"}
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]}
    else:
        notebook = json.loads(path.read_text())
    for cell in code_cells(notebook):
        if any(o["output_type"] == "error" for o in cell["outputs"]):
            cell["metadata"].setdefault("tags", []).append("raises-exception")
    copy, out = folder / (path.stem + ".ipynb"), folder / f"out-{path.stem}.ipynb"
    copy.write_text(json.dumps(notebook))
    done = subprocess.run([gaiden, "run", "-timeout", "15m", "-o", out, copy], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        return done.stdout[-2000:]
    said = printed(json.loads(out.read_text()))
    lacking = [text for text in PRINTED[path.stem] if text not in said]
    return f"got {said[:2000]!r}, want {lacking}" if lacking else ""


gaiden, folder = sys.argv[1], pathlib.Path(sys.argv[2])
failed = 0
for path in map(pathlib.Path, sys.argv[3:]):
    why = run(gaiden, folder, path)
    failed += why != ""
    print(f"{path.stem}: {why or 'ok'}", file=sys.stderr)
print(len(sys.argv) - 3 - failed, failed, 0)
