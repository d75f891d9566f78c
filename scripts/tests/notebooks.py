"""Runs notebooks and looks at what came out: every cell ran, the page has the
pictures and tables that the outputs have, no output needs JavaScript, there is a
cell that says what it runs on, and at the end the table beside the article. The
first notebook runs through Jupyter's client, the others through gaiden run;
those of --twice run again, and must come to the same losses. Most of a notebook
is work for one core, so two run at a time, each with a session of its own; but
those of --alone come first and have the machine, as they keep what they measure.
Prints "passed failed skipped"."""
import argparse, os, re, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
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
    p.add_argument("--twice", nargs="*", default=[])
    p.add_argument("--alone", nargs="*", default=[])
    p.add_argument("notebooks", nargs="+", type=Path)
    a = p.parse_args()

    def work(path):
        cases = [check(path, a.out, a.gaiden, path == a.notebooks[0])]
        if path.stem in a.twice:
            again = a.out / "again"
            ran = run(path, again, a.gaiden, False)
            first, second = (losses(nbformat.read(d / path.name, as_version=4)) for d in (a.out, again))
            cases.append([] if ran and first and first == second else [f"the first time {first}, the second {second}"])
        for problems in cases:
            for problem in problems:
                print(f"{path.name}: {problem}", file=sys.stderr)
        return cases

    results, alone = [], [n for n in a.notebooks if n.stem in a.alone]
    for at_once, some in (1, alone), (2, [n for n in a.notebooks if n not in alone]):
        with ThreadPoolExecutor(at_once, thread_name_prefix="lane") as lanes:
            results += lanes.map(work, some)
        for n in range(at_once):
            subprocess.run([a.gaiden, "session", "stop"], env=lane(f"lane_{n}"), stdout=sys.stderr)
    cases = [problems for l in results for problems in l]
    bad = sum(map(bool, cases))
    print(len(cases) - bad, bad, 0)


main()
