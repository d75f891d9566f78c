package hub

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/gomlx/go-huggingface/hub"
)

// Download fetches a model from huggingface.co, or from HF_ENDPOINT, and returns its folder, which
// is in Hugging Face's cache and is fetched once. HF_TOKEN is for models that need one.
//
//	var m = must(hub.Open(must(hub.Download("openai-community/gpt2"))))
func Download(id string) (dir string, err error) {
	repo := hub.New(id).WithAuth(os.Getenv("HF_TOKEN")).WithProgressBar(false)
	repo.Verbosity = 0
	var names []string
	for name, err := range repo.IterFileNames() {
		if err != nil {
			return "", fmt.Errorf("hub: download %s: %w", id, err)
		}
		switch ext := path.Ext(name); {
		case strings.Contains(name, "/"): // other formats have folders of their own
		case ext == ".safetensors", ext == ".json":
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("hub: download %s: it has no .json and .safetensors: want a model with weights as safetensors", id)
	}
	files, err := repo.DownloadFiles(names...)
	if err != nil {
		return "", fmt.Errorf("hub: download %s: %w", id, err)
	}
	return filepath.Dir(files[0]), nil
}
