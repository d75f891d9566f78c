package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// A GetError reports a module that could not be added.
type GetError struct {
	Path   string
	Output string // what the go command said
}

func (e *GetError) Error() string {
	return fmt.Sprintf("cell: get %s: %s", e.Path, e.Output)
}

// Hint says what to do next.
func (e *GetError) Hint() string {
	switch {
	case strings.Contains(e.Output, "GOPROXY=off"), strings.Contains(e.Output, "dial tcp"), strings.Contains(e.Output, "no such host"):
		return "the module proxy cannot be reached; with a copy on this machine: !*go mod edit -replace MODULE=DIRECTORY"
	case !strings.Contains(e.Path, "@"):
		return "name a version: %require " + e.Path + "@v1.2.3"
	}
	return ""
}

// Get adds to go.mod the module that provides a package, given as path or
// path@version; without a version it is the newest. This, alone of all that a
// Module does, asks the module proxy, in the way the user's environment
// configures it. The lines returned say what was added or changed.
func (m *Module) Get(ctx context.Context, path string) (changes []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	if !strings.Contains(path, "@") {
		// A module that is there already keeps its version.
		for _, dep := range m.mod.required {
			if path == dep.Path || strings.HasPrefix(path, dep.Path+"/") {
				path += "@" + dep.Version
				break
			}
		}
	}
	_, stderr, err := m.run(ctx, m.online(), "get", path)
	for line := range bytes.Lines(stderr) {
		text := strings.TrimSpace(strings.TrimPrefix(string(line), "go: "))
		if strings.HasPrefix(text, "added ") || strings.HasPrefix(text, "upgraded ") || strings.HasPrefix(text, "downgraded ") {
			changes = append(changes, text)
		}
	}
	var te *ToolError
	if errors.As(err, &te) && te.Hint() == "" {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &GetError{path, lastLines(string(stderr), 6)}
	}
	if err != nil {
		return nil, err
	}
	return changes, m.refresh(ctx)
}

// lastLines returns what the go command said last, without its progress.
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "go: ")
		if line != "" && !strings.HasPrefix(line, "downloading ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}
