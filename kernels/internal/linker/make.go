package linker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
)

//go:embed ahead/*.go.txt
var ahead embed.FS

// An edit changes a source file of cmd/link, if the piece from one of its lines up
// to another is the known one.
type edit struct {
	file, from, to string
	sum            string // first 16 digits of the piece's SHA-256
	old, new       string // what is replaced in the piece, by what; old "" = all of it
}

// known are the releases whose linkers Gaiden's tests have linked programs with. Those
// of others may have the same pieces and yet work differently.
var known = []string{"go1.26", "go1.27"}

// The pieces are those of the known releases.
var edits = []edit{
	{"ld/lib.go", "\ti := 0\n\tfor ; i < len(ctxt.Library); i++ {\n", "\t// We now have enough information to determine the link mode.\n",
		"1a0350628a76dbc4", "\ti := 0\n", "\ti := loadAhead(ctxt)\n"},
	{"loader/loader.go", "\t// Allocate space for symbols, making a guess as to how much space we need.\n\t// This function was", "\tfor _, vr := range st.linknameVarRefs {\n",
		"f3e301f656633d4d", "", "\tst := l.defineSyms()\n"},
	{"ld/outbuf_mmap.go", "\tout.buf, err = syscall.Mmap(", "\t// copy heap to new mapping\n",
		"77310ba99abf85fb", "\t\treturn err\n\t}\n", "\t\treturn err\n\t}\n\tmapped(out.buf)\n"},
	{"ld/main.go", "\tctxt.Out.Close() // Close handles", "\tbench.Start(\"hostlink\")\n",
		"ca3a4428e756b629", "necessary.\n", "necessary.\n\twritten()\n"},
	{"ld/deadcode.go", "\td.init()\n", "\n\tif ctxt.DynlinkingGo() {\n",
		"a7c5b5b1e2879b8a", "\td.init()\n", "\td.init()\n\td.reuse()\n"},
	{"ld/deadcode.go", "\t\t\t// No new work was discovered. Done.\n", "\t\t}\n\t\td.flood()\n",
		"0a83d691f0a80736", "Done.\n", "Done.\n\t\t\td.remember()\n"},
}

// added are the files that the linker has in addition to Go's own.
var added = map[string]string{"ld/ahead.go": "ahead/ld.go.txt", "ld/reached.go": "ahead/reached.go.txt", "loader/ahead.go": "ahead/loader.go.txt"}

// A SourceError reports a Go whose linker is not known.
type SourceError struct {
	Version string // "go1.28.1"
	File    string // of cmd/link/internal; "" = the release is not known
	Err     error  // why the file could not be read; nil = it has another text
}

func (e *SourceError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("linker: %v", e.Err)
	}
	if e.File == "" {
		return fmt.Sprintf("linker: got %s, want %s", e.Version, strings.Join(known, " or "))
	}
	return fmt.Sprintf("linker: cmd/link/internal/%s of %s: got another text than that of %s", e.File, e.Version, strings.Join(known, " and "))
}

func (e *SourceError) Unwrap() error { return e.Err }

// Find returns the program that Make has made in dir for this version of Go
// ("go1.26.8"), "" if there is none. The error says that there is one that cannot
// be used: it is damaged, or others may write to it.
func Find(dir, version string) (string, error) {
	path := name(dir, version)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err := wire.TrustedPath(path); err != nil {
		return "", err
	}
	if _, err := new(sealed.Verifier).Verify(path); err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&0o100 == 0 {
		return "", fmt.Errorf("linker: %s is not executable", path)
	}
	return path, nil
}

func name(dir, version string) string {
	h := sha256.New()
	fmt.Fprintln(h, "sealed")
	for _, e := range edits {
		fmt.Fprintln(h, e)
	}
	for _, file := range slices.Sorted(maps.Values(added)) {
		text, _ := ahead.ReadFile(file) // it is in this program
		h.Write(text)
	}
	return filepath.Join(dir, fmt.Sprintf("link-%s-%x", version, h.Sum(nil)[:6]))
}

// Make builds the linker of the go command's toolchain and keeps it in dir. What
// is there already is left as it is. The error is a *SourceError where this Go's
// linker is another than the known one.
func Make(ctx context.Context, goCommand, dir string) (path string, err error) {
	out, err := run(ctx, goCommand, nil, "env", "-json", "GOROOT", "GOVERSION")
	if err != nil {
		return "", fmt.Errorf("linker: go env: %w", err)
	}
	var tool struct{ GOROOT, GOVERSION string }
	if err := json.Unmarshal(out, &tool); err != nil {
		return "", fmt.Errorf("linker: go env: %w", err)
	}
	if release := strings.FieldsFunc(tool.GOVERSION, func(r rune) bool { return r == '.' || r == ' ' || r == '-' }); len(release) < 2 || !slices.Contains(known, release[0]+"."+release[1]) {
		return "", &SourceError{Version: tool.GOVERSION}
	}
	if path, err := Find(dir, tool.GOVERSION); path != "" && err == nil {
		return path, nil
	}
	work, err := os.MkdirTemp("", "gaiden-linker-")
	if err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	defer os.RemoveAll(work)
	overlay, err := overlay(work, tool.GOVERSION, filepath.Join(tool.GOROOT, "src", "cmd", "link", "internal"))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	if err := wire.TrustedPath(dir); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(dir, "link-*"))
	path = name(dir, tool.GOVERSION)
	left, _ := filepath.Glob(filepath.Join(dir, scratchPrefix+"*"))
	for _, l := range left {
		if info, err := os.Stat(l); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(l) // whoever made it did not come to the end
		}
	}
	scratch, err := os.MkdirTemp(dir, scratchPrefix)
	if err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	defer os.RemoveAll(scratch)
	fresh := filepath.Join(scratch, "link")
	// A Go that the go command has downloaded is in the module cache, whose files it
	// does not let us replace. The linker needs no module.
	env := []string{"GOMODCACHE=" + filepath.Join(work, "modules")}
	if _, err := run(ctx, goCommand, env, "build", "-trimpath", "-ldflags=-s -w", "-overlay", overlay, "-o", fresh, "cmd/link"); err != nil {
		return "", fmt.Errorf("linker: go build cmd/link: %w", err)
	}
	if err := sealed.Append(fresh, filepath.Base(path), nil); err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	if err := sealed.Publish(fresh, path); err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	for _, o := range old {
		if o != path {
			os.Remove(o)
		}
	}
	return path, nil
}

// run runs the go command, and returns what it has written. It ends with the context,
// and with this process, however that ends: the system kills it when the thread that
// started it is gone.
func run(ctx context.Context, goCommand string, env []string, args ...string) (out []byte, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, goCommand, args...)
	cmd.Env = append(environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its compilers, too
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	if out, err = cmd.Output(); err != nil {
		return nil, fmt.Errorf("%w: %s", cmp.Or(ctx.Err(), err), bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

const scratchPrefix = ".linker-"

func environ() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// overlay writes the changed files into work, and the list of them that the go
// command wants, whose name it returns.
func overlay(work, version, source string) (string, error) {
	replace := map[string]string{}
	put := func(file, text string) error {
		to := filepath.Join(work, strings.ReplaceAll(file, "/", "_"))
		replace[filepath.Join(source, file)] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	changed := map[string]string{}
	for _, e := range edits {
		if changed[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(source, e.file))
			if err != nil {
				return "", &SourceError{version, e.file, err}
			}
			changed[e.file] = string(text)
		}
		text, ok := e.apply(changed[e.file])
		if !ok {
			return "", &SourceError{Version: version, File: e.file}
		}
		changed[e.file] = text
	}
	for file, text := range changed {
		if err := put(file, text); err != nil {
			return "", fmt.Errorf("linker: %w", err)
		}
	}
	for file, from := range added {
		text, err := ahead.ReadFile(from)
		if err == nil {
			err = put(file, string(text))
		}
		if err != nil {
			return "", fmt.Errorf("linker: %w", err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "overlay.json"), list, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("linker: %w", err)
	}
	return filepath.Join(work, "overlay.json"), nil
}

// apply makes the edit, if the piece is the known one and there is one alone.
func (e edit) apply(text string) (string, bool) {
	before, rest, found := strings.Cut(text, e.from)
	piece, after, ended := strings.Cut(e.from+rest, e.to)
	if !found || !ended || strings.Contains(rest, e.from) {
		return "", false
	}
	if fmt.Sprintf("%x", sha256.Sum256([]byte(piece)))[:16] != e.sum {
		return "", false
	}
	changed := e.new
	if e.old != "" {
		changed = strings.Replace(piece, e.old, e.new, 1)
	}
	return before + changed + e.to + after, true
}
