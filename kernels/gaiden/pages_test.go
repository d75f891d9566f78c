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

// magicsPage is the page of all magics, made of what `?` says of each.
func magicsPage(t magic.Table) string {
	var b strings.Builder
	b.WriteString("# Magics\n\nLines that begin with `%` are no Go. `%help` lists them in a cell, and `%NAME?` explains one. This page is made of the same words: `go test ./kernels/gaiden -run TestMagicsPage -update-pages` writes it anew.\n\n| magic | what it does |\n|---|---|\n")
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

// TestMagicsPage holds that the page says what the kernel says.
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
		t.Errorf("%s is not what the magics say: run go test -run TestMagicsPage -update-pages", path)
	}
}
