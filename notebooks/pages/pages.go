// Package pages has the pages of the manual, for programs that show them.
package pages

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed *.md
var files embed.FS

// Names are the pages, in the order in which the manual has them.
var Names = []string{"quick-start.md", "own-data.md", "concepts.md", "howto.md", "training.md", "models.md", "measuring.md", "export.md", "session.md", "magics.md", "settings.md",
	"agents.md", "from.md", "trouble.md", "faq.md", "architecture.md", "contributing.md", "changelog.md", "roadmap.md"}

// Page returns the Markdown of a page.
func Page(name string) (string, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("pages: got page %.80q, want one of %s", name, strings.Join(Names, ", "))
	}
	return string(text), nil
}

var title = regexp.MustCompile(`(?m)^# (.*)$`)

// Title returns the title of a page.
func Title(page string) string {
	if m := title.FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// Manual returns all pages as one text, which a language model can read whole.
func Manual() string {
	var b strings.Builder
	b.WriteString("Gaiden is a Jupyter kernel and library for deep learning in Go. This is its whole manual.\n")
	for _, name := range Names {
		text, err := Page(name)
		if err != nil {
			continue // TestNames holds that there is none
		}
		fmt.Fprintf(&b, "\n<!-- %s -->\n\n%s", name, text)
	}
	return b.String()
}
