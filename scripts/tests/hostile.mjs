// Hostile notebooks in a real browser: gaiden run -html makes pages of some
// hundred payloads, each as a text cell, as an output and in other places that a
// notebook's author writes. No script runs, no request leaves, nothing covers
// the page. The page's own Content-Security-Policy is switched off here, so what
// is tested is what the page holds. A page that nobody has cleaned comes first:
// each of these checks must find it.
// Prints "passed failed skipped".
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(import.meta.url)(process.env.PLAYWRIGHT);
const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
fs.mkdirSync(args.work, { recursive: true });

const run = "hit(1)"; // what a script would do
const away = "https://hostile.invalid/x"; // what a request would fetch
const dataScript = `data:text/html,<script>${run}</script>`;
const svgScript = `<svg xmlns="http://www.w3.org/2000/svg" onload="${run}"><script>${run}</script></svg>`;
const each = (list, write) => list.flatMap((x) => write(x));

const handlers = ["onload", "onerror", "onfocus", "onblur", "onclick", "onmouseover", "onpointerrawupdate", "onanimationstart", "ontransitionend", "ontoggle",
  "onbegin", "onscroll", "onwheel", "onbeforetoggle", "oncontentvisibilityautostatechange", "onpageshow", "onhashchange", "onauxclick", "oncopy", "onsecuritypolicyviolation"];
const addresses = ["javascript:", "JaVaScRiPt:", " javascript:", "java\tscript:", "java\nscript:", "\x01javascript:", "javascript&colon;", "java&Tab;script:", "java&NewLine;script:",
  "&#106;avascript:", "&#x6A;avascript:", "&#0000106avascript:", "javascript:%0a", "javascript://x%0a", "vbscript:", "livescript:", "view-source:javascript:", "feed:javascript:"].map((a) => a + run)
  .concat([dataScript, "data:text/html;base64,PHNjcmlwdD5oaXQoMSk8L3NjcmlwdD4=", "data:image/svg+xml," + encodeURIComponent(svgScript), "data:application/xhtml+xml,x", "blob:x", "file:///etc/passwd",
    "filesystem:x", "//hostile.invalid/x", "\\\\hostile.invalid\\x", "/\\hostile.invalid", "intent:x", "about:blank"]);
const fetchers = ["img src", "img srcset", "img lowsrc", "img dynsrc", "image href", "input type=image src", "video src", "video poster", "audio src", "source srcset", "track src", "embed src", "iframe src",
  "frame src", "object data", "applet code", "link rel=stylesheet href", "link rel=prefetch href", "link rel=preconnect href", "link rel=dns-prefetch href", "link rel=icon href", "link rel=import href", "base href",
  "body background", "table background", "td background", "script src", "style src", "bgsound src", "a ping", "q cite", "html manifest", "portal src", "fencedframe src", "blockquote cite", "del cite",
  "svg><image href", "svg><image xlink:href", "svg><use href", "svg><use xlink:href", "svg><feImage href", "svg><script href", "svg><linearGradient href", "svg><pattern xlink:href", "svg><textPath href", "svg><mpath href",
  "svg><cursor href", "svg><a href", "math><mtext href", "math href", "picture><source srcset"];
const covers = ["position:fixed;inset:0;opacity:0", "position:absolute;top:0;left:0;width:9999px;height:9999px", "POSITION:FIXED;inset:0", "position:fixed!important;inset:0", "pos\\69tion:fixed;inset:0", "position/**/:fixed;inset:0",
  "position:sticky;top:0;height:100vh", "margin:-9999px;padding:9999px", "margin-top:-500px;height:1000px", "transform:scale(1000)", "scale:1000", "zoom:1000", "translate:0 -500px", "font-size:5000px;line-height:0", "font:5000px/0 serif",
  "box-shadow:0 0 0 9999px red", "outline:9999px solid red", "text-shadow:0 0 9px red,0 -400px red", "filter:drop-shadow(0 -400px red)", "z-index:9999;position:relative;top:-500px;height:1000px", "float:left;height:5000px;width:5000px;margin-right:-5000px",
  "display:block;position:fixed;inset:0", "--x:1;position:var(--y,fixed);inset:0", "all:unset;position:fixed;inset:0", "border-image:linear-gradient(red,red) 0/0/9999px", "-webkit-transform:scale(99)", "view-transition-name:x;position:fixed",
  "inset:0;\nposition\n:\nfixed", "color:red;};a{position:fixed", "width:calc(1px*9999);margin-left:calc(0px - 9999px)", "clip-path:none;transform:matrix(99,0,0,99,0,0)", "animation:x 1s;position:fixed;inset:0", "offset-path:path('M0 0');position:fixed",
  "position:fixed;inset:0;background:red", "vertical-align:-500px;line-height:1000px", "vertical-align:500px;font-size:99px", "text-indent:-999px;letter-spacing:999px", "line-height:0;padding:0;margin:0", "columns:2;position:fixed;inset:0", "perspective:1px;transform:translateZ(0.99px)"];
const requests = ["background:url(U)", "background:URL(U)", "background:u\\72l(U)", "background:url('U')", "background:url( \"U\" )", "background-image:image-set('U' 1x)", "background:-webkit-image-set(url(U) 1x)", "list-style:url(U)", "list-style-image:url(U)",
  "content:url(U)", "cursor:url(U),auto", "border-image:url(U)", "mask:url(U)", "-webkit-mask-image:url(U)", "filter:url(U#x)", "clip-path:url(U#x)", "shape-outside:url(U);float:left", "fill:url(U#x)", "marker-start:url(U#x)", "src:url(U)",
  "background:image('U')", "background:cross-fade(url(U),red)", "behavior:url(U)", "-moz-binding:url(U#x)", "width:expression(hit(1))", "background:url(javascript:hit(1))", "@import 'U'", "background:paint(x);background:url(U)", "--u:url(U);background:var(--u)", "background:/**/url(U)", "background:url(\\68ttps://hostile.invalid/x)"];
const names = ["fold", "cell-1", "body", "head", "forms", "cookie", "location", "getElementById", "querySelector", "createElement", "documentElement", "defaultView", "__proto__", "constructor", "hit", "top", "parent", "nodeName", "attributes", "t0-x", "o1-0-x"];

// What is not of one table: elements that need another, and markup that parsers
// read in more than one way.
const single = [
  `<script>${run}</script>`, `<SCRIPT>${run}</SCRIPT >`, `<script\x0c>${run}</script>`, `<script/x>${run}</script>`, `<scr<script>ipt>${run}</scr</script>ipt>`, `<<script>${run}//<</script>`, `<script src=data:,${run}></script>`, `<script type=module>${run}</script>`,
  `</section></main><script>${run}</script>`, `</div></section></main></body></html><script>${run}</script>`, `--><script>${run}</script>`, `<!--><script>${run}</script>-->`, `<!--<img src="--><img src=x onerror=${run}>">`, `<!-- --!><img src=x onerror=${run}>`,
  `]]><script>${run}</script>`, `<![CDATA[<script>${run}</script>]]>`, `<?xml version="1.0"?><script>${run}</script>`, `<!DOCTYPE x [<!ENTITY y "<script>${run}</script>">]>&y;`, `<%<script>${run}</script>%>`, `<plaintext><script>${run}</script>`, `<xmp><script>${run}</script></xmp>`,
  `<title><img src=x onerror=${run}></title>`, `<textarea><img src=x onerror=${run}></textarea>`, `<noscript><p title="</noscript><img src=x onerror=${run}>"></noscript>`, `<noembed><img src=x onerror=${run}></noembed>`, `<noframes><img src=x onerror=${run}></noframes>`,
  `<iframe srcdoc="<script>parent.hit(1)</script>"></iframe>`, `<iframe src="javascript:parent.hit(1)"></iframe>`, `<object data="javascript:${run}"></object>`, `<embed src="javascript:${run}">`, `<embed type=text/html src="${dataScript}">`, `<object type=text/html data="${dataScript}"></object>`,
  `<form action="${away}"><button>x</button></form>`, `<form id=f></form><button form=f formaction="javascript:${run}">x</button>`, `<input autofocus onfocus=${run}>`, `<select autofocus onfocus=${run}><option>x</select>`, `<textarea autofocus onfocus=${run}></textarea>`, `<keygen autofocus onfocus=${run}>`,
  `<meta http-equiv=refresh content="0;url=${away}">`, `<meta http-equiv=refresh content="0;url=javascript:${run}">`, `<meta http-equiv=Set-Cookie content=a=b>`, `<meta charset=utf-7>+ADw-script+AD4-hit(1)+ADw-/script+AD4-`, `<base href="${away}"><img src=y>`, `<base target=_blank>`, `<link rel=stylesheet href="data:text/css,main{display:none}">`,
  `<style>*{display:none}</style>`, `<style>@import "${away}";</style>`, `<style>main{background:url(${away})}</style>`, `<style><img src=x onerror=${run}></style>`, `<style></style><script>${run}</script>`, `<style/><img src=x onerror=${run}>`, `<svg><style><img src=x onerror=${run}></style></svg>`,
  `<svg><style>main{display:none}</style></svg>`, `<svg><script>${run}</script></svg>`, `<svg><script>a<b>${run}</b></script></svg>`, `<svg><script xlink:href="data:,${run}"/></svg>`, `<svg onload=${run}>`, `<svg><g onload=${run}></g></svg>`, `<svg><animate onbegin=${run} attributeName=x dur=1s></svg>`, `<svg><set onbegin=${run} attributeName=x></svg>`,
  `<svg><a><animate attributeName=href values="javascript:${run}"/><text y=20>x</text></a></svg>`, `<svg><a xlink:href="javascript:${run}"><text y=20>x</text></a></svg>`, `<svg><use href="data:image/svg+xml,${encodeURIComponent(svgScript)}#x"/></svg>`, `<svg><image href="data:image/svg+xml,${encodeURIComponent(svgScript)}"/></svg>`,
  `<svg><foreignObject><img src=x onerror=${run}></foreignObject></svg>`, `<svg><foreignObject><iframe src="javascript:parent.hit(1)"></iframe></foreignObject></svg>`, `<svg><foreignObject width=9999 height=9999><div style="position:fixed;inset:0">x</div></foreignObject></svg>`, `<svg><desc><img src=x onerror=${run}></desc></svg>`,
  `<svg><title><img src=x onerror=${run}></title></svg>`, `<svg><title><style><img src=x onerror=${run}></style></title></svg>`, `<svg><desc><table><img src=x onerror=${run}></table></desc></svg>`, `<svg></p><style><a id="</style><img src=1 onerror=${run}>">`, `<svg><p><style><a title="</style><img src onerror=${run}>"></p></svg>`,
  `<svg><style><!--</style><img src=x onerror=${run}>--></style></svg>`, `<svg><![CDATA[><img src=x onerror=${run}>]]></svg>`, `<svg style="overflow:visible;position:fixed;inset:0" overflow=visible width=10 height=10><rect x=-5000 y=-5000 width=9999 height=9999 /></svg>`, `<svg overflow=visible width=10 height=10><rect x=-5000 y=-5000 width=9999 height=9999 /></svg>`,
  `<svg width=10 height=10 style="overflow:visible"><text font-size=5000 y=10>x</text></svg>`, `<svg><filter id=f><feImage href="${away}"/></filter><rect filter="url(#f)" width=9 height=9 /></svg>`, `<svg><handler type=text/ecmascript>${run}</handler></svg>`, `<svg><discard onbegin=${run} begin=0s></svg>`, `<svg><animateMotion onend=${run} dur=.1s></svg>`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${run}&gt;">`, `<form><math><mtext></form><form><mglyph><style></math><img src onerror=${run}>`, `<math><mtext><img src=x onerror=${run}></mtext></math>`, `<math><annotation-xml encoding="text/html"><img src=x onerror=${run}></annotation-xml></math>`,
  `<math><maction actiontype=statusline xlink:href="javascript:${run}">x</maction></math>`, `<math href="javascript:${run}">x</math>`, `<math><mi//xlink:href="data:x,<script>${run}</script>">`, `<math><mtext><option><FAKEFAKE><option></option><mglyph><svg><mtext><style><a title="</style><img src='#' onerror='${run}'>">`,
  `<template><script>${run}</script></template>`, `<template><img src=x onerror=${run}></template>`, `<template shadowrootmode=open><script>${run}</script></template>`, `<div><template shadowrootmode=open><style>:host{position:fixed;inset:0}</style></template></div>`, `<x-y onclick=${run}>x</x-y>`, `<x-y is=z style="position:fixed;inset:0">x</x-y>`,
  `<dialog open style="position:fixed;inset:0">x</dialog>`, `<dialog open>x</dialog>`, `<div popover=auto style="display:block;inset:0">x</div>`, `<marquee onstart=${run}>x</marquee>`, `<details open ontoggle=${run}>x</details>`, `<video autoplay onloadstart=${run}><source></video>`, `<audio src onloadstart=${run}></audio>`, `<body onload=${run}>`, `<html onmouseover=${run}>`,
  `<frameset onload=${run}><frame src=x></frameset>`, `<isindex action=javascript:${run}>`, `<a href="#" target=_blank onclick=${run}>x</a>`, `<a href="${away}" ping="${away}" download>x</a>`, `<area href="javascript:${run}">`, `<map name=m><area shape=rect coords=0,0,9,9 href="javascript:${run}"></map><img usemap=#m src=data:image/png;base64,aGk=>`,
  `<img src="x\` onerror=${run}">`, `<img src='x' x="'" onerror=${run}>`, `<img src=x/onerror=${run}>`, `<img/src=x/onerror=${run}>`, `<img\x0bsrc=x onerror=${run}>`, `<img src=x onerror\n=\n${run}>`, `<img src=x ONERROR=${run}>`, `<img src=x oneonerrorrror=${run}>`, `<img src=x &#111;nerror=${run}>`, `<img src="x" "onerror=${run}>`, `<img """><script>${run}</script>">`,
  `<img src=data:image/svg+xml,${encodeURIComponent(svgScript)}>`, `<img src="data:image/svg+xml;base64,${Buffer.from(svgScript).toString("base64")}">`, `<img src="data:text/html,<script>${run}</script>">`, `<img src=data:image/png,x srcset="${away} 1x">`, `<img src=data:image/png;base64,aGk= loading=lazy crossorigin onerror=${run}>`,
  `<p title="</p><script>${run}</script>">x</p>`, `<p class="stopped" id=cell-1>x</p>`, `<table><td><script>${run}</script></table>`, `<table><tr><svg><style></table><img src=x onerror=${run}>`, `<table><a><table><a><script>${run}</script>`, `<select><svg><style></select><img src=x onerror=${run}>`, `<b><p><i></b></p><img src=x onerror=${run}>`, `${"<div>".repeat(600)}<img src=x onerror=${run}>`,
  `${"<b>".repeat(40)}<p>${"<i>".repeat(40)}<img src=x onerror=${run}>`, `<a><svg><a><img src=x onerror=${run}>`, `<h1><svg><h1><style></h1><img src=x onerror=${run}>`, `<li><a href=x><li><a onclick=${run}>`, `<ruby><rt><script>${run}</script>`, `<button onclick=${run} style="position:fixed;inset:0">x</button>`, `<nav style="display:block">x</nav>`, `<label for=fold>x</label>`, `<input type=checkbox id=fold checked>`,
  `\uFEFF<script>${run}</script>`, `<\u0000script>${run}</script>`, `<scr\u0000ipt>${run}</script>`, `<ſcript>${run}</ſcript>`, `<ımg src=x onerror=${run}>`, `\u202e<script>${run}</script>`, `<img src=x onerror=${run}`, `<img src=x onerror="${run}`, `<a href='javascript:${run}`, `<svg><path d="M0 0" fill="url(${away}#x)"/></svg>`,
];
// In text cells and text/markdown.
const marked = [`[x](${"javascript:" + run})`, `[x](<java\tscript:${run}>)`, `[x](javascript&colon;${run})`, `[x][r]\n\n[r]: javascript:${run}`, `![x](javascript:${run})`, `![x](${away})`, `![x](x "onerror=${run}")`, `![x"onerror=${run}//](x)`, `<javascript:${run}>`, `[a]: ${away} "x"\n\n![p][a]`,
  `\`\`\`<script>${run}</script>\n<script>${run}</script>\n\`\`\``, `\`\`\`go"><script>${run}</script>\nx\n\`\`\``, `$<script>${run}</script>$`, `$$\n<img src=x onerror=${run}>\n$$`, `\\begin{a}<script>${run}</script>\\end{a}`, `<span title="$x">$<img src=x onerror=${run}>"</span>`, `[$"onclick=${run}$](#x)`, `[x](https://e.org/$"onmouseover=${run}$)`,
  `| a |\n|---|\n| <script>${run}</script> |`, `# <img src=x onerror=${run}>`, `# "><script>${run}</script>`, `# x {onclick=${run}}`, `- [x] <script>${run}</script>`, `https://e.org/"onmouseover=${run}`, `www.e.org"><script>${run}</script>`, `<a href="$x$" onclick=${run}>$`, `<p title="\`">\`<img src=x onerror=${run}>`];

const payloads = [
  ...each(handlers, (h) => [`<img src=x ${h}=${run}>`, `<svg ${h}="${run}"><rect ${h}=${run} width=9 height=9 /></svg>`, `<b tabindex=0 ${h}='${run}' style="animation:x">x</b>`]),
  ...each(addresses, (a) => [`<a href="${a}">x</a>`, `<img src="${a}">`, `<svg><a xlink:href="${a}"><text y=9>x</text></a></svg>`]),
  ...each(fetchers, (f) => [`<${f}="${away}">`, `<${f}=//hostile.invalid/y>`]),
  ...each(covers, (c) => [`<a href="https://e.org/" style="${c}">cover</a>`, `<svg style="${c}" width=20 height=20><rect style="${c}" width=20 height=20 /></svg>`]),
  ...each(requests.map((r) => r.replaceAll("U", away)), (r) => [`<p style="${r.replaceAll('"', "'")}">x</p>`, `<svg><path style='${r.replaceAll("'", '"')}' d="M0 0h9"/></svg>`]),
  ...each(names, (n) => [`<a id="${n}" name="${n}">x</a><img name="${n}" id="${n}">`]),
  ...single,
];

// notebook writes a notebook file; among its cells stand cells of ours, whose
// places must stay theirs.
function notebook(name, cells, metadata = {}) {
  const probe = (i) => ({ cell_type: "code", id: `p${i}`, metadata: {}, execution_count: 1, outputs: [], source: `probe${i} := ${i}` });
  const all = cells.flatMap((c, i) => [{ id: `c${i}`, metadata: {}, ...c }, ...(i % 6 ? [] : [probe(i)])]);
  fs.writeFileSync(path.join(args.work, `${name}.ipynb`), JSON.stringify({ nbformat: 4, nbformat_minor: 5, cells: all, metadata }));
  execFileSync(args.gaiden, ["run", "-html", "-as-is", "-q", "-o", `${args.work}/`, path.join(args.work, `${name}.ipynb`)], { stdio: ["ignore", "ignore", "inherit"] });
  return path.join(args.work, `${name}.html`);
}
const text = (source, attachments) => ({ cell_type: "markdown", source, ...(attachments && { attachments }) });
const output = (...outputs) => ({ cell_type: "code", source: "x", execution_count: 1, outputs });
const displays = (mime, list) => list.flatMap((_, i) => (i % 6 ? [] : [output(...list.slice(i, i + 6).map((data) => ({ output_type: "display_data", metadata: {}, data: { [mime]: data } })))]));

const pages = {
  "text cells": notebook("text", [...payloads, ...marked].map((p) => text(p))),
  "outputs of HTML": notebook("html", displays("text/html", payloads)),
  "outputs of SVG": notebook("svg", displays("image/svg+xml", payloads.map((p) => `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">${p}</svg>`))),
  "outputs of Markdown": notebook("markdown", displays("text/markdown", [...marked, ...payloads])),
  "names and types": notebook("names", [...single, ...marked].flatMap((p) => [
    text(`![a](<attachment:${p.replaceAll(/[<>\n]/g, "")}>) <img src='attachment:${p.replaceAll("'", "")}'>`, { [p.replaceAll(/[<>\n]/g, "")]: { [p]: p }, [p.replaceAll("'", "")]: { "image/svg+xml": p } }),
    output({ output_type: "stream", name: p, text: p }, { output_type: "error", ename: p, evalue: p, traceback: [`\x1b[31m${p}\x1b[${p}m`] }, { output_type: "display_data", metadata: {}, data: { [p]: p, "image/png": p } }),
    { cell_type: "raw", source: p }, { cell_type: "code", source: `%${p}\n// ${p}\n"${p}"`, execution_count: 1, outputs: [], metadata: { execution: { "iopub.execute_input": p, "shell.execute_reply": p } } },
  ]), { kernelspec: { display_name: single[0] }, language_info: { version: single[0] }, gaiden: { version: `"><script>${run}</script>` } }),
};
// A page that is as it came: the checks below must find each of these.
const control = path.join(args.work, "control.html");
fs.writeFileSync(control, `<!DOCTYPE html><main><details class="code" open><summary>cell 1</summary><pre>x</pre></details><script>${run}</script><img src="${away}"><a name=x href="javascript:1" style="position:fixed;inset:0;opacity:0">c</a></main>`);

const context = await chromium.launchPersistentContext(path.join(args.work, "profile"), {
  executablePath: args.chromium, headless: true, bypassCSP: true, viewport: { width: 1400, height: 4000 },
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND"],
});

// problems loads a page and returns what is wrong with it.
async function problems(file) {
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const address = pathToFileURL(file).href;
  const found = [];
  await page.exposeFunction("hit", () => void found.push("a script ran"));
  page.on("dialog", (d) => (found.push("a script ran: a dialog"), d.dismiss()));
  page.on("request", (r) => r.url() === address || r.url().startsWith("data:image/") || found.push(`a request left: ${r.url().slice(0, 100)}`));
  page.on("framenavigated", (f) => f.url() === address || found.push(`the page went to ${f.url().slice(0, 100)}`));
  page.on("popup", (p) => found.push(`a window opened: ${p.url().slice(0, 100)}`));
  await page.goto(address, { waitUntil: "load" });
  found.push(...(await page.evaluate(() => {
    const bad = [];
    const ours = new Set([document.querySelector("main > nav input#fold"), document.querySelector("main > nav label"), document.querySelector("main > nav"), document.querySelector("body > script"), ...document.querySelectorAll("details.code > summary > button"), ...document.querySelectorAll("head, head *, html, body")]);
    const seen = new Set("script style iframe frame object embed applet form input button select textarea label link meta base template dialog video audio source track canvas map area math foreignObject animate set nav".split(" ").map((n) => n.toUpperCase()));
    const ids = new Set();
    for (const e of document.querySelectorAll("*")) {
      if (ours.has(e)) continue;
      const what = e.outerHTML.slice(0, 120);
      if (seen.has(e.localName.toUpperCase())) bad.push(`an element: ${what}`);
      for (const a of e.attributes) {
        if (/^on|^(name|form|ping|srcdoc|srcset|formaction|popover|autofocus|contenteditable|target|is|slot|tabindex|usemap)$/i.test(a.name)) bad.push(`an attribute: ${a.name} of ${what}`);
        const url = ["href", "src", "action", "data", "background", "poster", "cite"].includes(a.localName);
        if (url && !(/^#/.test(a.value) || (e.localName === "a" && (/^(https?|mailto):/.test(e.href) || (e.href.startsWith("file:///") && /^[^\s\\:/?#]+([/?#][^\s\\]*)?$/.test(a.value)))) || (/^(img|image)$/.test(e.localName) && /^data:image\//.test(a.value)))) bad.push(`an address: ${what}`);
        if (/url\(\s*['"]?[^#'"\s]/i.test(a.value) && !["title", "alt", "aria-label", "id", "href"].includes(a.name)) bad.push(`a url: ${what}`);
        if (a.name === "id" && (ids.has(a.value) || a.value === "fold")) bad.push(`an id that is taken: ${a.value}`);
        if (a.name === "id") ids.add(a.value);
      }
      const s = getComputedStyle(e);
      if (s.position !== "static" || (s.transform !== "none" && !(e instanceof SVGElement)) || s.boxShadow !== "none" || s.zIndex !== "auto") bad.push(`a style: ${what}`);
      if (s.backgroundImage.includes("url(") || s.cursor.includes("url(") || s.listStyleImage !== "none") bad.push(`a style that fetches: ${what}`);
    }
    const places = document.querySelectorAll("details.code > summary, details.code > pre, main > header dl");
    const waiting = new Set(places);
    for (const first of places) {
      if (!waiting.has(first)) continue;
      first.scrollIntoView({ block: "start" });
      for (const p of waiting) {
        const r = p.getBoundingClientRect();
        if (p !== first && (r.top < 0 || r.bottom > innerHeight)) break;
        waiting.delete(p);
        for (const [x, y] of [[r.left + 4, r.top + r.height / 2], [r.left + r.width / 2, r.top + r.height / 2], [r.right - 4, r.top + 2]]) {
          const at = document.elementFromPoint(x, y);
          if (!p.contains(at) && at !== p) bad.push(`covered: ${p.outerHTML.slice(0, 60)} by ${at?.outerHTML.slice(0, 200)}`);
        }
      }
    }
    if (!places.length) bad.push("nothing of ours is on the page");
    if (document.forms.length || document.anchors.length) bad.push("there are forms or named anchors");
    return bad;
  })));
  await page.waitForTimeout(300); // for what would run later: a refresh, an animation
  await page.close();
  return found;
}

let passed = 0, failed = 0;
const wanted = ["a script ran", "a request left", "an attribute", "an address", "a style", "covered"];
const missed = await problems(control).then((found) => wanted.filter((w) => !found.some((f) => f.startsWith(w))));
missed.length ? (failed++, console.error(`hostile: the page that nobody has cleaned: the check does not find: ${missed}`)) : passed++;
for (const [name, file] of Object.entries(pages)) {
  const found = await problems(file);
  for (const f of [...new Set(found)].slice(0, 20)) console.error(`hostile: ${name}: ${f}`);
  found.length ? failed++ : passed++;
}
await context.close();
console.error(`hostile: ${payloads.length} payloads in HTML and ${marked.length} in Markdown, in ${Object.keys(pages).length} pages`);
console.log(passed, failed, 0);
process.exit(failed ? 1 : 0);
