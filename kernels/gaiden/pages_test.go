package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"gaiden/kernels/internal/magic"
)

var updatePages = flag.Bool("update-pages", false, "rewrite notebooks/pages/magics.md")

// magicsPage is the page of all magics, generated from the help text of each.
func magicsPage(t magic.Table) string {
	var b strings.Builder
	b.WriteString("# Magics\n\nLook up a magic. A line that begins with `%` is one, as in IPython: a command to the kernel instead of Go code. In a cell, `%help` lists all magics, and `%NAME?` describes one. This page is generated from the same help texts: `go test ./kernels/gaiden -run TestMagicsPage -update-pages` updates it.\n\n| magic | what it does |\n|---|---|\n")
	for i := range t {
		cell := func(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
		fmt.Fprintf(&b, "| `%s` | %s |\n", cell(t[i].Usage()), cell(t[i].Help))
	}
	for i := range t {
		if t[i].More != "" || len(t[i].Aliases) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", t[i].Name, strings.TrimSpace(t[i].String()))
		}
	}
	return b.String()
}

// TestMagicsPage checks that the page is up to date with the help texts.
func TestMagicsPage(t *testing.T) {
	const path = "../../notebooks/pages/magics.md"
	want := magicsPage(newNotebook().Magics)
	if *updatePages {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the help texts: run go test -run TestMagicsPage -update-pages", path)
	}
}
