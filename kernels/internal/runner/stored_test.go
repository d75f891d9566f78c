package runner

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/kernels/internal/raster"
)

var convert = flag.Bool("convert", false, "convert the images of the notebooks that are stored here")

// Every image of a stored notebook is shown before the notebook is trusted.
func TestStoredPictures(t *testing.T) {
	files, err := filepath.Glob("../../../notebooks/*.ipynb")
	if err != nil || len(files) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Read(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		changed := false
		for i, c := range d.cells {
			outputs, _ := c["outputs"].([]any)
			for _, o := range outputs {
				o := o.(map[string]any)
				forms, ok := o["data"].(map[string]any)
				if !ok {
					continue
				}
				old := map[string]any{}
				for mime, value := range forms {
					old[mime] = value
					if strings.HasPrefix(mime, "text/") || mime == "image/svg+xml" {
						old[mime] = text(value)
					}
				}
				metadata, _ := o["metadata"].(map[string]any)
				data, metadata := raster.Complete(maps.Clone(old), metadata)
				before, _ := json.Marshal(old)
				after, _ := json.Marshal(data)
				if bytes.Equal(before, after) {
					continue
				}
				changed = true
				if !*convert {
					t.Errorf("%s: cell %d has an image that is not shown before the notebook is trusted: go test ./kernels/internal/runner -run StoredPictures -convert converts it", filepath.Base(file), i)
				}
				for mime, value := range data {
					data[mime] = encoded(mime, value)
				}
				o["data"], o["metadata"] = data, metadata
			}
		}
		if changed && *convert {
			data, err := d.Bytes()
			if err == nil {
				err = os.WriteFile(file, data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
