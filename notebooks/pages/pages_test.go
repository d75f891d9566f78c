package pages

import (
	"os"
	"path/filepath"
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
