"""Runs notebooks, each from a clean kernel, and looks at what came out: every cell
ran, the page has the pictures and tables that the outputs have, no output needs
JavaScript, there is a cell that says what it runs on, and at the end the table
beside the article; 09 says where kernels run, and has the losses to show for it.
Those of --twice run a second time, and all numbers that no clock has a part in are
the same both times. The first notebook runs through Jupyter's client, all others
through gaiden run. Most of a notebook is work for one core, so two run at a time,
each with a session of its own; but those of --alone come first and have the
machine, as they keep what they measure. Prints "passed failed skipped"."""
import argparse, os, re, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path

import nbformat

LIMIT = 300  # seconds that a notebook may take on two cores without a GPU

# What says that a clock has a part in an output, and what no clock has a part in
# where it stands beside times: single numbers, and columns of tables.
TIME = re.compile(r"\d ?(?:ns|µs|us|ms|s|min|h)\b|\dm\d+s")
FOUND = re.compile(r"(?:loss|accuracy|error|accuracy rate):? +(?:is )?[\d.]+(?:e-?\d+)?(?![\d.]| ?(?:ns|µs|us|ms|s)\b|[mh]\d)|by at most [\d.e-]+")
COLUMNS = re.compile(r"loss|accuracy|FLOPs|bytes|text$|parameters|^epoch$|^calls$|^batch$|^places$")


class Columns(HTMLParser):
    """The cells of a page's tables that stand in such columns."""

    def __init__(self):
        super().__init__()
        self.head, self.row, self.into, self.found = [], [], None, []

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.head = []
        elif tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            self.into = ""

    def handle_data(self, data):
        if self.into is not None:
            self.into += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.row.append(self.into or "")
            self.into = None
        elif tag == "tr" and not self.head:
            self.head = self.row
        elif tag == "tr":
            name = self.row[0].split(":")[0]  # "rest: less in a step than alone"
            self.found += [f"{name}, {h}: {v}" for h, v in zip(self.head, self.row) if COLUMNS.search(h) and not TIME.search(v)]


def outputs(nb):
    return [o for cell in nb.cells for o in cell.get("outputs", [])]


def text(output):
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", ""))


def found(nb):
    """What must be the same whenever the notebook runs: all that a cell shows, if
    there is no time in it and it is no magic, else the numbers and columns above."""
    for n, cell in enumerate(nb.cells):
        said = "".join(text(o) if o.output_type == "stream" else f"\n{text(o)}\n" for o in cell.get("outputs", []))
        if not cell.source.startswith("%") and not TIME.search(said):
            yield from (f"cell {n}: {line}" for line in said.splitlines() if line.strip())
            continue
        for output in cell.get("outputs", []):
            yield from (f"cell {n}: {m[0]}" for m in FOUND.finditer(text(output)))
            for row in re.split(r"^epoch +main/loss.*\n", text(output), flags=re.M)[1:]:  # Chainer's columns, but for the last, which is a time
                yield from (f"cell {n}: epoch {' '.join(line.split()[:-1])}" for line in row.splitlines() if line.strip())
            columns = Columns()
            columns.feed("".join(output.get("data", {}).get("text/html", "")))
            yield from (f"cell {n}: {c}" for c in columns.found)


def twice(path, first, second):
    """What is not the same in two runs of a notebook."""
    one, two = (list(found(nbformat.read(d / path.name, as_version=4))) for d in (first, second))
    print(f"{path.name}: twice {len(one)} numbers and lines", file=sys.stderr)
    if not one:
        return ["has shown nothing that could be compared"]
    return [f"the first time {a!r}, the second {b!r}" for a, b in zip(one, two) if a != b][:3] + ([] if len(one) == len(two) else [f"{len(one)} numbers and lines the first time, {len(two)} the second"])


def kernels(nb):
    """What is wrong in notebook 09: it says where kernels run, which %info knows, and
    where all models use the plain form, those with a kernel have the others' losses."""
    said = "\n".join(text(o) for o in outputs(nb))
    plain = re.search(r"^GPU: none found|^plugin +.*cpu[^/\n]*$", said, re.M)
    where = "in the emulator; models use the plain form" if plain else "on the GPU"
    if f"kernels run here: {where}\n" not in said:
        yield f"does not say that kernels run {where}"
    losses = dict(re.findall(r"^(own|plain|mlp|xla) +loss (\d[\d.]*)", said, re.M))
    for pair in ("own", "plain"), ("mlp", "xla"):
        one, other = map(losses.get, pair)
        if not one or not other or plain and one != other:
            yield f"losses of {' and '.join(pair)}: got {one} and {other}, want {'two that are the same' if plain else 'both'}"


def run(path, out, gaiden, jupyter):
    command = [sys.executable, Path(__file__).parent.parent / "notebook.py", "--out", out, path] if jupyter else [gaiden, "run", "-html", "-o", f"{out}/", path]
    ran = subprocess.run(command, env=lane(threading.current_thread().name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print(ran.stdout, end="", file=sys.stderr, flush=True)  # at once, as others print, too
    return ran.returncode == 0


def lane(name):
    """An environment with directories of its own, and so with a session."""
    env = dict(os.environ)
    for folder in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        env[folder] += "/" + name
        Path(env[folder]).mkdir(mode=0o700, parents=True, exist_ok=True)
    return env


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
    if not any(c.source.startswith("%info") for c in nb.cells):
        problems.append("no cell %info")
    if number == "09":  # which is about the text of kernels
        problems += kernels(nb)
    elif not count["<svg"] + count["<img"]:
        problems.append("no picture")
    if number < "09" and not count["<table"]:
        problems.append("no table")
    last = [c for c in nb.cells if c.cell_type == "code"][-1]
    if "01" <= number <= "08" and "the article" not in str(last.get("outputs")):
        problems.append('no table "the article / here" at the end')
    if "01" <= number <= "08":
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
    p.add_argument("--alone", nargs="*", default=[])
    p.add_argument("--twice", nargs="*", default=[])
    p.add_argument("notebooks", nargs="+", type=Path)
    a = p.parse_args()
    again = a.out / "again"
    if unknown := {*a.alone, *a.twice} - {n.stem for n in a.notebooks}:
        sys.exit(f"notebooks: --alone or --twice names {', '.join(sorted(unknown))}: no such notebook")
    alone = [n for n in a.notebooks if n.stem in a.alone]
    backwards = sorted(a.notebooks, reverse=True)  # the first are the shortest: they fill the end
    others = [n for n in backwards if n not in alone]

    def first(path):
        return check(path, a.out, a.gaiden, path == a.notebooks[0])

    def second(path):
        return [] if run(path, again, a.gaiden, False) else ["did not run to its end the second time"]

    problems = {}
    for at_once, work in (1, [(first, n) for n in alone]), (2, [(first, n) for n in others] + [(second, n) for n in backwards if n.stem in a.twice]):
        with ThreadPoolExecutor(at_once, thread_name_prefix="lane") as lanes:
            for (which, n), wrong in zip(work, lanes.map(lambda w: w[0](w[1]), work)):
                problems[which, n] = wrong
        for n in range(at_once):
            subprocess.run([a.gaiden, "session", "stop"], env=lane(f"lane_{n}"), stdout=sys.stderr)
    for which, n in problems:
        if which is second and not problems[which, n]:
            problems[which, n] = twice(n, a.out, again)
        for problem in problems[which, n]:
            print(f"{n.name}: {problem}", file=sys.stderr)
    bad = sum(map(bool, problems.values()))
    print(len(problems) - bad, bad, 0)


main()
