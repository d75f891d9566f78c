package device

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"gaiden/lib/engine/wire"
)

// Plugin is an XLA plugin and what it needs.
type Plugin struct {
	Path    string
	Device  string         // cpu or cuda
	Options map[string]any // for its client
	Env     []string       // for the worker's process: libraries are found when it starts

	libraries []string // directories that Env adds
}

// Where plugins lie: in the cache directory, as scripts/run unpacks them, and among the
// packages of a Python environment.
const (
	cpuCached  = "plugins/cpu/pjrt_c_api_cpu_plugin.so"
	cpuWheel   = "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"
	cudaCached = "plugins/cuda/" + cudaWheel
	cudaWheel  = "jax_plugins/xla_cuda13/xla_cuda_plugin.so"
)

// Find chooses a plugin, as choose does, and refuses one that somebody other than the user
// and root can change: it runs as the user. One that is not there is found out when it is
// loaded.
func Find() (Plugin, error) {
	p, err := choose()
	if err != nil {
		return Plugin{}, err
	}
	for _, path := range append([]string{p.Path}, p.libraries...) {
		if err := wire.TrustedPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Plugin{}, err
		}
	}
	return p, nil
}

// choose chooses a plugin: the file that GAIDEN_PLUGIN names, else by
// GAIDEN_DEVICE (cpu, cuda, cuda:1), else CUDA where there is an NVIDIA driver
// and its plugin, else CPU. GAIDEN_MEMORY_FRACTION is how much of a GPU's memory it takes
// at most; default: 0.75.
func choose() (Plugin, error) {
	want := os.Getenv("GAIDEN_DEVICE")
	device, ordinal, _ := strings.Cut(want, ":")
	known := device == "" || device == "cpu" || device == "cuda"
	if ordinal != "" {
		n, err := strconv.Atoi(ordinal)
		known = device == "cuda" && err == nil && n >= 0
	}
	if !known {
		return Plugin{}, wire.Errorf(wire.Invalid, "GAIDEN_DEVICE is %q: want cpu, cuda or cuda:N", want)
	}
	share, err := memoryFraction()
	if err != nil {
		return Plugin{}, err
	}
	if path := os.Getenv("GAIDEN_PLUGIN"); path != "" {
		if !filepath.IsAbs(path) {
			e := wire.Errorf(wire.Invalid, "GAIDEN_PLUGIN is %q: got a relative path, want an absolute one: the session's directory is another one than yours", path)
			if abs, err := filepath.Abs(path); err == nil && exists(abs) {
				return Plugin{}, e.WithHint("export GAIDEN_PLUGIN=%s", abs)
			}
			return Plugin{}, e.WithHint("export GAIDEN_PLUGIN with the whole path, or unset it")
		}
		if device == "cuda" || device == "" && strings.Contains(filepath.Base(path), "cuda") {
			return cuda(path, ordinal, share), nil
		}
		return cpu(path), nil
	}
	if device != "cpu" {
		if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
			if path := findPlugin(cudaCached, cudaWheel); path != "" {
				return cuda(path, ordinal, share), nil
			}
			if device == "cuda" {
				return Plugin{}, wire.Errorf(wire.Unavailable, "there is an NVIDIA driver but no CUDA plugin").
					WithHint("scripts/run cuda installs it; so does pip, with the extra [cuda] of Gaiden's wheel; or name one with GAIDEN_PLUGIN")
			}
		} else if device == "cuda" {
			return Plugin{}, wire.Errorf(wire.Unavailable, "GAIDEN_DEVICE is %q but there is no NVIDIA driver", want).
				WithHint("GAIDEN_DEVICE=cpu works on any machine")
		}
	}
	path := findPlugin(cpuCached, cpuWheel)
	if path == "" {
		return Plugin{}, wire.Errorf(wire.Unavailable, "no XLA plugin at %s, and none in the Python environment", filepath.Join(wire.CacheDir(), cpuCached)).
			WithHint("scripts/run fetches it; so does pip, with the extra [cpu] of Gaiden's wheel; or name one with GAIDEN_PLUGIN")
	}
	return cpu(path), nil
}

// cpu is a CPU plugin: one device, or as many as GAIDEN_CPU_DEVICES says, which
// is how programs for several devices are tried without a GPU.
func cpu(path string) Plugin {
	n, err := strconv.ParseInt(os.Getenv("GAIDEN_CPU_DEVICES"), 10, 64)
	if err != nil || n < 1 {
		n = 1
	}
	return Plugin{Path: path, Device: "cpu", Options: map[string]any{"cpu_device_count": n}}
}

// memoryFraction is how much of a GPU's memory the session takes at most, by
// GAIDEN_MEMORY_FRACTION: 0 leaves it to XLA, which takes three quarters.
func memoryFraction() (float64, error) {
	text := os.Getenv("GAIDEN_MEMORY_FRACTION")
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return 0, wire.Errorf(wire.Invalid, "GAIDEN_MEMORY_FRACTION is %q: want a number above 0 and up to 1, such as 0.9", text).
			WithHint("unset it, and the session takes three quarters of a GPU at most")
	}
	return f, nil
}

func cuda(path, ordinal string, share float64) Plugin {
	// Nothing is preallocated: memory belongs to who asks for it, and another
	// program on the device keeps its own.
	p := Plugin{Path: path, Device: "cuda", Options: map[string]any{"preallocate": false}}
	if share > 0 {
		p.Options[fractionOption] = share
	}
	if n, err := strconv.ParseInt(ordinal, 10, 64); err == nil {
		p.Options[visibleOption] = []int64{n}
	}
	site := filepath.Dir(filepath.Dir(filepath.Dir(path))) // …/site-packages
	libs, _ := filepath.Glob(filepath.Join(site, "nvidia", "*", "lib"))
	sort.Strings(libs)
	p.libraries = slices.Clone(libs)
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		libs = append(libs, old)
	}
	p.Env = append(p.Env, "LD_LIBRARY_PATH="+strings.Join(libs, ":"))
	if data := filepath.Join(site, "nvidia", "cu13"); exists(data) {
		p.Env = append(p.Env, strings.TrimSpace("XLA_FLAGS="+os.Getenv("XLA_FLAGS")+" --xla_gpu_cuda_data_dir="+data))
	}
	return p
}

// visibleOption is the option of a CUDA client that names its GPUs, all without it.
const visibleOption = "visible_devices"

// fractionOption is the option of a CUDA client whose value is no whole number.
const fractionOption = "memory_fraction"

// retype gives options that have been through JSON, which makes every number a float64,
// the types that a client wants.
func (p Plugin) retype() {
	for name, v := range p.Options {
		switch v := v.(type) {
		case float64:
			if name != fractionOption {
				p.Options[name] = int64(v)
			}
		case []any:
			var l []int64
			for _, x := range v {
				if f, ok := x.(float64); ok {
					l = append(l, int64(f))
				}
			}
			p.Options[name] = l
		}
	}
}

// refused is what a plugin without a device is told to the user. One for another
// kind of device knows none of the options for this one, and says no more.
func (p Plugin) refused(err error) *wire.Error {
	if p.Device == "cuda" && strings.Contains(err.Error(), "Unexpected option name") {
		return wire.Errorf(wire.Unavailable, "no GPU: GAIDEN_PLUGIN is %s: got a plugin for another device, want one for CUDA", p.Path).
			WithHint("unset GAIDEN_PLUGIN; or unset GAIDEN_DEVICE, to work on the plugin's device")
	}
	return wire.Errorf(wire.Unavailable, "%s: no device: %v", p.Path, err).WithHint("GAIDEN_DEVICE=cpu works on any machine")
}

// Died is what a plugin is told to the user in whose process it died while it was loaded,
// with what that process said. XLA ends the process for a flag that it does not know.
func (p Plugin) Died(said string) *wire.Error {
	if line := flagLine.FindString(said); line != "" {
		return wire.Errorf(wire.Invalid, "XLA refuses the environment variable XLA_FLAGS, which is %q: %s", os.Getenv("XLA_FLAGS"), strings.TrimSpace(glogHead.ReplaceAllString(line, ""))).
			WithHint("correct XLA_FLAGS, or unset it")
	}
	if said = strings.TrimSpace(said); said == "" {
		said = "without a word"
	}
	e := wire.Errorf(wire.Unavailable, "worker died while it loaded %s: %.300s", p.Path, said)
	if flags := os.Getenv("XLA_FLAGS"); flags != "" {
		return e.WithHint("its last words are in %s; XLA_FLAGS is %q: try without it; GAIDEN_PLUGIN names another plugin", LogPath(), flags)
	}
	return e.WithHint("its last words are in %s; GAIDEN_PLUGIN names another plugin", LogPath())
}

// flagLine is a line in which XLA refuses flags, and glogHead what its library puts before
// each line: level, time, process, file.
var (
	flagLine = regexp.MustCompile(`(?m)^.*(XLA_FLAGS|parse_flags_from_env).*$`)
	glogHead = regexp.MustCompile(`^[IWEF]\d{4} \S+\s+\d+ \S+\] `)
)

// findPlugin looks for a plugin in the Python environment that gaiden is installed in,
// then in our cache, then in the Python environment that is active.
func findPlugin(cached, wheel string) string {
	if home := os.Getenv(wire.HomeEnv); home != "" { // PREFIX/share/gaiden/VERSION
		if found, _ := filepath.Glob(filepath.Join(home, "../../../lib/python3*/*-packages", wheel)); len(found) > 0 {
			return found[0]
		}
	}
	if path := filepath.Join(wire.CacheDir(), cached); exists(path) {
		return path
	}
	out, err := exec.Command("python3", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").Output()
	if err != nil {
		return ""
	}
	if path := filepath.Join(strings.TrimSpace(string(out)), wheel); exists(path) {
		return path
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
