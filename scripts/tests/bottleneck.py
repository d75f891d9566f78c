"""Looks at what the magics that measure show: in notebook 02, which has run, the
sentence names the pooling's backward and its fill, and another culprit after the
remedy. More of them run in a kernel, as JupyterLab does it: every display has text
and HTML that needs no JavaScript and fetches nothing; mistakes are told as errors.
A sentence that names something else is not held against it where it says itself that
the machine was busy. Prints "passed failed skipped".

    python bottleneck.py NOTEBOOK-02-WITH-OUTPUTS
"""
import re, sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

# What is shown by magics of a clock: a cell, what its text has, and "error" for
# cells that must fail, "cpu" for those that do on a CPU.
MAGICS = [
    ("%timeit -n 3 -r 3 time.Sleep(time.Millisecond)", r"per loop \(mean ± std\. dev\. of 3 runs, 3 loops each\)\nmedian .*best", ""),
    ("%%timeit x := 1\nx++", r"per loop \(mean ± std", ""),
    ("%time time.Sleep(time.Millisecond)", r"CPU times: user .*\nWall time: ", ""),
    ("%%time\nfmt.Println(1)", r"Wall time: ", ""),
    ("%timeit -o -q -n 3 -r 2 time.Sleep(time.Millisecond)", r"of 2 runs, 3 loops each", ""),
    ("%%timeit\nx := 1\ny := missing(x)", r"undefined: missing", "error"),
    ("%%timeit -n 1 -r 100 i := 0\ni++\nif i > 37 { panic(\"boom\") }", r"of 36 runs, 1 loop each[\s\S]*stopped after 36 runs[\s\S]*boom \[in run 37\]", "error"),
    ("%timeit -n 0 f()", r"-n: got \"0\"", "error"),
    ("%timeit --repeat 3 f()", r"did you mean -r", "error"),
    ("%bottlenek mask", r"did you mean %bottleneck", "error"),
    ("%phases maks", r"did you mean mask", "error"),
    ("%phases -s -e -b 8 -t 0.02 mask train", r"sum of the phases[\s\S]*step of these programs[\s\S]*Bottleneck: ", ""),
    ("%roofline -t 0.02 -b 64 mask train", r"FLOPs a byte", ""),
    ("%sweep -phi relu -n 4", r"No call takes less than", ""),
    ("%sweep -phi rleu -n 4", r"want one of relu", "error"),
    ("%roofline", r"bfloat16", ""),
    ("%%profile\nfmt.Println(2)", r"no profiler|kernels", "cpu"),
    ("m := timing.Timer{Runs: 2, Loops: 1}.Time(\"two\", func() { fmt.Print(\"ran \") })", r"ran ran ran ", ""),
    ("fmt.Println(\"kept:\", m.Warnings)", r"^kept: \[.*2 samples cannot", ""),
    ("%%time\nkept := 42", r"Wall time: ", ""),
    ("fmt.Println(\"still\", kept)", r"^still 42$", ""),
    ("%cost", r"(direct|link|build)", ""),
]


def text(cell):
    out = []
    for o in cell.get("outputs", []):
        if o.output_type == "stream":
            out.append(o.text)
        elif o.output_type == "error":
            out.append(re.sub(r"\x1b\[[0-9;]*m", "", "\n".join([o.evalue] + o.traceback)))
        else:
            out.append(o.data.get("text/plain", ""))
    return "\n".join(out)


def displays(cell):
    """What is wrong with a cell's displays."""
    for o in cell.get("outputs", []):
        data = o.get("data", {})
        if not data:
            continue
        page = data.get("text/html", "")
        if not data.get("text/plain") or re.search(r"</?(div|table|svg|td)\b", data["text/plain"]):
            yield "a display without plain text"
        if not page and not data.get("image/png"):
            yield "a display without HTML or an image"
        if re.search(r"<script|<link|javascript:|\son\w+=|(src|href)=[\"']?https?:", page):
            yield "HTML that runs or fetches something"


def main():
    source = nbformat.read(Path(sys.argv[1]), as_version=4)
    nb = nbformat.v4.new_notebook(metadata=source.metadata)
    first = [c.source for c in source.cells if c.source.startswith(("func seed", "images :="))]
    hunts = [c for c in source.cells if c.source.startswith("%bottleneck")]
    for c in first + [m[0] for m in MAGICS]:
        nb.cells.append(nbformat.v4.new_code_cell(c))
    NotebookClient(nb, timeout=300, kernel_name="gaiden", allow_errors=True).execute()
    passed = failed = skipped = 0

    def check(cell, problems):
        nonlocal passed, failed
        problems = list(problems) + list(displays(cell))
        failed, passed = failed + bool(problems), passed + (not problems)
        for p in problems:
            print(f"{cell.source.splitlines()[0]}: {p}\n{text(cell)}", file=sys.stderr)

    for cell in nb.cells[: len(first)]:
        check(cell, ["it failed"] if any(o.output_type == "error" for o in cell.outputs) else [])
    filled = {" fill ": r"its fill \(", " search ": r"search and fill\)"}
    for cell in hunts:
        said = text(cell)
        sentence = re.search(r"^.*takes .* of a step.*$", said, re.M)
        if "not measurable here, the machine is busy" in said:
            skipped += 1
            print(f"skipped what {cell.source.splitlines()[0]} names: the machine was busy; run it again by scripts/test notebooks", file=sys.stderr)
            continue
        problems = [] if sentence else ["no sentence"]
        for net, op in filled.items():
            if sentence and net in cell.source and not re.search(r"backward takes .* layer pool takes .*" + op, sentence[0]):
                problems.append("want the pooling's backward and its fill")
        if sentence and " mask " in cell.source and "layer pool" in sentence[0]:
            problems.append("want another layer than the pooling")
        if problems and sentence and "it spread" in sentence[0]:
            skipped += 1
            print(f"skipped what {cell.source.splitlines()[0]} names: {sentence[0]}: needs a quiet machine; run it again by scripts/test notebooks", file=sys.stderr)
            continue
        check(cell, problems)
    check(source.cells[0], [f"no %bottleneck of{net}" for net in (*filled, " mask ") if not any(net in c.source for c in hunts)])
    for cell, (_, want, error) in zip(nb.cells[len(first) :], MAGICS):
        failing = any(o.output_type == "error" for o in cell.outputs)
        problems = [] if re.search(want, text(cell)) else [f"want {want!r}"]
        if error != "cpu" and failing != (error == "error"):
            problems.append("got an error" if failing else "want an error")
        check(cell, problems)
    # As a page: with all of it, and nothing that runs.
    nb.cells += hunts
    page, _ = HTMLExporter().from_notebook_node(nb)
    body = page[page.find("<body") :]
    shown = "".join("".join(o.get("data", {}).get("text/html", "")) for cell in nb.cells for o in cell.get("outputs", []))
    check(nb.cells[0], [f"{shown.count(tag)} {tag}> in the outputs, {body.count(tag)} in nbconvert's page" for tag in ("<table", "<svg") if body.count(tag) < shown.count(tag)])
    print(passed, failed, skipped)


main()
