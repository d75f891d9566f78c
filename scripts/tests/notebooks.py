"""Runs notebooks and looks at what came out: every cell ran, the page has the
pictures and tables that the outputs have, no output needs JavaScript, there is a
cell that says what it runs on, and at the end the table beside the article. The
first notebook runs through Jupyter's client, the others through gaiden run;
those of --twice run again, and must come to the same losses.
Prints "passed failed skipped"."""
import argparse, re, subprocess, sys, time
from pathlib import Path

import nbformat

LIMIT = 300  # seconds that a notebook may take on two cores without a GPU


def outputs(nb):
    return [o for cell in nb.cells for o in cell.get("outputs", [])]


def losses(nb):
    """The losses and accuracies that the outputs give, without the times beside them."""
    text = "\n".join("".join(o.get("text", "") or o.get("data", {}).get("text/plain", "")) for o in outputs(nb))
    return re.findall(r"(?:loss|accuracy|error|accuracy rate):? +(?:is )?([\d.]+(?:e-?\d+)?)", text)


def run(path, out, gaiden, jupyter):
    command = [sys.executable, Path(__file__).parent.parent / "notebook.py", "--out", out, path] if jupyter else [gaiden, "run", "-html", "-o", f"{out}/", path]
    return subprocess.run(command, stdout=sys.stderr).returncode == 0


def check(path, out, gaiden, jupyter):
    began = time.time()
    problems = [] if run(path, out, gaiden, jupyter) else ["did not run to its end"]
    took = time.time() - began
    nb = nbformat.read(out / path.name, as_version=4)
    html = (out / (path.stem + ".html")).read_text(encoding="utf-8")
    count = dict.fromkeys(("<svg", "<img", "<table"), 0)
    for o in outputs(nb):
        data = o.get("data", {})
        page = "".join(data.get("text/html", ""))
        if "application/javascript" in data or "<script" in page:
            problems.append("an output has JavaScript")
        if re.search(r"""\s(src|href)=["']?https?:""", page):
            problems.append("an output fetches something")
        for tag in count:
            count[tag] += page.count(tag) + (tag == "<img" and "image/png" in data)
    body = html[html.find("<body"):]
    for tag, n in count.items():
        if body.count(tag) < n:
            problems.append(f"{n} {tag}> in the outputs, {body.count(tag)} in the page")
    number = path.stem[:2]
    if number <= "08":  # 09 is about the text of kernels
        if not count["<svg"] + count["<img"]:
            problems.append("no picture")
        if not count["<table"]:
            problems.append("no table")
        if not any(c.source.startswith("%info") for c in nb.cells):
            problems.append("no cell %info")
    last = [c for c in nb.cells if c.cell_type == "code"][-1]
    if "01" <= number <= "08" and "the article" not in str(last.get("outputs")):
        problems.append('no table "the article / here" at the end')
    if number in ("02", "04", "08"):  # which have one figure of the article's beside one of ours
        page = "".join("".join(o.get("data", {}).get("text/html", "")) for o in last.get("outputs", []))
        if "times as fast" not in page or not re.search(r">[~≥≤ ]*[\d.e+]+×<", page):
            problems.append("the table at the end does not say how many times as fast")
    if took > LIMIT:
        problems.append(f"took {took:.0f} s, limit {LIMIT}")
    return problems


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gaiden", required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--twice", nargs="*", default=[])
    p.add_argument("notebooks", nargs="+", type=Path)
    a = p.parse_args()
    good = bad = 0
    for i, path in enumerate(a.notebooks):
        cases = [check(path, a.out, a.gaiden, i == 0)]
        if path.stem in a.twice:
            again = a.out / "again"
            ran = run(path, again, a.gaiden, False)
            first, second = (losses(nbformat.read(d / path.name, as_version=4)) for d in (a.out, again))
            cases.append([] if ran and first and first == second else [f"the first time {first}, the second {second}"])
        for problems in cases:
            for problem in problems:
                print(f"{path.name}: {problem}", file=sys.stderr)
            good, bad = good + (not problems), bad + bool(problems)
    print(good, bad, 0)


main()
