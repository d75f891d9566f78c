"""Runs what the documents show. The Go of a page becomes a notebook, a cell a
snippet, which must run from top to bottom, and where a line that prints has a
comment, print that; shell lines must be bash, and the scripts and the words of
gaiden in them must be there, as the magics that are named; links inside the
repository must lead to files that are in it, and #parts to headings. The
page of recorded figures names each file of results, and each figure is in the file
that its row names. Pages that users read, and the text
cells of notebooks, keep to the standard terms: terms.txt lists the words that
they avoid, and codespell finds common misspellings there and in the comments of Go.
Prints "passed failed skipped"."""
import argparse, json, re, subprocess, sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
EVIDENCE = root / "kernels/bench/EVIDENCE.md"
good = bad = 0


def case(name, problems):
    global good, bad
    for p in problems:
        print(f"docs: {name}: {p}", file=sys.stderr)
    good, bad = good + (not problems), bad + bool(problems)


def slug(title):
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).strip().lower()).replace(" ", "-")


def headings(text):
    return {slug(m) for m in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.M)}


def texts():
    """All that is read: pages, and the text cells of notebooks."""
    for path in sorted([root / "README.md", *root.glob(".github/*.md"), *root.glob("docker/*.md"), *root.glob("notebooks/pages/*.md"), EVIDENCE]):
        yield path, path.read_text(encoding="utf-8")
    for path in sorted(root.glob("notebooks/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        yield path, "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def links(path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"(https?|mailto|attachment|data):", target):
            continue
        file, _, part = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or root not in to.parents:
            yield f"a link leads to {target}, which is not there"
        elif part and to.suffix == ".md" and part not in headings(to.read_text(encoding="utf-8")):
            yield f"a link leads to {target}: the page has no such heading"


def mentioned(path, text):
    """Files of the repository that a text names in code."""
    for name in re.findall(r"`((?:scripts|notebooks|lib|kernels|docker)/[\w./-]+)", text):
        name = name.rstrip("./")
        if not (root / name).exists() and not list(root.glob(name + "*")):
            yield f"{name} is named, and not there"


# The columns of a table of nets, and how the records call them.
WAYS = {"Gaiden": r"gaiden epoch", "XLA's kernels": r"gaiden epoch, XLA's kernels", "bf16": r"gaiden epoch, bf16", "JAX scan": r"JAX \S+ scan", "JAX jit step": r"JAX \S+ jit step",
        "PyTorch CUDA graph": r"PyTorch \S+ CUDA graph", "CUDA graph of a compiled step": r"PyTorch \S+ CUDA graph of a compiled step", "torch.compile": r"PyTorch \S+ compile", "PyTorch eager": r"PyTorch \S+ eager"}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def numbers(value):
    """All numbers of a JSON value or a text, and how many members its lists have."""
    if isinstance(value, dict):
        for v in value.values():
            yield from numbers(v)
    elif isinstance(value, list):
        yield len(value)
        for v in value:
            yield from numbers(v)
    elif isinstance(value, str):
        yield from (float(n.replace(",", "")) for n in NUMBER.findall(value))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def rounded(figure, value):
    """Whether a figure such as 28,090 or 0.583 is a number, rounded."""
    digits = figure.replace(",", "")
    place = 10 ** -len(digits.partition(".")[2]) if "." in digits else min(10 ** (len(digits) - len(digits.rstrip("0"))), 10 ** max(0, len(digits) - 3))
    return abs(float(digits) - value) <= 0.5001 * place


def recorded(text):
    """The page's tables: each file of results is named, and each figure is in its row's
    file, or in the one named above the table, if there is no star behind it."""
    results = EVIDENCE.parent / "results"
    files = {f.name: f for f in results.iterdir()}
    if len(files) > 40 or sum(f.stat().st_size for f in files.values()) > 2e6:
        yield f"{len(files)} files of results: want 40 and 2 MB at most; what no claim rests on is in the history"
    named, above, head = set(), None, []
    for line in text.splitlines():
        names = re.findall(r"`([\w./-]+\.(?:json|txt))`", line)
        named.update(names)
        if not line.startswith("|"):
            above, head = names or (above if not line else None), []
            continue
        cells = [c.strip() for c in line.strip("|").split("|")]
        if not head or set(line) <= set("|- "):
            head = head or cells
            continue
        row = dict(zip(head, cells))
        if "figure" not in row and "case" not in row:
            continue
        for name in names or above or [""]:
            file = files.get(name, root / name)
            if not file.is_file():
                yield f"{line[:60]}: {name or 'no file'} is named, and not there"
                continue
            content = file.read_text(encoding="utf-8")
            content = json.loads(content) if name.endswith(".json") else content
            if "figure" in row:
                held = set(numbers(content))
                yield from (f"{row['claim'][:60]}: {f} is not in {name}" for f in NUMBER.findall(row["figure"]) if not any(rounded(f, v) for v in held))
                continue
            for column, way in WAYS.items():
                medians = [r["median"] for r in content if r["case"] == row["case"].strip("`") and re.fullmatch(way, r["subject"])]
                if column in row and not row[column].endswith("*") and not (any(rounded(row[column], m) for m in medians) if medians else row[column] == "–"):
                    yield f"{row['case']}, {column}: got {row[column]}, {name} has {medians}"
    yield from (f"{name} is not named on the page" for name in sorted(files.keys() - named))


def banned():
    """The patterns of terms.txt, with what to write instead."""
    for line in (Path(__file__).parent / "terms.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, _, instead = line.partition(" = ")
            yield re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I), instead


def terms(path, text):
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", FENCE.sub("", text))
    for pattern, instead in banned():
        for m in pattern.finditer(prose):
            yield f"{m[0]!r} in {prose[max(0, m.start() - 30):m.end() + 30]!r}: write {instead}"


# Abbreviations and names that are no misspellings.
SPELLED = "ans,te,whos,toom"


def spelling(work):
    """What codespell finds in the texts, and in the comments of Go that is no test."""
    for path, text in texts():
        (work / (str(path.relative_to(root)).replace("/", "~"))).write_text(text, encoding="utf-8")
    for path in [*root.glob("lib/**/*.go"), *root.glob("kernels/**/*.go")]:
        if not path.name.endswith("_test.go"):
            lines = (re.search(r"(?:^|\s)//.*", l) for l in path.read_text(encoding="utf-8").splitlines())
            (work / (str(path.relative_to(root)).replace("/", "~"))).write_text("\n".join(l[0] if l else "" for l in lines), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "codespell_lib", "--ignore-words-list", SPELLED, "--ignore-regex", r"\b\w*[a-z][A-Z]\w*\b|`[^`]*`", "."], cwd=work, capture_output=True, text=True)
    return (done.stdout.replace("~", "/") + done.stderr).splitlines()


def magics(text, known):
    for name in re.findall(r"`(%%?[a-z_]\w+)", FENCE.sub("", text)):
        if name not in known:
            yield f"{name} is named, and no magic"


def says(snippet):
    """What the snippet's comments say that it prints."""
    return re.findall(r"^fmt\.Print.*\) // (\S.*)$", snippet, re.M)


def printed(book):
    """What the cells of a notebook have written."""
    return ["".join("".join(o.get("text", [])) for o in c["outputs"]) for c in json.loads(book.read_text(encoding="utf-8"))["cells"]]


def shell(snippet, words):
    snippet = re.sub(r"^%%bash\n", "", snippet)
    done = subprocess.run(["bash", "-n"], input=snippet, capture_output=True, text=True)
    yield from done.stderr.splitlines()
    for script in re.findall(r"(?:^|[\s/])(scripts/\w+|docker/[\w.]+)", snippet, re.M):
        if not (root / script).exists():
            yield f"{script} is not there"
    for word in re.findall(r"(?:^|[\s/])gaiden (\w+)", snippet, re.M):
        if word not in words:
            yield f"gaiden has no word {word}"


def unread(snippet):
    try:
        json.loads(snippet)
    except ValueError as e:
        yield str(e)


def versions(version):
    """Where a page says which version this is, it is the program's."""
    for file, pattern in ("README.md", r"Version ([\d.]+\d)"), ("notebooks/pages/faq.md", r"version ([\d.]+\d)"), ("notebooks/pages/changelog.md", r"\A.*?^## ([\d.]+\d)"), (".github/CITATION.cff", r"^version: (\S+)"):
        for got in re.findall(pattern, (root / file).read_text(encoding="utf-8"), re.M | re.S) or ["none"]:
            if got != version:
                yield f"{file}: got version {got}, want {version}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gaiden", required=True)
    p.add_argument("--work", type=Path, required=True)
    a = p.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    usage = subprocess.run([a.gaiden, "help"], capture_output=True, text=True).stdout
    words = set(re.findall(r"^  (\w+) ", usage, re.M))
    known = set(re.findall(r"^\| `(%%?\w+)", (root / "notebooks/pages/magics.md").read_text(encoding="utf-8"), re.M))
    (a.work / "spelling").mkdir(exist_ok=True)
    case("spelling", spelling(a.work / "spelling"))
    case("versions", list(versions(subprocess.run([a.gaiden, "version"], capture_output=True, text=True).stdout.split()[-1])))
    for path, text in texts():
        name = str(path.relative_to(root))
        case(f"{name}: links", [*links(path, text), *mentioned(path, text), *magics(text, known)])
        case(f"{name}: terms", list(terms(path, text)))
        if path == EVIDENCE:
            case(f"{name}: recorded files", list(recorded(text)))
        if path.suffix != ".md":
            continue
        snippets = FENCE.findall(text)
        case(f"{name}: snippets", [f"a snippet has no language, or one that nobody checks: {l or 'none'}" for l, _ in snippets if l not in ("go", "sh", "json", "text")])
        for i, (language, snippet) in enumerate(snippets):
            if language == "sh":
                case(f"{name}: shell snippet {i + 1}", list(shell(snippet, words)))
            if language == "json":
                case(f"{name}: JSON snippet {i + 1}", list(unread(snippet)))
        cells = [s for l, s in snippets if l == "go"]
        if not cells:
            continue
        book = a.work / (re.sub(r"\W+", "-", name) + ".ipynb")
        book.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "gaiden", "display_name": "Go (Gaiden)", "language": "go"}},
                                    "cells": [{"cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": None, "outputs": [], "source": s.rstrip("\n")} for i, s in enumerate(cells)]}))
        done = subprocess.run([a.gaiden, "run", "-timeout", "2m", book], capture_output=True, text=True)
        case(f"{name}: Go", [done.stderr[-1500:]] if done.returncode else
             [f"got {got!r}, want {want!r} in it" for got, snippet in zip(printed(book), cells) for want in says(snippet) if want not in got])
    print(good, bad, 0)


main()
