package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// TestPackage: a program in the bin directory of a prefix uses library, tools and plugin
// of that prefix, which may have any path; a program elsewhere uses none of them.
func TestPackage(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+((a|b|rc)\d+)?$`).MatchString(session.Version) {
		t.Errorf("version: got %s, want one that pip takes as it is, such as 1.2.3 or 1.2.3rc1", session.Version)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(t.TempDir(), "environment")
	var out, said bytes.Buffer
	if code := gaiden([]string{"install", "-source", root, "-package", prefix}, &out, &said); code != 0 || out.Len() > 0 {
		t.Fatalf("install -package: got status %d, %s%s", code, out.String(), said.String())
	}
	bin, home := filepath.Join(prefix, "bin"), filepath.Join(prefix, "share", "gaiden", session.Version)
	plugin := filepath.Join(prefix, "lib/python3.12/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so")
	toolchain := filepath.Join(prefix, "lib/python3.12/site-packages/go/bin")
	for _, f := range []string{filepath.Join(bin, "gaiden"), plugin, filepath.Join(toolchain, "go")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var spec struct{ Argv []string }
	dir := filepath.Join(prefix, "share", "jupyter", "kernels", "gaiden")
	b, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &spec); err != nil {
		t.Fatal(err)
	}
	if got, want := filepath.Clean(strings.ReplaceAll(spec.Argv[0], "{resource_dir}", dir)), filepath.Join(bin, "gaiden"); got != want {
		t.Errorf("kernelspec: got program %s, want %s", got, want)
	}
	for _, f := range []string{"go.mod", "lib/fit/net.go", "lib/engine/device/worker.go", "lib/fit/net_test.go"} {
		if got, want := exists(filepath.Join(home, "src", f)), !strings.Contains(f, "device") && !strings.Contains(f, "_test"); got != want {
			t.Errorf("%s in the library: got %t, want %t", f, got, want)
		}
	}

	t.Setenv("PATH", "/usr/bin")
	t.Setenv("GAIDEN_PLUGIN", "")
	t.Setenv("GAIDEN_DEVICE", "cpu")
	t.Setenv(wire.HomeEnv, "/elsewhere")
	for range 2 { // the second is a program that the first has started
		enterPackage(filepath.Join(bin, "gaiden"))
		if got := wire.DataDir(); got != home {
			t.Errorf("library: got %s, want that in %s", got, home)
		}
		if got, want := os.Getenv("PATH"), toolchain+":"+bin+":/usr/bin"; got != want {
			t.Errorf("PATH: got %s, want %s", got, want)
		}
	}
	if p, err := device.Find(); err != nil || filepath.Clean(p.Path) != plugin {
		t.Errorf("plugin: got %s, %v, want %s", p.Path, err, plugin)
	}
	enterPackage("/usr/local/share/gaiden/bin/gaiden")
	if got, want := wire.DataDir(), wire.UserDataDir(); got != want {
		t.Errorf("another program's library: got %s, want %s", got, want)
	}
}
