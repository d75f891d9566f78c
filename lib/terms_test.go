package lib

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTerms holds that messages and comments use the field's standard terms: no string or comment
// of a program has one of the words that scripts/tests/terms.txt lists.
func TestTerms(t *testing.T) {
	text, err := os.ReadFile("../scripts/tests/terms.txt")
	if err != nil {
		t.Fatal(err)
	}
	terms := map[*regexp.Regexp]string{}
	for line := range strings.Lines(string(text)) {
		if old, standard, is := strings.Cut(strings.TrimSpace(line), " = "); is && !strings.HasPrefix(line, "#") {
			terms[regexp.MustCompile(`(?i)(^|[^\w%])(`+old+`)\b`)] = standard
		}
	}
	files := 0
	for _, root := range []string{"../lib", "../kernels"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			hold := func(at token.Pos, text string) {
				for term, standard := range terms {
					if m := term.FindString(text); m != "" {
						t.Errorf("%s: %s has %q: want %s", set.Position(at), text, m, standard)
					}
				}
			}
			for _, group := range file.Comments {
				for _, c := range group.List {
					if !strings.HasPrefix(c.Text, "//go:") {
						hold(c.Pos(), c.Text)
					}
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, is := n.(*ast.BasicLit); is && s.Kind == token.STRING {
					hold(s.Pos(), s.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files == 0 || len(terms) == 0 {
		t.Fatalf("%d files and %d terms are read: want some", files, len(terms))
	}
}
