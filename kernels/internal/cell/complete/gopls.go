// Package complete completes the text of a cell and finds documentation: with gopls, Go's language
// server, or without it from the names that are known.
package complete

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf16"

	"gaiden/kernels/internal/cell/build"
	"gaiden/lib/engine/wire"
)

// Gopls is Go's language server, for completion and documentation. It is
// started when it is first asked. Methods may be called at the same time; they
// take turns. The zero value, with Module set, is ready to use.
type Gopls struct {
	Path   string // "" = gopls in PATH, or in the directory where go install puts it
	Module *build.Module
	Mark   string // value of wire.CellEnv for the process

	mu     sync.Mutex
	conn   *lspConn
	cmd    *exec.Cmd
	ended  chan struct{}
	files  map[string]int // versions of the files it has seen
	failed error          // why it cannot be started; it is not tried again
	closed bool
	group  atomic.Int64 // its process group, while it lives
}

// ErrNoGopls is returned while gopls is not installed.
var ErrNoGopls = errors.New("cell: gopls is not installed; run go install golang.org/x/tools/gopls@v0.21.1 in a terminal")

// A Candidate is something that the text may continue with.
type Candidate struct {
	Text   string // replaces the name before the cursor
	Kind   string // "function", "module", … as Jupyter's front ends name them
	Detail string // its type
	Label  string // what is shown of it; "" = Text
}

// Find returns the gopls to be started.
func (g *Gopls) Find() (string, error) {
	if g.Path != "" {
		if _, err := os.Stat(g.Path); err != nil {
			return "", ErrNoGopls
		}
		return g.Path, nil
	}
	if p, err := exec.LookPath("gopls"); err == nil {
		return p, nil
	}
	gopath := filepath.Join(wire.HomeDir(), "go")
	if list := filepath.SplitList(os.Getenv("GOPATH")); len(list) > 0 {
		gopath = list[0]
	}
	for _, dir := range []string{os.Getenv("GOBIN"), filepath.Join(gopath, "bin")} {
		p := filepath.Join(dir, "gopls")
		if !filepath.IsAbs(p) {
			continue // it would be the notebook's; the go command refuses such a GOBIN or GOPATH, too
		}
		if err := wire.TrustedPath(p); err == nil {
			return p, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", ErrNoGopls
}

// start starts the server if it does not run. g.mu is held.
func (g *Gopls) start(ctx context.Context) error {
	if g.failed != nil || g.closed {
		return cmp.Or(g.failed, error(os.ErrClosed))
	}
	if g.conn != nil {
		select {
		case <-g.ended:
			g.conn = nil // it died; another one may live longer
		default:
			return nil
		}
	}
	path, err := g.Find()
	if err != nil {
		g.failed = err
		return err
	}
	if err := g.Module.Refresh(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(g.dir(), 0o700); err != nil {
		return fmt.Errorf("cell: gopls: %w", err)
	}
	cmd := exec.Command(path, "-mode=stdio")
	cmd.Dir = g.Module.Dir
	cmd.Env = g.Module.Environ()
	if g.Mark != "" {
		cmd.Env = append(cmd.Env, wire.CellEnv+"="+g.Mark)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // see running.start
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Process.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		g.failed = fmt.Errorf("cell: gopls: %w", err)
		return g.failed
	}
	g.cmd, g.ended, g.files = cmd, ended, map[string]int{}
	g.group.Store(int64(cmd.Process.Pid))
	g.conn = newLSPConn(stdout, stdin)
	root := fileURI(g.Module.Dir)
	params := map[string]any{
		"processId": os.Getpid(), "rootUri": root,
		"workspaceFolders":      []any{map[string]any{"uri": root, "name": "cells"}},
		"initializationOptions": goplsSettings,
		"capabilities": map[string]any{
			"workspace": map[string]any{"configuration": true, "workspaceFolders": true},
			"textDocument": map[string]any{
				"hover":      map[string]any{"contentFormat": []string{"markdown", "plaintext"}},
				"completion": map[string]any{"completionItem": map[string]any{"snippetSupport": false}},
			},
		},
	}
	if err := g.conn.call(ctx, "initialize", params, nil); err != nil {
		g.kill()
		return err
	}
	return g.conn.notify("initialized", map[string]any{})
}

// dir is where gopls sees the cells: a package of its own, so that the program
// that is being run does not get in its way.
func (g *Gopls) dir() string { return filepath.Join(g.Module.Dir, "gopls") }

func fileURI(path string) string { return "file://" + filepath.ToSlash(path) }

// open tells the server the texts of both files.
func (g *Gopls) open(s Sketch, remembered string) (uri string, err error) {
	for name, text := range map[string]string{"remembered.go": remembered, "cell.go": s.Text} {
		uri := fileURI(filepath.Join(g.dir(), name))
		version := g.files[uri] + 1
		g.files[uri] = version
		if version == 1 {
			err = g.conn.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
				"uri": uri, "languageId": "go", "version": version, "text": text}})
		} else {
			err = g.conn.notify("textDocument/didChange", map[string]any{
				"textDocument":   map[string]any{"uri": uri, "version": version},
				"contentChanges": []any{map[string]any{"text": text}}})
		}
		if err != nil {
			return "", err
		}
	}
	return fileURI(filepath.Join(g.dir(), "cell.go")), nil
}

// at returns the request parameters for the sketch's cursor; the protocol
// counts UTF-16 units.
func (s Sketch) at(uri string) map[string]any {
	line := strings.Split(s.Text+"\n", "\n")[min(s.Line, strings.Count(s.Text, "\n"))]
	column := len(utf16.Encode([]rune(line[:min(s.Column, len(line))])))
	return map[string]any{
		"textDocument": map[string]any{"uri": uri},
		"position":     map[string]any{"line": s.Line, "character": column},
	}
}

// Complete returns what the sketch may continue with.
func (g *Gopls) Complete(ctx context.Context, s Sketch, remembered string) ([]Candidate, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.start(ctx); err != nil {
		return nil, err
	}
	uri, err := g.open(s, remembered)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Label, Detail, InsertText string
			Kind                      int
			TextEdit                  *struct{ NewText string }
		}
	}
	if err := g.conn.call(ctx, "textDocument/completion", s.at(uri), &list); err != nil {
		return nil, err
	}
	var out []Candidate
	for _, it := range list.Items {
		text := cmp.Or(it.InsertText, it.Label)
		if it.TextEdit != nil {
			text = it.TextEdit.NewText
		}
		if !strings.HasPrefix(strings.ToLower(text), strings.ToLower(s.Word)) {
			continue // it would replace more than the name
		}
		out = append(out, Candidate{Text: text, Kind: completionKind(it.Kind), Detail: it.Detail})
	}
	return out, nil
}

// completionKind names the protocol's kinds.
func completionKind(k int) string {
	names := map[int]string{2: "function", 3: "function", 5: "property", 6: "instance", 7: "class",
		8: "class", 9: "module", 14: "keyword", 21: "constant", 22: "class", 25: "class"}
	return cmp.Or(names[k], "text")
}

// Hover returns documentation, as Markdown, of what stands at the cursor; ""
// if there is none.
func (g *Gopls) Hover(ctx context.Context, s Sketch, remembered string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.start(ctx); err != nil {
		return "", err
	}
	uri, err := g.open(s, remembered)
	if err != nil {
		return "", err
	}
	var hover *struct{ Contents struct{ Kind, Value string } }
	err = g.conn.call(ctx, "textDocument/hover", s.at(uri), &hover)
	if err != nil || hover == nil {
		return "", err
	}
	return hover.Contents.Value, nil
}

// kill ends the process and what it started. g.mu is held.
func (g *Gopls) kill() {
	if g.cmd == nil {
		return
	}
	syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	select {
	case <-g.ended:
	case <-time.After(2 * time.Second):
	}
	g.group.Store(0)
	g.conn = nil
}

// Close ends the server; it is not started again.
func (g *Gopls) Close() {
	if pid := int(g.group.Load()); pid != 0 {
		// Without the lock: whoever holds it waits for an answer that ends so.
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.kill()
}

// Installed reports whether there is a gopls that can be started.
func (g *Gopls) Installed() bool {
	_, err := g.Find()
	return err == nil
}
