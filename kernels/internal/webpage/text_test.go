package webpage

import (
	"strings"
	"testing"
)

// textCell returns what a page has of one text cell.
func textCell(t *testing.T, source string, attachments map[string]any) string {
	t.Helper()
	cell := map[string]any{"cell_type": "markdown", "source": source}
	if attachments != nil {
		cell["attachments"] = attachments
	}
	page, err := Page(file(t, cell), "name")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ = strings.Cut(page, `<section class="text">`)
	if head, rest, titled := strings.Cut(page, "</section>\n<header>"); titled { // what the page is called stands above its facts
		_, rest, _ = strings.Cut(rest, "</nav>\n<section class=\"text\">")
		page = head + rest
	}
	page, _, _ = strings.Cut(page, "</section>")
	return strings.TrimSuffix(page, "\n")
}

// TestFormulas: a formula stands on the page as it was written.
func TestFormulas(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"stars", "M1 $a*b*c$ end", "<p>M1 $a*b*c$ end</p>"},
		{"braces", `M2 $\{x\}$ end`, `<p>M2 $\{x\}$ end</p>`},
		{"line break of a matrix", `$$\begin{pmatrix}1\\2\end{pmatrix}$$ end`, `<p>$$\begin{pmatrix}1\\2\end{pmatrix}$$ end</p>`},
		{"emphasis outside", "$x_1 and y_2$ _z_ end", "<p>$x_1 and y_2$ <em>z</em> end</p>"},
		{"block", "M5\n\n$$\n\\begin{align}\na &= b \\\\\n  &= c\n\\end{align}\n$$\n\nend", "<p>M5</p>\n<p>$$\n\\begin{align}\na &amp;= b \\\\\n  &amp;= c\n\\end{align}\n$$</p>\n<p>end</p>"},
		{"escapes", `$a\_b$ $\%$ $\#$ $\$$ $[x](y)$ end`, `<p>$a\_b$ $\%$ $\#$ $\$$ $[x](y)$ end</p>`},
		{"backticks", "$`q`$ and $``$", "<p>$`q`$ and $``$</p>"},
		{"a tag", "$<b>$ and $a<b>c$ end", "<p>$&lt;b&gt;$ and $a&lt;b&gt;c$ end</p>"},
		{"list, heading and rule", "$$\n- x\n+ y\n# z\n---\n> w\n1. v\n$$", "<p>$$\n- x\n+ y\n# z\n---\n&gt; w\n1. v\n$$</p>"},
		{"bar in a table", "| x |\n|---|\n| $a|b$ |", `<td>$a|b$</td>`},
		{"in a heading", "## The $a_b*c*$", `<h2 id="The-$a_b*c*$">The $a_b*c*$</h2>`},
		{"in bold", "**so $x_1*2*$**", "<p><strong>so $x_1*2*$</strong></p>"},
		{"environment", "\\begin{align*}\na_1 &= b*c*d \\\\\n\\end{align*}", "<p>\\begin{align*}\na_1 &amp;= b*c*d \\\\\n\\end{align*}</p>"},
		{"parentheses", `\\(a*b*c\\) and \\[d_e_f\\]`, `<p>\\(a*b*c\\) and \\[d_e_f\\]</p>`},
		{"dollar in braces", `$\text{costs $5$}*x*$ end`, `<p>$\text{costs $5$}*x*$ end</p>`},
		{"dollars in code are none", "`$a*b` *c* `d$`", "<p><code>$a*b</code> <em>c</em> <code>d$</code></p>"},
		{"dollars in a block of code are none", "```sh\necho $HOME\n```\n*a* $b*c*d$", "<pre><code>echo $HOME\n</code></pre>\n<p><em>a</em> $b*c*d$</p>"},
		{"a dollar in an indented block", "    a $x\n\n*y* $", "<pre><code>a $x\n</code></pre>\n<p><em>y</em> $</p>"},
		{"escaped dollars are none", `\$5 *and* \$6`, "<p>$5 <em>and</em> $6</p>"},
		{"one dollar", "costs $5 *only*", "<p>costs $5 <em>only</em></p>"},
		{"not over an empty line", "$a *b*\n\n*c* d$", "<p>$a <em>b</em></p>\n<p><em>c</em> d$</p>"},
		{"the same twice", "$a_1$ $b_1$ $a_1$", "<p>$a_1$ $b_1$ $a_1$</p>"},
		{"in an address", "[a](https://example.org/$x) *b* $", `<p><a href="https://example.org/$x">a</a> <em>b</em> $</p>`},
		{"in an attribute", `<span title="$a*b">x</span> *c* $`, `<p><span title="$a*b">x</span> <em>c</em> $</p>`},
		{"text of an image", "![$a_1*b*$](data:image/png;base64,aGk=)", `<p><img src="data:image/png;base64,aGk=" alt="$a_1*b*$"/></p>`},
		{"quotes and ampersands", `$a'b"c&d&amp;e$`, `<p>$a&#39;b&#34;c&amp;d&amp;amp;e$</p>`},
		{"a mark of ours", "\uFDD00\uFDD1 $x$", "<p>0 $x$</p>"},
	}
	for _, tt := range tests {
		if got := textCell(t, tt.text, nil); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"paragraphs", "one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>"},
		{"emphasis", "*a* **b** ***c*** _d_ snake_case_name ~~f~~ a * b", "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <em>d</em> snake_case_name <del>f</del> a * b</p>"},
		{"code", "`a<b` ``x`y``", "<p><code>a&lt;b</code> <code>x`y</code></p>"},
		{"fence", "```\na *b* <c>\n```\nafter", "<pre><code>a *b* &lt;c&gt;\n</code></pre>\n<p>after</p>"},
		{"Go", "```go\nvar x int\n```", `<pre><code><span class="k">var</span> x <span class="b">int</span>`},
		{"table", "| a | b |\n|:-:|--:|\n| `x\\|y` | 1 |", `<td style="text-align: center"><code>x|y</code></td>`},
		{"nested list", "- a\n- b\n  more\n  1. c\n  2. d\n- e", "<li>b\nmore\n<ol>\n<li>c</li>\n<li>d</li>\n</ol>\n</li>"},
		{"list that begins later", "3. a\n4. b", `<ol start="3">`},
		{"quote", "> a\n> b\n\nc", "<blockquote>\n<p>a\nb</p>\n</blockquote>\n<p>c</p>"},
		{"headings", "a\n===\n***\n## b ##", "<h1 id=\"a\">a</h1>\n<hr/>\n<h2 id=\"b\">b</h2>"},
		{"escapes", `\*a\* \<b &copy; &lt;`, "<p>*a* &lt;b © &lt;</p>"},
		{"break", "a  \nb\\\nc", "<p>a<br/>\nb<br/>\nc</p>"},
		{"HTML", "<details><summary>a</summary>\n\n*b*\n\n</details>", "<details><summary>a</summary>\n<p><em>b</em></p>\n</details>"},
		{"comment", "a <!-- b --> c", "<p>a  c</p>"},
		{"tasks", "- [x] a\n- [ ] b", "<li>☑ a</li>\n<li>☐ b</li>"},
		{"keys, marks and colours", `<kbd>K</kbd> <sub>2</sub> <mark>m</mark> <font color="red">r</font> <span style="color:red">s</span> <center>c</center>`,
			`<kbd>K</kbd> <sub>2</sub> <mark>m</mark> <font color="red">r</font> <span style="color: red">s</span> `},
	}
	for _, tt := range tests {
		if got := textCell(t, tt.text, nil); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestLinks: a link leads where it leads in JupyterLab, or is none.
func TestLinks(t *testing.T) {
	const headings = "\n\n## Some Heading\n\n## What's new? 50%\n\n## `code` and *more*\n\n## Übersicht\n\n<a id=\"anchor\"></a><a name=\"old\"></a>"
	tests := []struct{ name, text, want string }{
		{"inline", "[a *b*](https://example.org/x_(y))", `<a href="https://example.org/x_(y)">a <em>b</em></a>`},
		{"reference", "see [the paper][1] end\n\n[1]: https://example.org/p \"T\"", `see <a href="https://example.org/p" title="T">the paper</a> end`},
		{"reference by its text", "see [paper] end\n\n[paper]: https://example.org/q", `see <a href="https://example.org/q">paper</a> end`},
		{"reference without a definition", "see [a][b]", "see [a][b]"},
		{"bare", "to https://example.org/x_y_z.", `<a href="https://example.org/x_y_z">https://example.org/x_y_z</a>.`},
		{"bare www", "www.example.org", `<a href="http://www.example.org">www.example.org</a>`},
		{"bare mail", "me@example.org", `<a href="mailto:me@example.org">me@example.org</a>`},
		{"angles", "<https://example.org/a_b_c>", `<a href="https://example.org/a_b_c">https://example.org/a_b_c</a>`},
		{"query", "[a](https://example.org/?b=1&c=%20d#e)", `<a href="https://example.org/?b=1&amp;c=%20d#e">a</a>`},
		{"heading as JupyterLab names it", "[a](#Some-Heading)" + headings, `<a href="#Some-Heading">a</a>`},
		{"heading as GitHub names it", "[a](#some-heading)" + headings, `<a href="#Some-Heading">a</a>`},
		{"heading with signs", "[a](#What's-new?-50%25)" + headings, `<a href="#What&#39;s-new?-50%">a</a>`},
		{"heading with markup", "[a](#code-and-more)" + headings, `<a href="#code-and-more">a</a>`},
		{"heading of letters that are escaped", "[a](#%C3%9Cbersicht)" + headings, `<a href="#Übersicht">a</a>`},
		{"anchor", "[a](#anchor) [b](#old)" + headings, `<a href="#anchor">a</a> <a href="#old">b</a>`},
		{"nothing of that name", "[a](#nothing)" + headings, `<p><a>a</a></p>`},
		{"cell of the page", "[a](#fold)", `<p><a>a</a></p>`},
		{"files next to the notebook", "[a](other.ipynb#X) [b](../a/b.md) [c](./c?d=e:f) [d](<two words.csv>) [e](Übersicht) [f](d/10:30.csv) [g](..)",
			`<p><a href="other.ipynb#X">a</a> <a href="../a/b.md">b</a> <a href="./c?d=e:f">c</a> <a href="two%20words.csv">d</a> <a href="%C3%9Cbersicht">e</a> <a href="d/10:30.csv">f</a> <a href="..">g</a></p>`},
		{"files elsewhere", "[c](/etc/passwd) [d](///e) [f](10:30.csv) [g](c:\\x) [h](?q)", `<p><a>c</a> <a>d</a> <a>f</a> <a>g</a> <a>h</a></p>`},
		{"script", "[a](javascript:alert(1)) [b](JaVa&#9;script:1) [c](data:text/html,x) [d](file:///x) [e](//example.org)", `<p><a>a</a> <a>b</a> <a>c</a> <a>d</a> <a>e</a></p>`},
	}
	for _, tt := range tests {
		if got := textCell(t, tt.text, nil); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestHeadingIDs: each has its own, as JupyterLab makes it.
func TestHeadingIDs(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"# Some Heading", []string{`<h1 id="Some-Heading">`}},
		{"# A\n## A\n## A", []string{`<h1 id="A">`, `<h2 id="A-2">`, `<h2 id="A-3">`}},
		{strings.Repeat("# A\n", 5000), []string{`<h1 id="A-5000">`}},
		{"# <b>&</b>\n# ![](x)", []string{`<h1 id="&amp;">`, `<h1 id="part">`}},
		{"# fold\n# cell-1\n# o1-0-x", []string{`<h1 id="part-fold">`, `<h1 id="part-cell-1">`, `<h1 id="part-o1-0-x">`}},
		{"###### deep", []string{`<h6 id="deep">`}},
		{`<h2 id="x" style="position:fixed">own</h2>`, []string{`<h2 id="own">own</h2>`}},
	}
	for _, tt := range tests {
		got := textCell(t, tt.text, nil)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q: got %s, want %s", tt.text, got, want)
			}
		}
	}
}

// TestAttachments: an image of a text cell is in the page, and its name in prose
// or in code is only a name.
func TestAttachments(t *testing.T) {
	const data = "data:image/png;base64,aGk="
	tests := []struct{ name, attached, text, want string }{
		{"plain", "x.png", "![a](attachment:x.png)", `<img alt="a" src="` + data + `"/>`},
		{"title", "x.png", `![a](attachment:x.png "t")`, `<img alt="a" title="t" src="` + data + `"/>`},
		{"blank", "a b.png", "![a](attachment:a%20b.png)", data},
		{"blank in angles", "a b.png", "![a](<attachment:a b.png>)", data},
		{"escaped name", "a%20b.png", "![a](attachment:a%20b.png)", data},
		{"parentheses", "a(1).png", "![a](attachment:a(1).png)", data},
		{"umlaut", "ü.png", "![a](attachment:ü.png)", data},
		{"reference", "x.png", "![a][r]\n\n[r]: attachment:x.png", data},
		{"HTML", "x.png", "<img src='attachment:x.png'>", data},
		{"HTML in a block", "x.png", `<div align="center"><img width=3 src=attachment:x.png></div>`, `<img width="3" src="` + data},
		{"code", "x.png", "`![x](attachment:x.png)`", "<code>![x](attachment:x.png)</code>"},
		{"block of code", "x.png", "```md\n![x](attachment:x.png)\n```", "<pre><code>![x](attachment:x.png)\n"},
		{"prose", "x.png", "an attachment: x.png and email attachment:x.png end", "an attachment: x.png and email attachment:x.png end"},
		{"another name", "x.png", "![a](attachment:y.png)", "[an image is left out, a: this page loads nothing from elsewhere]"},
		{"name that begins alike", "x.png", "![a](attachment:x.png.bak)", "left out"},
	}
	for _, tt := range tests {
		got := textCell(t, tt.text, map[string]any{tt.attached: map[string]any{"image/png": "aG\nk="}})
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	for _, bad := range []map[string]any{
		{"text/html": "PGI+"}, {"image/png": `"><script>`}, {"image/png;base64,aGk=\" onload=\"x": "aGk="}, {"image/svg+xml\"": "<svg onload=1>"}, nil,
	} {
		if got := textCell(t, "![a](attachment:x.png)", map[string]any{"x.png": bad}); !strings.Contains(got, "left out") {
			t.Errorf("attachment %v: got %s, want a note that it is left out", bad, got)
		}
	}
}

// FuzzFormulas: taking formulas out and putting them back changes nothing.
func FuzzFormulas(f *testing.F) {
	f.Add("$a$ `$b` $$c\n$$ \\\\(d\\\\) \\begin{e}\\end{e} \\$f $g\n\n$ ```\n$h$\n```")
	f.Add("![$a](b$c) <d e=\"$f\"> https://g.org/$h $i{$}$j")
	f.Fuzz(func(t *testing.T, text string) {
		text = printable(text)
		rest, found := takeFormulas(text)
		if got := found.restore(rest, func(s string) string { return s }); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	})
}
