"""Makes the documentation site of the repository's pages, with MkDocs: pages keep their
paths, so that links lead where they do in the repository; notebooks become HTML pages,
packages their Go documentation. Writes llms.txt, a list of all pages for language models,
llms-full.txt, the whole manual as one text, and next to each page its Markdown.

    python site.py --gaiden PROGRAM --work DIR --out DIR
"""
import argparse, json, os, re, shutil, subprocess, sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
P = "notebooks/pages/"
PACKAGES = "fit fit/step data data/arrow data/parquet datasets models losses metrics optim search session report profile timing".split()
NAV = [
    ("Gaiden", "README.md"),
    ("Quick start", P + "quick-start.md"),
    ("Concepts", P + "concepts.md"),
    ("Guides", [("How to…", P + "howto.md"), ("Training", P + "training.md"), ("Your own data", P + "own-data.md"), ("Your own model", P + "models.md"), ("Measuring", P + "measuring.md"), ("Export and serve", P + "export.md"),
                ("The session", P + "session.md"), ("Notebooks", "notebooks/index.md"), ("Coding agents", P + "agents.md"), ("Containers, clusters, Colab", "docker/README.md")]),
    ("Coming from…", P + "from.md"),
    ("Reference", [("Magics", P + "magics.md"), ("Settings and files", P + "settings.md"), *((f"Package {p}", f"{P}packages/{p.replace('/', '-')}.md") for p in PACKAGES)]),
    ("Troubleshooting", P + "trouble.md"),
    ("Questions", P + "faq.md"),
    ("Project", [("Contributing", P + "contributing.md"), ("Architecture", P + "architecture.md"), ("Changelog", P + "changelog.md"),
                 ("Roadmap", P + "roadmap.md"), ("Security", P + "security.md"), ("Evidence", "kernels/bench/EVIDENCE.md")]),
]


def pages(nav=NAV):
    for _, page in nav:
        if isinstance(page, str):
            yield page
        else:
            yield from pages(page)


def first(text):
    """The title of a page, and its first sentence."""
    title = re.search(r"^# (.*)$", text, re.M)
    prose = next((p for p in re.split(r"\n\s*\n", text) if re.match(r"[A-Za-z*`]", p)), "")
    return title[1] if title else "", re.split(r"(?<=[.!?])\s", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose.replace("\n", " ")))[0].strip("*")


def stage(docs, gaiden):
    for path in subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "README.md", "LICENSE", "notebooks/pages", "docker", "kernels/bench/EVIDENCE.md", "kernels/bench/results", "kernels/gaiden/logo.svg"],
                               cwd=root, check=True, capture_output=True, text=True).stdout.split():
        if (root / path).is_file() and not path.endswith(".go"):
            (docs / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, docs / path)
    (docs / P / "security.md").write_text((root / ".github/SECURITY.md").read_text())
    for p in PACKAGES:
        text = subprocess.run(["go", "doc", "-all", f"./lib/{p}"], cwd=root, check=True, capture_output=True, text=True).stdout
        to = docs / P / "packages" / (p.replace("/", "-") + ".md")
        to.parent.mkdir(exist_ok=True)
        says = re.search(r"^Package \w+ (.*?[.:])\s", text, re.M | re.S)[1].replace("\n", " ").rstrip(":.")
        to.write_text(f"# Package {p}\n\nPackage {p} {says}. Import path: `gaiden/lib/{p}`; in a cell, packages are imported by their names.\n\n```text\n{text}\n```\n")
    books = sorted(root.glob("notebooks/*.ipynb"))
    subprocess.run([gaiden, "run", "-q", "-html", "-as-is", "-o", f"{docs}/notebooks/", *books], check=True, stdout=subprocess.DEVNULL)
    lines = ["# Notebooks", "", "Each page shows a notebook as it ran.", ""]
    for book in books:
        title, sentence = first("\n\n".join("".join(c["source"]) for c in json.loads(book.read_text())["cells"] if c["cell_type"] == "markdown"))
        lines.append(f"- [{title or book.stem}]({book.stem}.html): {sentence}")
    (docs / "notebooks/index.md").write_text("\n".join(lines) + "\n")
    for page in docs.rglob("*.md"):
        text = page.read_text()
        text = re.sub(r"\]\(([^)\s]+)\.ipynb\)", r"](\1.html)", text)
        text = re.sub(r"\]\((?:\.\./)*\.github/SECURITY\.md\)", f"]({os.path.relpath(docs / P / 'security.md', page.parent)})", text)
        page.write_text(text)
    llms = ["# Gaiden", "", "> " + first((docs / "README.md").read_text())[1], ""]
    for page in pages():
        title, sentence = first((docs / page).read_text())
        llms.append(f"- [{title}]({page}): {sentence}")
    llms.append("- [The whole manual](llms-full.txt): all guides as one text")
    (docs / "llms.txt").write_text("\n".join(llms) + "\n")
    (docs / "llms-full.txt").write_text(subprocess.run([gaiden, "mcp", "-manual"], check=True, capture_output=True, text=True).stdout)


def main():
    p = argparse.ArgumentParser()
    for name in "gaiden", "work", "out":
        p.add_argument("--" + name, required=True)
    a = p.parse_args()
    docs = Path(a.work) / "docs"
    docs.mkdir(parents=True)
    stage(docs, a.gaiden)
    missing = {str(f.relative_to(docs)) for f in docs.rglob("*.md")} - set(pages())
    if missing:
        sys.exit(f"site: pages that the navigation in scripts/package/site.py lacks: {', '.join(sorted(missing))}")

    def nav(entries):
        return [{title: page if isinstance(page, str) else nav(page)} for title, page in entries]

    config = {
        "site_name": "Gaiden", "site_description": "A Jupyter kernel and library for deep learning in Go", "docs_dir": str(docs), "site_dir": a.out, "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "logo": "kernels/gaiden/logo.svg", "favicon": "kernels/gaiden/logo.svg",
                  "features": ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"],
                  "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default", "toggle": {"icon": "material/weather-night", "name": "Dark"}},
                              {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "toggle": {"icon": "material/weather-sunny", "name": "Light"}}]},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "pymdownx.superfences", "pymdownx.highlight", {"toc": {"permalink": True, "toc_depth": 3}}],
        "validation": {"nav": {"omitted_files": "warn", "not_found": "warn"}, "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"}},
        "nav": nav(NAV),
    }
    file = Path(a.work) / "mkdocs.yml"
    file.write_text(json.dumps(config, indent=1))  # which is YAML, too
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", file], check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    for page in pages():
        shutil.copyfile(docs / page, Path(a.out) / page)


main()
