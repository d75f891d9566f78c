package webpage

import (
	"html"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	render "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// markdown is GitHub's Markdown, which is also that of JupyterLab. HTML in it
// passes: clean decides about it.
var markdown = goldmark.New(
	goldmark.WithExtensions(
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignStyle)),
		extension.Strikethrough, extension.Linkify, extension.TaskList,
	),
	goldmark.WithRendererOptions(render.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(codeBlocks{}, 100))),
)

// fromMarkdown returns Markdown as HTML that has not been cleaned.
func fromMarkdown(text string) string {
	text = printable(text)
	if !excessive(text) {
		rest, found := takeFormulas(text)
		b := bounded{limit: 1<<20 + maxGrowth*len(rest)}
		if err := markdown.Convert([]byte(rest), &b); err == nil {
			return found.restore(b.String(), html.EscapeString)
		}
	}
	return "<pre>" + html.EscapeString(text) + "</pre>"
}

// codeBlocks renders fenced code blocks, Go with colours.
type codeBlocks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (codeBlocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		block := n.(*ast.FencedCodeBlock)
		code := string(block.Lines().Value(source))
		markup := html.EscapeString(code)
		if string(block.Language(source)) == "go" {
			markup = coloured(code)
		}
		_, err := w.WriteString("<pre><code>" + markup + "</code></pre>\n")
		return ast.WalkContinue, err
	})
}
