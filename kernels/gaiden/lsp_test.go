package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckNotebooks: in notebooks that run, nothing is wrong; and what is wrong is seen in the
// cell behind them. GAIDEN_TEST_FULL=1 checks all notebooks.
func TestCheckNotebooks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := newNotebook()
	n.Library, n.Cache, n.Linkers, n.Trusted, n.Log = root, t.TempDir(), "", nil, nil
	t.Cleanup(func() { n.Shutdown(false) })
	pattern := "0[09]-*.ipynb"
	if os.Getenv("GAIDEN_TEST_FULL") != "" {
		pattern = "*.ipynb"
	}
	files, err := filepath.Glob(filepath.Join(root, "notebooks", pattern))
	if err != nil || len(files) < 2 {
		t.Fatalf("got %d notebooks, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var book struct {
			Cells []struct {
				Type   string `json:"cell_type"`
				Source any    // a string, or one for each line
			}
		}
		if err := json.Unmarshal(text, &book); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var cells []string
		for _, c := range book.Cells {
			if c.Type != "code" {
				continue
			}
			source, _ := c.Source.(string)
			if lines, several := c.Source.([]any); several {
				var b strings.Builder
				for _, line := range lines {
					b.WriteString(line.(string))
				}
				source = b.String()
			}
			cells = append(cells, source)
		}
		cells = append(cells, `var _ int = "wrong"`)
		found, err := n.Check(t.Context(), cells)
		if err != nil || len(found) != 1 || found[0].Cell != len(cells) {
			t.Errorf("%s: got %v, %v, want what is wrong in the last cell", file, found, err)
		}
	}
}
