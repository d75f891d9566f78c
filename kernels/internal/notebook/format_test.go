package notebook

import (
	"encoding/json"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gaiden/kernels/internal/magic"
)

// TestFormatAll formats what the repository has of cells: their tokens stay, and the
// second time nothing changes.
func TestFormatAll(t *testing.T) {
	n := newNotebook(t)
	n.Magics = Magics(n)
	for _, name := range []string{"%info", "%session", "%arrays", "%programs", "%device", "%snapshot", "%rollback", "%jobs", "%phases", "%bottleneck", "%roofline", "%sweep", "%timeit", "%time"} {
		n.Magics = append(n.Magics, magic.Row{Name: name})
	}
	for _, name := range []string{"%%timeit", "%%time", "%%profile", "%%job"} {
		n.Magics = append(n.Magics, magic.Row{Name: name, Role: magic.Body, Code: name != "%%job"})
	}
	var cells []string
	books, _ := filepath.Glob("../../../notebooks/*.ipynb")
	for _, path := range append(books, "../../../scripts/tests/magics.ipynb") {
		var book struct {
			Cells []struct {
				Type   string `json:"cell_type"`
				Source any
			}
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &book)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range book.Cells {
			if c.Type == "code" {
				text, _ := c.Source.(string)
				lines, _ := c.Source.([]any)
				for _, line := range lines {
					text += line.(string)
				}
				cells = append(cells, text)
			}
		}
	}
	snippet := regexp.MustCompile("(?s)\n```go\n(.*?)\n```")
	pages, _ := filepath.Glob("../../../notebooks/pages/*.md")
	for _, path := range pages {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range snippet.FindAllStringSubmatch(string(data), -1) {
			cells = append(cells, m[1])
		}
	}
	formatted := 0
	for _, cell := range cells {
		out, err := n.Format(cell)
		if err != nil {
			continue // a fragment, or a cell that shows an error
		}
		formatted++
		if got, want := tokens(out), tokens(cell); !slices.Equal(got, want) {
			t.Errorf("got other tokens:\n%s\nof:\n%s", out, cell)
		}
		if again, err := n.Format(out); err != nil || again != out {
			t.Errorf("the second time: got\n%s\n%v, want\n%s", again, err, out)
		}
	}
	if len(cells) < 150 || formatted < len(cells)*9/10 {
		t.Errorf("%d of %d cells were formatted, want nearly all", formatted, len(cells))
	}
}

// tokens are the words of a cell, sorted, since imports are: comments, commas at ends
// of lines and semicolons apart.
func tokens(cell string) (all []string) {
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile("", -1, len(cell)), []byte(cell), nil, scanner.ScanComments)
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			slices.Sort(all)
			return all
		case token.SEMICOLON, token.COMMA:
		case token.COMMENT:
			all = append(all, strings.Join(strings.Fields(strings.Trim(lit, "/*")), " "))
		default:
			all = append(all, tok.String()+lit)
		}
	}
}

func TestFormatMagic(t *testing.T) {
	n := newNotebook(t)
	tests := []struct{ name, code, want, err string }{
		{"a cell", "%fmt\nx:=1 // one\nif x>0{ }", "x := 1 // one\nif x > 0 {\n}", ""},
		{"in the middle", "%env  A=1\n%fmt\nx:=1", "%env  A=1\nx := 1", ""},
		{"nothing else", "%fmt", "", ""},
		{"no Go yet", "%fmt\nx:=1\ny:=(", "", "line 3"},
		{"an empty line below", "%fmt\n\nx:=1\n", "x := 1", ""},
		{"arguments", "%fmt -l", "", "want %fmt"},
		{"twice", "%fmt\n%fmt\nx:=1", "%fmt\nx := 1", ""},
		{"below a cell magic", "%%bash\n%fmt\nls", "", ""},
	}
	for _, tt := range tests {
		r := n.Execute(t.Context(), request(tt.code, 1), &recorder{})
		if (r.Err != nil) != (tt.err != "") && tt.name != "below a cell magic" || r.Err != nil && !strings.Contains(strings.Join(r.Err.Traceback, "\n"), tt.err) {
			t.Errorf("%s: got error %v, want %q", tt.name, r.Err, tt.err)
		}
		if tt.err != "" || tt.name == "below a cell magic" {
			if len(r.Payload) > 0 {
				t.Errorf("%s: got payload %v, want the cell left as it is", tt.name, r.Payload)
			}
			continue
		}
		if len(r.Payload) != 1 || r.Payload[0]["source"] != "set_next_input" || r.Payload[0]["replace"] != true || r.Payload[0]["text"] != tt.want {
			t.Errorf("%s: got payload %v, want the cell replaced by %q", tt.name, r.Payload, tt.want)
		}
	}
	if got, err := n.Format("%%bash\nls  |wc"); err != nil || got != "%%bash\nls  |wc" {
		t.Errorf("another language: got %q, %v, want it as it is", got, err)
	}
	out := &recorder{}
	if r := n.Execute(t.Context(), request("%fmt\nfmt.Println( 1 )\n!echo 2", 1), out); r.Err != nil || len(out.events) > 0 {
		t.Errorf("got %v, events %v: want nothing to be run", r.Err, out.events)
	}
}
