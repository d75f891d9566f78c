"""Turns notebooks into pages that can be sent around: one HTML file each, which
needs no network and no JavaScript, has a table of contents, says when and on
what it ran, folds its code, prints, and follows the reader's light or dark
theme. A notebook that stopped half way gives a page too: it begins with the
error, and the cells behind it are marked.

    python page.py [--out DIR] NOTEBOOK...

or, from Python: page.page(nb, "01-gaiden") returns the text.

Outputs keep what a page may hold and lose the rest: scripts, handlers, frames
and whatever would be fetched.
"""
import argparse, html, os, re, sys
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import nbformat
from nbconvert.filters import Highlight2HTML, ansi2html, markdown2html
from pygments.formatters import HtmlFormatter

VOID = {"area", "br", "col", "hr", "img", "input", "wbr", "source", "track", "embed", "base", "link", "meta", "param"}
DROPPED = {"script", "style", "iframe", "object", "applet", "template", "noscript", "frame", "frameset", "audio", "video", "textarea", "title"}
REFUSED = {"embed", "base", "link", "meta", "html", "head", "body", "form", "source", "track", "param", "portal"}
SVG = {"svg", "g", "path", "rect", "circle", "line", "polyline", "polygon", "text", "tspan", "title", "desc", "defs", "use"}
FETCHING = {"src", "srcset", "href", "xlink:href", "poster", "background", "action", "formaction", "data", "ping", "manifest", "cite"}
CLOSED_BY = {"li": {"ul", "ol"}, "td": {"tr", "tbody", "thead", "table"}, "th": {"tr", "tbody", "thead", "table"}, "tr": {"tbody", "thead", "table"}, "p": set()}


class Cleaner(HTMLParser):
    """Rewrites HTML: only what is allowed, every element closed."""

    def __init__(self, alt=""):
        super().__init__(convert_charrefs=False)
        self.out, self.open, self.skip, self.alt = [], [], [], alt

    def allowed(self, tag, name, value):
        if name.startswith("on") or name in ("nonce", "srcdoc") or not re.fullmatch(r"[a-z][a-z0-9:._-]*", name):
            return False
        if name in FETCHING:
            v = re.sub(r"[\x00-\x20]", "", value or "").lower()
            if v.startswith("#") or tag in ("img", "image") and re.match(r"data:image/(png|jpeg|gif|webp|svg\+xml)[;,]", v):
                return True
            return tag == "a" and re.match(r"(https?:|mailto:)", v) is not None
        if name == "style" or "url(" in (value or "").lower().replace(" ", ""):
            # An escape could hide a url, and both can only be meant to.
            return not re.search(r"url\s*\(\s*(?!['\"]?#)|@import|expression|\\", value or "", re.I)
        return True

    def drops(self, tag):
        # Inside a picture, title is its name.
        return tag in DROPPED and not (tag == "title" and "svg" in self.open)

    def start(self, tag, attrs):
        if self.skip:
            if tag == self.skip[-1]:
                self.skip.append(tag)
            return
        if self.drops(tag):
            self.skip.append(tag)
            return
        if tag in REFUSED or not re.fullmatch(r"[a-z][a-z0-9-]*", tag):
            return
        kept, seen = [], set()
        for name, value in attrs:
            if name not in seen and self.allowed(tag, name, value):
                kept.append(f' {name}="{html.escape(value, quote=True)}"' if value is not None else f" {name}")
                seen.add(name)
        if tag == "img" and "src" not in seen:
            self.out.append('<span class="note">[a picture that would have to be fetched is left out]</span>')
            return
        if tag == "img" and "alt" not in seen:
            kept.append(f' alt="{html.escape(self.alt, quote=True)}"')
        self.out.append(f"<{tag}{''.join(kept)}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_starttag(self, tag, attrs):
        self.start(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        depth = len(self.skip)
        self.start(tag, attrs)
        if len(self.skip) > depth:
            self.skip.pop()
        elif not self.skip and tag not in VOID and self.open and self.open[-1] == tag:
            self.end(tag)

    def handle_endtag(self, tag):
        if self.skip:
            if tag == self.skip[-1]:
                self.skip.pop()
            return
        if tag in self.open:
            while self.open[-1] != tag:
                self.end(self.open[-1])
            self.end(tag)

    def end(self, tag):
        self.open.pop()
        self.out.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.skip:
            self.out.append(html.escape(data, quote=False))

    def handle_entityref(self, name):
        if not self.skip:
            # Only what HTML knows is a reference.
            self.out.append(f"&{name};" if name + ";" in html.entities.html5 else f"&amp;{name}")

    def handle_charref(self, name):
        if not self.skip:
            self.out.append(html.escape(html.unescape(f"&#{name};"), quote=False))

    def text(self):
        self.close()
        for tag in reversed(self.open):
            self.out.append(f"</{tag}>")
        return "".join(self.out)


def clean(markup, alt=""):
    c = Cleaner(alt)
    c.feed(markup)
    return c.text()


def lines(text):
    """Text as a terminal leaves it: a carriage return begins the line again."""
    done = []
    for line in text.replace("\r\n", "\n").split("\n"):
        parts = [p for p in line.split("\r") if p]
        done.append(parts[-1] if parts else "")
    return "\n".join(done)


def terminal(text):
    # ansi2html escapes; control characters that HTML does not allow go first.
    return ansi2html(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]", "", lines(text)))


def joined(v):
    return "".join(v) if isinstance(v, list) else str(v)


def output(o, number):
    """One output of a cell as HTML."""
    kind = o.get("output_type")
    if kind == "stream":
        name = " stderr" if o.get("name") == "stderr" else ""
        return f'<pre class="output{name}">{terminal(joined(o.get("text", "")))}</pre>'
    if kind == "error":
        text = "\n".join(o.get("traceback") or [f"{o.get('ename', 'error')}: {o.get('evalue', '')}"])
        return f'<pre class="output error">{terminal(text)}</pre>'
    data = o.get("data", {})
    alt = f"picture, output of cell {number}"
    if "text/html" in data:
        return f'<div class="output">{clean(joined(data["text/html"]), alt)}</div>'
    if "image/svg+xml" in data:
        return f'<div class="output">{clean(re.sub(r"(?s)<[?!].*?>", "", joined(data["image/svg+xml"])), alt)}</div>'
    for mime in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        if mime in data:
            picture = re.sub(r"\s", "", joined(data[mime]))
            if re.fullmatch(r"[A-Za-z0-9+/=]*", picture):
                return f'<div class="output"><img alt="{alt}" src="data:{mime};base64,{picture}"></div>'
    if "text/markdown" in data:
        return f'<div class="output">{clean(markdown2html(joined(data["text/markdown"])), alt)}</div>'
    if "text/plain" in data:
        return f'<pre class="output">{terminal(joined(data["text/plain"]))}</pre>'
    if data:
        return f'<p class="note">An output of {html.escape(", ".join(data))} is left out: a page without JavaScript cannot show it.</p>'
    return ""


def markdown(source, contents, attachments):
    """A text cell as HTML; its headings get names and go to the contents."""
    for name, forms in attachments.items():
        for mime, data in forms.items():
            source = source.replace(f"attachment:{name}", f"data:{mime};base64,{joined(data)}")
    body = re.sub(r'<a class="anchor-link"[^>]*>.*?</a>', "", markdown2html(source))
    body = clean(body, "picture")

    def heading(m):
        level, inner = int(m[1]), m[3]
        title = html.unescape(re.sub(r"<[^>]*>", "", inner)).strip()
        slug = re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "part"
        taken = {c[1] for c in contents}
        name, n = slug, 2
        while name in taken:
            name, n = f"{slug}-{n}", n + 1
        contents.append((level, name, title))
        return f'<h{level} id="{html.escape(name)}">{inner}</h{level}>'

    return re.sub(r"(?s)<h([1-4])([^>]*)>(.*?)</h\1>", heading, body)


def when(cell):
    """When a cell began and ended, if the notebook says so."""
    t = cell.get("metadata", {}).get("execution", {})
    try:
        return [datetime.fromisoformat(t[k].replace("Z", "+00:00")) for k in ("iopub.execute_input", "shell.execute_reply")]
    except (KeyError, ValueError, AttributeError):
        return None


def span(seconds):
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def facts(nb, cells):
    """What the top of the page says of the run."""
    kernel = nb.metadata.get("kernelspec", {})
    ran = [when(c) for c in cells]
    ran = [r for r in ran if r]
    rows = []
    if ran:
        rows.append(("run", f"{min(r[0] for r in ran):%Y-%m-%d %H:%M} UTC, {span(sum((r[1] - r[0]).total_seconds() for r in ran))} in cells"))
    else:
        rows.append(("run", "the notebook does not say when"))
    version = nb.metadata.get("language_info", {}).get("version", "")
    rows.append(("kernel", " ".join(x for x in (kernel.get("display_name", "unknown"), version) if x)))
    seeds = sorted({m for c in cells for m in re.findall(r"\bSeed:\s*(\d+)", c.source)}, key=int)
    if seeds:
        rows.append(("seed", ", ".join(seeds)))
    done = sum(1 for c in cells if c.get("execution_count"))
    rows.append(("cells", f"{done} of {len(cells)} have run"))
    return "".join(f"<dt>{html.escape(a)}</dt><dd>{html.escape(b)}</dd>" for a, b in rows)


def styles():
    css = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    own = "\n.highlight, .highlight pre { background: var(--code) !important }\n"
    return f"{css}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n@media print, (prefers-color-scheme: light) {{\n{light}\n}}{own}"


def page(nb, name):
    """The page of a notebook."""
    cells = [c for c in nb.cells if c.cell_type == "code" and c.source.strip()]
    language = nb.metadata.get("language_info", {}).get("name", "go")
    colour = Highlight2HTML(pygments_lexer={"go": "go"}.get(language, language))
    contents, body, failed, number = [], [], None, 0
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            body.append(f"<section>{markdown(cell.source, contents, cell.get('attachments', {}))}</section>")
            continue
        if cell.cell_type != "code":
            body.append(f"<pre>{html.escape(cell.source)}</pre>")
            continue
        if not cell.source.strip():
            continue
        number += 1
        note = f"cell {number}"
        if r := when(cell):
            note += f" · {span((r[1] - r[0]).total_seconds())}"
        elif not cell.get("execution_count"):
            note += " · not run"
        code = re.sub(r'(?s)^.*?<pre>(<span></span>)?(.*)</pre>.*$', r"\2", colour(cell.source))
        body.append(f'<section id="cell-{number}"><details class="code" open><summary>{note}</summary><div class="highlight"><pre>{code}</pre></div></details>')
        for o in cell.get("outputs", []):
            if o.get("output_type") == "error" and not failed:
                failed = (number, joined(o.get("ename", "")), re.sub(r"\x1b\[[0-9;]*m", "", joined(o.get("evalue", ""))).split("\n")[0])
            body.append(output(o, number))
        body.append("</section>")
    title = next((t for level, _, t in contents if level == 1), name)
    stopped = ""
    if failed:
        where, what, why = failed
        stopped = (f'<p class="stopped"><b>This run stopped at <a href="#cell-{where}">cell {where}</a>:</b> '
                   f"{html.escape(what)}: {html.escape(why[:300])}. What is below it has not run, or is of an earlier run.</p>")
    toc = "".join(f'<li class="h{level}"><a href="#{html.escape(slug)}">{html.escape(text)}</a></li>' for level, slug, text in contents)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Gaiden">
<title>{html.escape(title)}</title>
<style>
{styles()}
</style>
</head>
<body>
<nav aria-label="Contents"><details open><summary>Contents</summary><ol>{toc or "<li>no headings</li>"}</ol>
<label><input type="checkbox" id="fold"> hide all code</label></details></nav>
<main>
<header><dl><dt>notebook</dt><dd>{html.escape(name)}</dd>{facts(nb, cells)}</dl>{stopped}</header>
{chr(10).join(body)}
</main>
</body>
</html>
"""


def write(path, text):
    """Writes a file that is never seen half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + f".{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8", errors="replace")
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, help="folder for the pages; default: beside each notebook")
    p.add_argument("notebooks", nargs="+", type=Path)
    a = p.parse_args()
    ok = True
    for path in a.notebooks:
        target = (a.out or path.parent) / (path.stem + ".html")
        try:
            write(target, page(nbformat.read(path, as_version=4), path.stem))
            print(target)
        except OSError as e:
            print(f"{path}: {e.strerror}: {e.filename}", file=sys.stderr)
            ok = False
        except Exception as e:  # nbformat's errors have no common class
            print(f"{path}: no notebook that can be read: {e}", file=sys.stderr)
            ok = False
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
