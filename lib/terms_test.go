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

// TestTerms holds that messages use the field's standard terms: no string of a program has
// one of the words that scripts/tests/terms.txt lists.
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
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, is := n.(*ast.BasicLit)
				if !is || s.Kind != token.STRING {
					return true
				}
				for term, standard := range terms {
					if m := term.FindString(s.Value); m != "" {
						t.Errorf("%s: %s has %q: want %s", set.Position(s.Pos()), s.Value, m, standard)
					}
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
