package raster

import (
	"encoding/base64"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// githubElements are those of HTML that GitHub leaves in an output
// (github.com/gjtorikian/html-pipeline, SanitizationFilter). Of others, their text stays; of a
// progress element that is nothing, and its words stand behind it.
var githubElements = strings.Fields(`h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p
	picture ol ul table thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt rp li tr td th s strike summary
	details caption figure figcaption abbr bdo cite dfn mark small source span time wbr progress`)

var (
	elementName = regexp.MustCompile(`<([a-zA-Z][\w-]*)`)
	imgElement  = regexp.MustCompile(`<img [^>]*>`)
	handler     = regexp.MustCompile(`(?i) on[a-z]+=|javascript:|url\(|@import`)
)

// TestStoredOutputs: what the notebooks hold is shown by front ends that show least: GitHub,
// JupyterLab before it trusts a notebook, VS Code in a workspace that is not trusted, which
// shows text alone, and readers that look at images by their alternative text.
func TestStoredOutputs(t *testing.T) {
	files, err := filepath.Glob("../../../notebooks/*.ipynb")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d notebooks, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var nb struct {
			Cells []struct {
				Outputs []struct {
					Data map[string]json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(text, &nb); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i, c := range nb.Cells {
			for _, o := range c.Outputs {
				if o.Data == nil {
					continue // a stream or an error: text
				}
				for _, wrong := range hidden(o.Data) {
					t.Errorf("%s, cell %d: %s", filepath.Base(file), i, wrong)
				}
			}
		}
	}
}

// hidden is what of an output some front end does not show.
func hidden(data map[string]json.RawMessage) (wrong []string) {
	of := func(mime string) string {
		var lines []string
		if json.Unmarshal(data[mime], &lines) == nil {
			return strings.Join(lines, "")
		}
		var text string
		json.Unmarshal(data[mime], &text)
		return text
	}
	for mime := range data {
		if !slices.Contains([]string{"text/plain", "text/html", "image/png"}, mime) {
			wrong = append(wrong, mime+" is not shown everywhere")
		}
	}
	if strings.TrimSpace(of("text/plain")) == "" {
		wrong = append(wrong, "no text/plain")
	}
	if data["image/png"] != nil {
		if _, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(of("image/png")))); err != nil {
			wrong = append(wrong, "image/png: "+err.Error())
		}
	}
	page := of("text/html")
	for _, m := range elementName.FindAllStringSubmatch(page, -1) {
		if !slices.Contains(githubElements, m[1]) {
			wrong = append(wrong, "<"+m[1]+"> is taken away")
		}
	}
	if found := handler.FindString(page); found != "" {
		wrong = append(wrong, found+" is taken away")
	}
	for _, img := range imgElement.FindAllString(page, -1) {
		if !strings.Contains(img, ` src="data:image/png;base64,`) || !strings.Contains(img, " alt=") {
			wrong = append(wrong, "want PNG with an alternative text: "+img[:min(len(img), 80)])
		}
	}
	return wrong
}

// The rules find what breaks them.
func TestHidden(t *testing.T) {
	for _, tt := range []struct{ mime, value, want string }{
		{"text/html", "<svg></svg>", "<svg> is taken away"},
		{"text/html", `<p onclick="x()">`, " onclick= is taken away"},
		{"text/html", `<img src="a.png" alt="">`, "want PNG with an alternative text"},
		{"image/svg+xml", "<svg/>", "is not shown everywhere"},
		{"image/png", "aGk=", "image/png: "},
	} {
		value, _ := json.Marshal(tt.value)
		got := hidden(map[string]json.RawMessage{"text/plain": json.RawMessage(`"text"`), tt.mime: value})
		if len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s %s: got %q, want %q", tt.mime, tt.value, got, tt.want)
		}
	}
}
