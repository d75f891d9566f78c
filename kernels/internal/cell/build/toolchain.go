package build

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A toolchain is the installed Go with its settings, as "go env" says.
type toolchain struct {
	GOVERSION, GOTOOLDIR, GOROOT, GOARCH, GOCACHE, GOENV, GOPROXY, CC string

	// settings are all that may change what is compiled, as NAME=VALUE. They come
	// from the environment and from Go's own files ("go env -w"). Compiler and
	// linker read the environment alone, so they are given all of them, as is the
	// go command: what it compiles fits to what they do.
	settings []string
	stamp    string // of the files that settings are read from
}

// notSettings are the values of "go env" that say where things are, how modules
// are fetched, or what the go command does itself: a program is the same with
// others. What is not listed, also what a later Go may add, is a setting.
var notSettings = map[string]bool{
	"AR": true, "CGO_ENABLED": true, "GCCGO": true, "GO111MODULE": true, "GOAUTH": true, "GOBIN": true, "GOCACHE": true, "GOCACHEPROG": true,
	"GOENV": true, "GOFLAGS": true, "GOGCCFLAGS": true, "GOINSECURE": true, "GOMOD": true, "GOMODCACHE": true, "GONOPROXY": true,
	"GONOSUMDB": true, "GOPATH": true, "GOPRIVATE": true, "GOPROXY": true, "GOSUMDB": true, "GOTELEMETRY": true, "GOTELEMETRYDIR": true,
	"GOTMPDIR": true, "GOTOOLCHAIN": true, "GOVCS": true, "GOWORK": true,
}

// readOnly are settings of which Go has its own idea: they are compared, not given.
var readOnly = map[string]bool{"GOEXE": true, "GOHOSTARCH": true, "GOHOSTOS": true, "GOROOT": true, "GOTOOLDIR": true, "GOVERSION": true}

// findToolchain asks the go command for its settings, again when a file of
// settings has changed. m.mu is held.
func (m *Module) findToolchain(ctx context.Context) error {
	if m.tool.GOVERSION != "" && m.tool.stamp == m.tool.files() {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(m.Dir, ".gaiden"), 0o700); err != nil {
		return fmt.Errorf("cell: module: %w", err)
	}
	m.pinned.Store(nil)
	out, _, err := m.run(ctx, append(m.base(), "GOFLAGS=-buildvcs=false"), "env", "-json")
	if err != nil {
		return err
	}
	values := map[string]string{}
	tool := toolchain{}
	if err := json.Unmarshal(out, &values); err != nil {
		return fmt.Errorf("cell: go env: %w", err)
	}
	if err := json.Unmarshal(out, &tool); err != nil {
		return fmt.Errorf("cell: go env: %w", err)
	}
	var pinned []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if notSettings[name] {
			continue
		}
		tool.settings = append(tool.settings, name+"="+values[name])
		if !readOnly[name] {
			pinned = append(pinned, name+"="+values[name])
		}
	}
	tool.stamp = tool.files()
	m.tool = tool
	m.pinned.Store(&pinned)
	return nil
}

// files returns a stamp of the files that hold Go's settings.
func (t toolchain) files() string {
	return fileStamp(t.GOENV) + fileStamp(filepath.Join(t.GOROOT, "go.env")) + os.Getenv("GOENV")
}

// base is the environment of the go command, the compiler and the linker: the
// process' own, Go's settings, and this machine as what is compiled for.
func (m *Module) base() []string {
	env := append(os.Environ(), "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH, "GO111MODULE=on", "GOTOOLCHAIN=local")
	if pinned := m.pinned.Load(); pinned != nil {
		env = append(env, *pinned...)
	}
	return env
}

// Environ returns the environment for the go command: no network, no cgo, no
// other toolchain than the one installed, no workspace but the module's own.
func (m *Module) Environ() []string {
	env := append(m.base(), "CGO_ENABLED=0", "GOWORK="+m.workspace(), "GOFLAGS=-buildvcs=false"+m.tags(nil))
	if m.workspace() == "off" {
		// A workspace is somebody's own doing, and may need modules that the
		// cells' go.mod knows nothing of.
		env = append(env, "GOPROXY=off")
	}
	return env
}

// online returns the environment for the go command when it may change go.mod
// and ask the module proxy.
func (m *Module) online() []string {
	env := append(m.base(), "CGO_ENABLED=0", "GOWORK="+m.workspace())
	if m.workspace() != "off" {
		return append(env, "GOFLAGS=-buildvcs=false"+m.tags(nil)) // -mod=mod and a workspace exclude each other
	}
	return append(env, "GOFLAGS=-mod=mod -buildvcs=false"+m.tags(nil))
}

// tags returns the flag with the build tags of the module, and those that the given
// flags have: of two such flags the go command takes the last.
func (m *Module) tags(flags []string) string {
	all := slices.Clone(m.Tags)
	for i, f := range flags {
		name, value, has := strings.Cut(strings.TrimPrefix(f, "-"), "=")
		if strings.TrimPrefix(name, "-") != "tags" {
			continue
		}
		if !has && i+1 < len(flags) {
			value = flags[i+1]
		}
		all = append(all, value)
	}
	if len(all) == 0 {
		return ""
	}
	return " -tags=" + strings.Join(all, ",")
}

// toolEnviron returns the environment for compiler and linker. The linker writes GOROOT
// into a program, for runtime.GOROOT.
func (m *Module) toolEnviron() []string {
	m.mu.Lock()
	root := m.tool.GOROOT
	m.mu.Unlock()
	// A build ends before its garbage collector would pay off.
	return append(m.base(), "GOROOT="+root, "GOGC=off", "GOMEMLIMIT=1GiB")
}

// ChangedSettings picks from what "go env -changed -json" prints the settings that
// change what cells are compiled to, as NAME=VALUE.
func ChangedSettings(output []byte) (changed []string, err error) {
	values := map[string]string{}
	if err := json.Unmarshal(output, &values); err != nil {
		return nil, fmt.Errorf("cell: go env: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !notSettings[name] && !readOnly[name] && name != "GOOS" && name != "GOARCH" {
			changed = append(changed, name+"="+values[name])
		}
	}
	return changed, nil
}
