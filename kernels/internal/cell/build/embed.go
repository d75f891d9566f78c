package build

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gaiden/kernels/internal/cell/parse"
)

// EmbedPatterns returns the patterns of a declaration's //go:embed lines.
func EmbedPatterns(d *parse.Decl) []string {
	if d.Kind != parse.Var {
		return nil
	}
	var out []string
	for line := range strings.Lines(d.Text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:embed ")
		if !ok {
			continue
		}
		for _, w := range strings.Fields(rest) {
			if s, err := strconv.Unquote(w); err == nil {
				w = s
			}
			out = append(out, w)
		}
	}
	return out
}

// An embedConfig is what the compiler wants to know about embedded files.
type embedConfig struct {
	Patterns map[string][]string
	Files    map[string]string
}

// embedFiles finds the files that patterns mean in dir, the notebook's
// directory. (The go command would look next to the program's source, where a
// notebook has none.) stamp changes when one of the files does.
func embedFiles(dir string, patterns []string) (config []byte, stamp string, err error) {
	if len(patterns) == 0 {
		return nil, "", nil
	}
	c := embedConfig{Patterns: map[string][]string{}, Files: map[string]string{}}
	var marks strings.Builder
	for _, p := range patterns {
		pattern, all := strings.CutPrefix(p, "all:")
		names, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil || len(names) == 0 || !fs.ValidPath(pattern) {
			return nil, "", fmt.Errorf("cell: embed: pattern %s: no file of %s matches", p, dir)
		}
		c.Patterns[p] = []string{}
		for _, name := range names {
			filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return nil
				}
				hidden := path != name && !all && (e.Name()[0] == '.' || e.Name()[0] == '_')
				switch {
				case hidden && e.IsDir():
					return filepath.SkipDir
				case hidden || !e.Type().IsRegular():
					return nil
				}
				rel, _ := filepath.Rel(dir, path)
				rel = filepath.ToSlash(rel)
				c.Patterns[p] = append(c.Patterns[p], rel)
				c.Files[rel] = path
				if info, err := os.Stat(path); err == nil {
					fmt.Fprintln(&marks, path, info.Size(), info.ModTime().UnixNano())
				}
				return nil
			})
		}
	}
	config, err = json.Marshal(c)
	return config, marks.String(), err
}
