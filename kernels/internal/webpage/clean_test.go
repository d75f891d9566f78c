package webpage

import (
	"strings"
	"testing"
)

// TestClean: what a page needs of an output stays, and the rest goes. That no
// hostile payload gets through is tested in a browser: scripts/test html.
func TestClean(t *testing.T) {
	const raster = "data:image/png;base64,aGk="
	tests := []struct{ name, markup, want string }{
		{"link that covers the page", `<a href="https://e.org/" style="position:fixed;inset:0;opacity:0">x</a>`, `<a href="https://e.org/">x</a>`},
		{"file", `<a href=" my file.csv" download target=_blank>x</a><a href=".//example.org">y</a><a href="/\example.org">z</a><img src="my.png"><a href="java&#10;script:1">w</a>`,
			`<a href="my%20file.csv">x</a><a href=".//example.org">y</a><a>z</a><img/><a>w</a>`},
		{"table", `<table><tr><td style="text-align:right;position:fixed" colspan=2>1</table>`, `<table><tbody><tr><td style="text-align: right" colspan="2">1</td></tr></tbody></table>`},
		{"colours", `<b style="color:#D55E00;background:linear-gradient(red, blue);border-bottom:2px solid #D55E00">x</b>`, `<b style="color: #D55E00; background: linear-gradient(red, blue); border-bottom: 2px solid #D55E00">x</b>`},
		{"style that fetches", `<p style="background:url(https://e.org/);color:red">x</p>`, `<p style="color: red">x</p>`},
		{"style with an escape", `<p style="background:u\72l(https://e.org/);color:red">x</p>`, `<p>x</p>`},
		{"negative margin", `<p style="margin-top:-500px;padding:1px">x</p>`, `<p style="padding: 1px">x</p>`},
		{"drawing", `<svg viewBox="0 0 9 9"><clipPath id="c"><path d="M0 0h9"/></clipPath><g clip-path="url(#c)" style="fill:url(#c)"><image href="` + raster + `" width="9" height="9"/><use xlink:href="#c"/></g></svg>`,
			`<svg viewBox="0 0 9 9"><clipPath id="c"><path d="M0 0h9"></path></clipPath><g clip-path="url(#c)" style="fill: url(#c)"><image href="` + raster + `" width="9" height="9"></image><use xlink:href="#c"></use></g></svg>`},
		{"parts of a drawing outside of one", `<path d="M0 0"></path><g>x</g>`, `x`},
		{"HTML inside a drawing", `<svg><title>a<b>c</b></title><desc><p>d</p></desc></svg>`, `<svg><title>a&lt;b&gt;c&lt;/b&gt;</title><desc>d</desc></svg>`},
		{"ends of what is not open", `</div></section></main>x`, `x`},
		{"element that does not end", `<table><tr><td>open<p>deep`, `<table><tbody><tr><td>open<p>deep</p></td></tr></tbody></table>`},
		{"classes", `<p class="stopped">a</p><p class="dataframe ansi-red-fg">b</p><p class="k output">c</p>`, `<p>a</p><p class="dataframe ansi-red-fg">b</p><p>c</p>`},
		{"progress", `<progress value=3 max=9 style="width:16em"></progress>`, `<progress value="3" max="9" style="width: 16em"></progress>`},
		{"too deep for a browser's parser", strings.Repeat("<div>", 600) + "x", `<pre>` + strings.Repeat("&lt;div&gt;", 600) + `x</pre>`},
	}
	for _, tt := range tests {
		if got := inner(clean(tt.markup, nil)); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}

// FuzzClean: what has been cleaned is clean, and a browser reads it as it was
// written.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{
		`<p onclick=a()>x<script>y</script><img src=//example.org><a href="java&#10;script:x">z`,
		`<svg><title>t</title><use href="#a"/><style>@import "x"</style><a xlink:href='javascript:1'>`,
		`<table><tr><td>1<td>2<tr><p>a<div>b</p>`, "&lt;script&gt; &#60;b&#62; &amp;lt;",
		`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">`,
		`<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">`, `<b><a><svg><desc><a><table><b>`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, markup string) {
		got := inner(clean(markup, nil))
		again, err := parse(got)
		if err != nil || inner(again) != got {
			t.Errorf("clean(%q) is read as something else: %s", markup, got)
		}
		if twice, err := parse(policy.Sanitize(got)); err != nil || inner(twice) != got {
			t.Errorf("clean(%q) is not clean: %s", markup, got)
		}
	})
}
