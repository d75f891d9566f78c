package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNames holds that the manual has every page, and the site's navigation, too.
func TestNames(t *testing.T) {
	there, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	site, err := os.ReadFile("../../scripts/package/site.py")
	if err != nil {
		t.Fatal(err)
	}
	manual := Manual()
	for _, name := range there {
		page, err := Page(name)
		if err != nil || Title(page) == "" || !strings.Contains(manual, page) {
			t.Errorf("%s: got title %q, %v, in the manual: %t; want a title, and it there", name, Title(page), err, strings.Contains(manual, page))
		}
		if !slices.Contains(Names, name) || !strings.Contains(string(site), `"`+name+`"`) {
			t.Errorf("%s is not in Names, or not in NAV of scripts/package/site.py", name)
		}
	}
	if len(there) != len(Names) {
		t.Errorf("got %d names of %d pages", len(Names), len(there))
	}
	if _, err := Page("traning.md"); err == nil || !strings.Contains(err.Error(), "training.md") {
		t.Errorf("a page that is not there: got %v, want the names", err)
	}
}

var (
	span = regexp.MustCompile("`[^`\n]+`")
	name = regexp.MustCompile(`(?:^|[^\w./])([a-z]\w*)\.([A-Z]\w*)`)
)

// TestCode: what tables and sentences call exists. Snippets are run by scripts/test docs.
func TestCode(t *testing.T) {
	exported := map[string]map[string]bool{"net": {}, "job": {}} // by package, or by the variable's name on the pages
	folders, err := filepath.Glob("../../lib/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range append(folders, "../../lib/fit/step", "../../lib/data/arrow", "../../lib/data/parquet", "../../lib/timing/units") {
		for _, file := range must(filepath.Glob(folder + "/*.go")) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			here := exported[f.Name.Name]
			if here == nil {
				here = map[string]bool{}
				exported[f.Name.Name] = here
			}
			for _, d := range f.Decls {
				collect(d, here, exported)
			}
		}
	}
	texts := map[string]string{"README.md": string(must(os.ReadFile("../../README.md")))}
	for _, page := range Names {
		texts[page] = must(Page(page))
	}
	for page, text := range texts {
		for _, code := range span.FindAllString(text, -1) {
			for _, m := range name.FindAllStringSubmatch(strings.Trim(code, "`"), -1) {
				if names := exported[m[1]]; names != nil && !names[m[2]] {
					t.Errorf("%s: %s: there is no %s.%s", page, code, m[1], m[2])
				}
			}
		}
	}
}

// collect takes in the exported names of a declaration, and methods of nets and jobs.
func collect(d ast.Decl, here map[string]bool, exported map[string]map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			here[d.Name.Name] = true
			return
		}
		receiver, _ := d.Recv.List[0].Type.(*ast.StarExpr)
		if receiver == nil {
			return
		}
		if of, is := receiver.X.(*ast.Ident); is && exported[strings.ToLower(of.Name)] != nil {
			exported[strings.ToLower(of.Name)][d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				here[s.Name.Name] = true
			case *ast.ValueSpec:
				for _, n := range s.Names {
					here[n.Name] = true
				}
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
