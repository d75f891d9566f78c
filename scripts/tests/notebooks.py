"""Runs notebooks with scripts/notebook.py and looks at what came out: every
cell ran, the HTML has the pictures and tables that the outputs have, and no
output needs JavaScript. Prints "passed failed skipped"."""
import argparse, re, subprocess, sys, time
from pathlib import Path

import nbformat

LIMIT = 180  # seconds that a notebook may take on two cores without a GPU


def check(path, out):
    began = time.time()
    done = subprocess.run([sys.executable, Path(__file__).parent.parent / "notebook.py", "--out", out, path], stdout=sys.stderr)
    took = time.time() - began
    problems = []
    if done.returncode:
        problems.append("did not run to its end")
    nb = nbformat.read(out / path.name, as_version=4)
    html = (out / (path.stem + ".html")).read_text(encoding="utf-8")
    pictures = tables = 0
    count = dict.fromkeys(("<svg", "<img", "<table"), 0)
    for cell in nb.cells:
        for o in cell.get("outputs", []):
            data = o.get("data", {})
            page = "".join(data.get("text/html", ""))
            if "application/javascript" in data or "<script" in page:
                problems.append("an output has JavaScript")
            if re.search(r"""\s(src|href)=["']?https?:""", page):
                problems.append("an output fetches something")
            pictures += page.count("<svg") + page.count("<img") + ("image/png" in data)
            tables += page.count("<table")
            for tag in count:  # nbconvert writes attributes anew, so the elements are counted
                count[tag] += page.count(tag)
    body = html[html.find("<body"):]
    for tag, n in count.items():
        if body.count(tag) < n:
            problems.append(f"{n} {tag}> in the outputs, {body.count(tag)} in the HTML")
    if pictures == 0:
        problems.append("no picture")
    if tables == 0:
        problems.append("no table")
    if took > LIMIT:
        problems.append(f"took {took:.0f} s, limit {LIMIT}")
    return problems


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("notebooks", nargs="+", type=Path)
    a = p.parse_args()
    bad = 0
    for nb in a.notebooks:
        problems = check(nb, a.out)
        for problem in problems:
            print(f"{nb.name}: {problem}", file=sys.stderr)
        bad += bool(problems)
    print(len(a.notebooks) - bad, bad, 0)


main()
