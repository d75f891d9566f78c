package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/sysinfo"
)

func checkSystem(context.Context) []finding {
	if runtime.GOOS != "linux" {
		return []finding{bad("use Linux, or a container with it", "this is %s", runtime.GOOS)}
	}
	return []finding{good("gaiden %s on %s/%s, %d CPUs", session.Version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
}

func checkHome(context.Context) (out []finding) {
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "TMPDIR"} {
		if dir := os.Getenv(name); dir != "" && !filepath.IsAbs(dir) {
			out = append(out, worse("set it to the whole path, or unset it: Gaiden ignores it, and Go may refuse it", "%s is %s: got a relative path, want an absolute one", name, dir))
		}
	}
	home := os.Getenv("HOME")
	switch info, err := os.Stat(home); {
	case home == "":
		out = append(out, worse("export HOME, or the XDG_…_HOME variables", "HOME is not set: what is kept goes to %s", wire.HomeDir()))
	case filepath.IsAbs(home) && (err != nil || !info.IsDir()):
		out = append(out, worse("make that directory, or set HOME", "HOME is %s, which is not a directory", home))
	}
	if len(out) == 0 {
		out = []finding{good("%s", home)}
	}
	return out
}

// The directories that are written to, by what they are for.
func directories() map[string]string {
	return map[string]string{"runtime": wire.RuntimeDir(), "cache": wire.CacheDir(), "state": wire.StateDir(), "data": wire.DataDir(), "temporary": wire.TempDir()}
}

func checkDirectories(context.Context) (out []finding) {
	dirs := directories()
	for _, what := range []string{"runtime", "cache", "state", "data", "temporary"} {
		dir := dirs[what]
		if what == "runtime" && exists(dir) {
			if err := wire.PrivateDir(dir); err != nil {
				out = append(out, bad(hintOf(err), "%v", err))
				continue
			}
		} else if err := writable(dir); err != nil {
			out = append(out, bad("see that it is yours and writable, or name another with "+variable(what), "%s directory: %v", what, err))
			continue
		}
		var fs syscall.Statfs_t
		const noexec = 8                                              // ST_NOEXEC: programs of cells could not be started
		if what == "cache" || what == "data" || what == "temporary" { // programs and plugins are run from there
			subs := []string{"", "bin", "plugins", "programs", "src", "cells", "cells/binaries"}
			if what == "temporary" { // shared with others, who may not touch a new directory in it
				subs = []string{".gaiden-doctor"}
			}
			for _, sub := range subs {
				if err := wire.TrustedPath(filepath.Join(dir, sub)); err != nil && !errors.Is(err, os.ErrNotExist) {
					out = append(out, bad(hintOf(err)+"; or name another with "+variable(what), "%s directory: %v", what, err))
					break
				}
			}
		}
		if (what == "cache" || what == "temporary") && syscall.Statfs(nearest(dir), &fs) == nil && fs.Flags&noexec != 0 {
			out = append(out, bad("name another with "+variable(what), "%s directory %s: its file system runs no programs (noexec)", what, dir))
		}
	}
	if len(out) == 0 {
		out = []finding{good("all can be written to")}
	}
	return out
}

func variable(what string) string {
	switch what {
	case "temporary":
		return "TMPDIR"
	case "runtime":
		return "XDG_RUNTIME_DIR"
	}
	return "XDG_" + strings.ToUpper(what) + "_HOME"
}

// writable tries, also whether a directory that is not there yet could be made.
func writable(dir string) error {
	dir = nearest(dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cmp.Or(err, fmt.Errorf("%s is not a directory", dir))
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// nearest is a directory, or of those that it is to lie in the first that is there.
func nearest(dir string) string {
	for !exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	return dir
}

func checkDisk(context.Context) (out []finding) {
	const little, tooLittle = 2 << 30, 200 << 20
	seen := map[syscall.Fsid]bool{}
	dirs := directories()
	for _, what := range []string{"cache", "state", "data", "temporary"} {
		var fs syscall.Statfs_t
		if syscall.Statfs(nearest(dirs[what]), &fs) != nil || seen[fs.Fsid] && fs.Fsid != (syscall.Fsid{}) {
			continue
		}
		seen[fs.Fsid] = true
		free := int64(fs.Bavail) * fs.Bsize
		said := fmt.Sprintf("%s: %.1f GiB free", dirs[what], float64(free)/(1<<30))
		const do = "free some space: go clean -cache, and old files in "
		switch {
		case free < tooLittle:
			out = append(out, bad(do+dirs["cache"], "%s", said))
		case free < little:
			out = append(out, worse(do+dirs["cache"], "%s", said))
		case fs.Files > 0 && fs.Ffree < 1000:
			out = append(out, bad("remove files that are not needed", "%s: %d more files can be made", dirs[what], fs.Ffree))
		default:
			out = append(out, good("%s", said))
		}
	}
	return out
}

func checkLimits(ctx context.Context) (out []finding) {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil && files.Max < 1024 {
		out = append(out, worse("ulimit -n 4096", "at most %d open files", files.Max))
	}
	if m := sysinfo.ReadMemory().Free; m >= 0 && m < 1<<30 {
		out = append(out, worse("end other programs: compiling libraries takes 1 GiB", "%d MiB of memory are available", m>>20))
	}
	if len(out) == 0 {
		out = []finding{good("open files, memory")}
	}
	return out
}

func checkPorts(context.Context) []finding {
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return []finding{bad("a kernel listens on five ports of 127.0.0.1: see that the loopback interface is up (ip link set lo up)", "%v", err)}
		}
		defer l.Close()
	}
	return []finding{good("127.0.0.1 has free ones")}
}

func checkPlugin(ctx context.Context) []finding {
	p, err := device.Find()
	if err != nil {
		return []finding{bad(hintOf(err), "%v", err)}
	}
	head := make([]byte, 20)
	f, err := os.Open(p.Path)
	if err != nil {
		return []finding{bad("name a plugin that can be read with GAIDEN_PLUGIN", "%v", err)}
	}
	defer f.Close()
	machines := map[string]byte{"amd64": 62, "arm64": 183} // of ELF
	if _, err := f.Read(head); err != nil || string(head[:4]) != "\x7fELF" {
		return []finding{bad("fetch it again: remove it, then scripts/run", "%s is not a shared library", p.Path)}
	}
	if want := machines[runtime.GOARCH]; want != 0 && head[18] != want {
		return []finding{bad("name a plugin for "+runtime.GOARCH+" with GAIDEN_PLUGIN", "%s is for another processor", p.Path)}
	}
	if err := loads(ctx, p); err != nil {
		do := "fetch it again: remove it, then scripts/run; or name another with GAIDEN_PLUGIN"
		if errors.Is(err, wire.Invalid) {
			do = hintOf(err) // it is not the plugin
		}
		return []finding{bad(do, "%v", err)}
	}
	return []finding{good("%s: %s", p.Device, p.Path)}
}

// loads loads a plugin in a process of its own, which a broken one may take down.
func loads(ctx context.Context, p device.Plugin) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "session", "load")
	cmd.Env, cmd.WaitDelay = append(os.Environ(), p.Env...), time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if why, ok := strings.CutPrefix(line, "gaiden: "); ok {
			return errors.New(strings.TrimSpace(why))
		}
	}
	return p.Died(string(out))
}

// loadPlugin is gaiden session load, that process.
func loadPlugin() error {
	p, err := device.Find()
	if err != nil {
		return err
	}
	plugin, err := pjrt.Load(p.Path)
	if err != nil || p.Device != "cpu" && os.Getenv("XLA_FLAGS") == "" { // a GPU's memory is left alone where it can be
		return err
	}
	_, err = plugin.NewClient(p.Options) // which reads XLA_FLAGS
	return err
}

func checkGPU(ctx context.Context) (out []finding) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err != nil {
		if card := nvidiaCard(); card != "" {
			return []finding{worse("install NVIDIA's driver; in a container: start it with --gpus all", "there is an NVIDIA card (%s) but no driver: the CPU trains", card)}
		}
		if want := os.Getenv("GAIDEN_DEVICE"); strings.HasPrefix(want, "cuda") {
			return []finding{bad("unset GAIDEN_DEVICE, or install NVIDIA's driver", "none, and GAIDEN_DEVICE is %s", want)}
		}
		return []finding{good("none: the CPU trains")}
	}
	cards := sysinfo.GPUs(ctx)
	if len(cards) == 0 {
		out = append(out, worse("see what nvidia-smi says; in a container: start it with --gpus all", "the NVIDIA driver shows no card"))
	}
	for _, c := range cards {
		out = append(out, good("%s", c))
	}
	const oldest = 580 // CUDA 13's
	var major int
	if len(cards) > 0 {
		if n, _ := fmt.Sscanf(cards[0].Driver, "%d", &major); n == 1 && major < oldest {
			out = append(out, worse(fmt.Sprintf("update the driver to %d or newer, or use GAIDEN_DEVICE=cpu", oldest), "the driver %s is older than CUDA 13 wants", cards[0].Driver))
		}
	}
	nodes, _ := filepath.Glob("/dev/nvidia[0-9]*")
	for _, node := range append([]string{"/dev/nvidiactl"}, nodes...) {
		f, err := os.OpenFile(node, os.O_RDWR, 0)
		if err != nil {
			out = append(out, bad("see who may open it (ls -l): you may have to be in the group video", "%v", err))
			continue
		}
		f.Close()
	}
	return out
}

// nvidiaCard is the PCI address of a card by NVIDIA, "" if there is none.
func nvidiaCard() string {
	all, _ := filepath.Glob("/sys/bus/pci/devices/*")
	for _, dir := range all {
		vendor, _ := os.ReadFile(filepath.Join(dir, "vendor"))
		class, _ := os.ReadFile(filepath.Join(dir, "class"))
		if strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			return filepath.Base(dir)
		}
	}
	return ""
}

// checkCUDA looks for the libraries that the CUDA plugin opens by name.
func checkCUDA(context.Context) []finding {
	p, err := device.Find()
	if err != nil || p.Device != "cuda" {
		return nil
	}
	where := ""
	for _, e := range p.Env {
		if dirs, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			where = dirs
		}
	}
	dirs := append(filepath.SplitList(where), "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64")
	var missing []string
	for _, lib := range []string{"libcudart", "libcublas", "libcublasLt", "libcudnn", "libcufft", "libcusolver", "libcusparse", "libnvrtc"} {
		found := false
		for _, dir := range dirs {
			m, _ := filepath.Glob(filepath.Join(dir, lib+".so*"))
			found = found || len(m) > 0
		}
		if !found {
			missing = append(missing, lib)
		}
	}
	if len(missing) > 0 {
		sort.Strings(missing)
		return []finding{bad("scripts/run cuda installs them next to the plugin", "libraries that the CUDA plugin needs are missing: %s", strings.Join(missing, ", "))}
	}
	return []finding{good("libraries next to the plugin")}
}
