package fit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/models"
)

// TestExportModules builds exported modules and runs their tests, offline, outside of Gaiden:
// their pure-Go results are those of the session.
func TestExportModules(t *testing.T) {
	s := open(t)
	for name, net := range map[string]models.Net{
		"conv": {Input: []int{9, 8, 2}, Layers: []models.Layer{
			models.Conv2D{Channels: 4, Kernel: 3, Act: models.ReLU}, models.BatchNorm{Act: models.GELU}, models.MaxPool2D{Window: 2},
			models.Flatten{}, models.Dropout{Rate: 0.5}, models.Dense{Units: 3}}},
		"words": {Input: []int{6}, Layers: []models.Layer{models.Embedding{Vocab: 11, Units: 8}, models.Positions{Length: 6},
			models.TransformerBlock{Heads: 2, Causal: true}, models.LSTM{Units: 4}, models.LastStep{}, models.Dense{Units: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			net.Name = name
			n, err := Attach(s, name, net, Config{FirstLook: true})
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), name)
			if err := n.Export(dir); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "test", "-vet=all", "./...")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOMLX_BACKEND=")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ok") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
