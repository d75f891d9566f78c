package main

import (
	"os"
	"path/filepath"
	"strings"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// packageShare is where scripts/wheel puts the library, in a Python environment whose
// bin directory has the program. The version is in the path: a kernel that runs while
// another version is installed must not compile cells with that one's library.
func packageShare(prefix string) string {
	return filepath.Join(prefix, "share", "gaiden", session.Version)
}

// packageSpec is how the kernelspec of a Python package names its program: Jupyter
// replaces {resource_dir} with the kernelspec's own directory, PREFIX/share/jupyter/kernels/gaiden.
const packageSpec = "{resource_dir}/../../../../bin/gaiden"

// enterPackage lets a program that a Python package installed, and all that it starts,
// use the library and the tools of the same environment: its go, python and gaiden come
// first in PATH. Any other program of ours forgets the environment that started it.
func enterPackage(self string) {
	bin := filepath.Dir(self)
	prefix := filepath.Dir(bin)
	if filepath.Base(bin) != "bin" || !exists(filepath.Join(packageShare(prefix), "src", "go.mod")) {
		os.Unsetenv(wire.HomeEnv)
		return
	}
	os.Setenv(wire.HomeEnv, packageShare(prefix))
	first := []string{bin}
	if toolchain, _ := filepath.Glob(filepath.Join(prefix, "lib/python3*/*-packages/go/bin")); len(toolchain) > 0 {
		first = append(toolchain, bin) // the extra [go]; its entry point go would start Python each time
	}
	path := os.Getenv("PATH")
	if joined := strings.Join(first, ":"); path != joined && !strings.HasPrefix(path, joined+":") {
		os.Setenv("PATH", strings.TrimSuffix(joined+":"+path, ":"))
	}
}
