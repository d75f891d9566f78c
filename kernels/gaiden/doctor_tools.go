package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gaiden/kernels/internal/cell/complete"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// said is what a command prints, trimmed, or an error with the end of it.
func said(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s has not answered in time", name)
	}
	if err != nil {
		lines := strings.Split(text, "\n")
		return "", fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-3):], "\n"))
	}
	return text, nil
}

const getGo = "install Go 1.26 or newer: unpack it from go.dev/dl and put its bin directory into PATH"

func checkGo(ctx context.Context) (out []finding) {
	path, err := exec.LookPath("go")
	if err != nil {
		return []finding{bad(getGo, "go is not in PATH")}
	}
	text, err := said(ctx, "", []string{"GOTOOLCHAIN=local"}, path, "env", "-json", "GOVERSION", "GOTOOLDIR", "GOFLAGS", "GOCACHE", "GOPROXY")
	if err != nil {
		if strings.Contains(err.Error(), "go: ") { // it runs, and complains
			return []finding{bad("unset it, and go env -u NAME where it was written with go env -w", "Go does not take one of its settings, and no cell can be compiled: %v", err)}
		}
		return []finding{bad(getGo, "%s: %v", path, err)}
	}
	var env map[string]string
	if err := json.Unmarshal([]byte(text), &env); err != nil {
		return []finding{bad(getGo, "%s env: %v", path, err)}
	}
	var major, minor int
	if n, _ := fmt.Sscanf(env["GOVERSION"], "go%d.%d", &major, &minor); n == 2 && (major < 1 || major == 1 && minor < 26) {
		return []finding{bad(getGo, "%s is %s", path, env["GOVERSION"])}
	}
	for _, tool := range []string{"compile", "link"} {
		if _, err := exec.LookPath(filepath.Join(env["GOTOOLDIR"], tool)); err != nil {
			return []finding{bad("install Go again: its archive is not whole", "%s lacks %s: %v", env["GOVERSION"], tool, errors.Unwrap(err))}
		}
	}
	if env["GOCACHE"] == "off" || writable(env["GOCACHE"]) != nil {
		out = append(out, bad("go env -u GOCACHE, or see that you may write there", "Go's cache %s cannot be written to", env["GOCACHE"]))
	} else if err := wire.TrustedPath(env["GOCACHE"]); err != nil && !errors.Is(err, os.ErrNotExist) { // cells are linked from what is there
		out = append(out, bad(hintOf(err)+"; or name another with GOCACHE", "Go's cache: %v", err))
	}
	if env["GOPROXY"] == "off" {
		out = append(out, worse("go env -u GOPROXY, if there is a network", "GOPROXY is off: %%require cannot fetch"))
	}
	return append(append(out, checkSettings(ctx, path)...), good("%s at %s", env["GOVERSION"], path))
}

func checkLibrary(ctx context.Context) []finding {
	lib := filepath.Join(wire.DataDir(), "src")
	if !exists(filepath.Join(lib, "go.mod")) {
		return []finding{bad("scripts/run installs it; or gaiden install -source DIRECTORY", "%s has no library for cells", lib)}
	}
	if _, err := exec.LookPath("go"); err != nil {
		return []finding{good("%s", lib)} // what go lacks has been said
	}
	if _, err := said(ctx, lib, []string{"GOPROXY=off", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0"}, "go", "list", "-deps", "./lib/report"); err != nil {
		return []finding{bad("go mod download in "+lib, "modules that the library needs are missing: %v", err)}
	}
	return []finding{good("%s, and the modules that it needs", lib)}
}

func checkGopls(ctx context.Context) []finding {
	path := filepath.Join(wire.DataDir(), "bin", "gopls")
	if !exists(path) {
		var err error
		if path, err = new(complete.Gopls).Find(); err != nil {
			return []finding{worse("go install golang.org/x/tools/gopls@v0.21.1", "gopls is missing: Tab completes names, but Shift-Tab shows no documentation; cells run")}
		}
	}
	v, err := said(ctx, "", nil, path, "version")
	if err != nil {
		return []finding{worse("remove it, then go install golang.org/x/tools/gopls@v0.21.1", "%s: %v", path, err)}
	}
	first, _, _ := strings.Cut(v, "\n")
	return []finding{good("%s at %s", first, path)}
}

func checkPython(ctx context.Context) []finding {
	const do = "only Jupyter needs it (gaiden run does not): sudo apt-get install python3 python3-venv"
	path, err := exec.LookPath("python3")
	if err != nil {
		return []finding{worse(do, "python3 is not in PATH")}
	}
	v, err := said(ctx, "", nil, path, "-c", "import sys, venv, ensurepip; print('%d.%d.%d' % sys.version_info[:3])")
	if err != nil {
		return []finding{worse(do, "%s: %v", path, err)}
	}
	var major, minor int
	if n, _ := fmt.Sscanf(v, "%d.%d", &major, &minor); n != 2 || major < 3 || minor < 10 {
		return []finding{worse("install Python 3.10 or newer", "%s is %s", path, v)}
	}
	return []finding{good("%s at %s", v, path)}
}

func checkJupyter(ctx context.Context) []finding {
	const do = "scripts/run lab sets it up in .venv; or python3 -m pip install jupyterlab"
	path, err := exec.LookPath("jupyter")
	if err != nil {
		return []finding{worse(do, "jupyter is not in PATH (scripts/run has its own)")}
	}
	v, err := said(ctx, "", nil, path, "--version")
	if err != nil {
		return []finding{worse(do, "%s: %v", path, err)}
	}
	var versions []string
	for line := range strings.Lines(v) {
		name, version, ok := strings.Cut(line, ":")
		name, version = strings.TrimSpace(name), strings.TrimSpace(version)
		if ok && (name == "jupyterlab" || name == "jupyter_client" || name == "notebook") && version != "not installed" {
			versions = append(versions, name+" "+version)
		}
	}
	return []finding{good("%s at %s", cmp.Or(strings.Join(versions, ", "), "no JupyterLab, "), path)}
}

// checkKernelspecs looks at all kernelspecs of ours in the user's directory, in
// the system's, and in the Python environment that is active.
func checkKernelspecs(context.Context) (out []finding) {
	dirs := []string{kernelsDir("")}
	environments := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), "/usr/local", "/usr"}
	if home := os.Getenv(wire.HomeEnv); home != "" {
		environments = append([]string{filepath.Join(home, "../../..")}, environments...)
	}
	for _, prefix := range environments {
		if dir := kernelsDir(prefix); prefix != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	self, _ := os.Executable()
	for _, dir := range dirs {
		specs, _ := filepath.Glob(filepath.Join(dir, "*", "kernel.json"))
		for _, spec := range specs {
			text, err := os.ReadFile(spec)
			var k struct {
				Argv     []string
				Metadata map[string]any
			}
			if err != nil || json.Unmarshal(text, &k) != nil || len(k.Argv) == 0 {
				if filepath.Base(filepath.Dir(spec)) == "gaiden" {
					out = append(out, worse("gaiden install writes it again", "%s cannot be read", spec))
				}
				continue
			}
			version, ours := k.Metadata["gaiden"].(string)
			if !ours {
				continue
			}
			k.Argv[0] = filepath.Clean(strings.ReplaceAll(k.Argv[0], "{resource_dir}", filepath.Dir(spec))) // as Jupyter does
			switch _, err := exec.LookPath(k.Argv[0]); {
			case err != nil:
				out = append(out, worse("gaiden install writes it again; gaiden install -uninstall -name NAME removes it", "%s starts %s, which is not there", spec, k.Argv[0]))
			case k.Argv[0] == self && version != session.Version:
				out = append(out, worse("gaiden install writes it again", "%s is of version %s, this is %s", spec, version, session.Version))
			default:
				out = append(out, good("%s, version %s", spec, version))
			}
		}
	}
	if len(out) == 0 {
		out = []finding{worse("gaiden install", "Jupyter knows no kernel of Gaiden (looked in %s)", strings.Join(dirs, ", "))}
	}
	return out
}

func checkSession(context.Context) []finding {
	if _, err := os.Lstat(wire.SocketPath()); errors.Is(err, fs.ErrNotExist) {
		if free, _ := unlocked(); !free {
			return []finding{worse("gaiden session stop ends it", "process %s has no socket: it starts, or the socket has been removed", supervisorPID())}
		}
		return []finding{good("not running; the first cell starts it")}
	}
	s, err := connect()
	if err != nil {
		return []finding{worse(cmp.Or(hintOf(err), "gaiden session start replaces it"), "%v", err)}
	}
	defer s.Close()
	st, err := s.Status()
	if err != nil {
		return []finding{worse(cmp.Or(hintOf(err), "gaiden session stop, then start"), "%v", err)}
	}
	if st.Version != session.Version {
		return []finding{worse("gaiden session stop: the next cell starts one of this version, with the saved arrays", "the session is of version %s, this is %s", st.Version, session.Version)}
	}
	out := []finding{good("version %s, %s, %d arrays, worker %d", st.Version, st.Platform, st.Arrays, st.Generation)}
	if st.Trouble != "" {
		out = append(out, worse("free some space, or see "+st.Log, "snapshots are not written: %s", st.Trouble))
	}
	if st.Cache.Off != "" {
		out = append(out, worse("cells work, but each session recompiles their programs", "%s", cacheLine(st.Cache)))
	}
	return out
}
