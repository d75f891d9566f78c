package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// A GetError reports a module that could not be added.
type GetError struct {
	Path   string
	Proxy  string // GOPROXY: where it was looked for
	Output string // what the go command said
	Err    error  // of a context that ended; nil = the go command failed
}

func (e *GetError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("cell: go get %s: no answer from GOPROXY=%s in time: %v", e.Path, e.Proxy, e.Err)
	}
	return fmt.Sprintf("cell: go get %s, from GOPROXY=%s: %s", e.Path, e.Proxy, e.Output)
}

func (e *GetError) Unwrap() error { return e.Err }

// unreachable matches what the go command says of a proxy that does not answer.
var unreachable = regexp.MustCompile(`GOPROXY=off|GOPROXY list is not the empty string|dial tcp|no such host|connection refused|network is unreachable|i/o timeout|TLS handshake|proxyconnect|deadline exceeded`)

func (e *GetError) Hint() string {
	switch {
	case e.Proxy == "off":
		return "GOPROXY is off: unset it, or !go env -u GOPROXY; with a copy on this machine: !*go mod edit -replace MODULE=DIRECTORY"
	case e.Err != nil, unreachable.MatchString(e.Output):
		return "the module proxy cannot be reached; with a copy on this machine: !*go mod edit -replace MODULE=DIRECTORY"
	case !strings.Contains(e.Path, "@"):
		return "name a version: %require " + e.Path + "@v1.2.3"
	}
	return ""
}

// Get adds to go.mod the module that provides a package, given as path or
// path@version, and fetches what of it is not on this machine. Without a version it
// is the one that the notebook's modules agree on, where they know it, else the
// newest. This, alone of all that a Module does, asks the module proxy, in the way
// the user's environment configures it. The lines returned say what was added,
// changed or fetched: without one, nothing was.
func (m *Module) Get(ctx context.Context, path string) (changes []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	wanted, known := path, []byte(nil)
	if !strings.Contains(path, "@") {
		if version := m.selected(ctx, path); version != "" {
			wanted += "@" + version
			if library := m.libraryPath(); library != "" { // a machine that lacks one of its modules lacks more: all at once
				_, known, _ = m.run(ctx, m.online(), "list", "-e", "-deps", library+"/...")
			}
		}
	}
	before := m.modSum()
	_, stderr, err := m.run(ctx, m.online(), "get", wanted)
	stderr = append(known, stderr...)
	for line := range bytes.Lines(stderr) {
		text := strings.TrimSpace(strings.TrimPrefix(string(line), "go: "))
		verb, what, _ := strings.Cut(text, " ")
		switch verb {
		case "added", "upgraded", "downgraded":
			changes = append(changes, text)
		case "downloading":
			changes = append(changes, "downloaded "+what)
		}
	}
	var te *ToolError
	if errors.As(err, &te) && te.Hint() == "" || ctx.Err() != nil {
		ge := &GetError{Path: wanted, Proxy: m.tool.GOPROXY, Output: lastLines(string(stderr), 6)}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			ge.Err = ctx.Err()
		} else if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ge
	}
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 && m.modSum() != before {
		changes = append(changes, "completed go.mod and go.sum for "+wanted)
	}
	if len(changes) > 0 {
		os.Remove(filepath.Join(m.cacheDir(), m.namesFile()+".json"))
		m.named = nil // there are packages that there were not
	}
	return changes, m.refresh(ctx)
}

// selected returns the version of the module of a package that is in the graph of
// the notebook's modules, required by itself or by others; "" if there is none.
func (m *Module) selected(ctx context.Context, path string) string {
	best := ""
	version := ""
	for _, dep := range m.mod.required {
		if (path == dep.Path || strings.HasPrefix(path, dep.Path+"/")) && len(dep.Path) > len(best) {
			best, version = dep.Path, dep.Version
		}
	}
	if version != "" {
		return version
	}
	var prefixes []string
	for p := path; p != "." && p != "/"; p = pathpkg.Dir(p) {
		prefixes = append(prefixes, p)
	}
	// It needs the go.mod files alone, and asks for no module outside the graph.
	out, _, _ := m.run(ctx, m.online(), append([]string{"list", "-m", "-e", "-f", "{{.Path}} {{.Version}} {{.Error}}"}, prefixes...)...)
	for line := range strings.Lines(string(out)) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) == 3 && words[2] == "<nil>" && len(words[0]) > len(best) && semver.IsValid(words[1]) {
			best, version = words[0], words[1]
		}
	}
	return version
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
