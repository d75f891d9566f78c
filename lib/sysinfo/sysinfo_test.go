package sysinfo

import (
	"encoding/json"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

func files(of map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, data := range of {
		fs[name] = &fstest.MapFile{Data: []byte(data)}
	}
	return fs
}

func TestReadMachine(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  Machine
	}{
		{"a server", map[string]string{
			"proc/cpuinfo":              "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t: fpu\nprocessor\t: 1\nmodel name\t: other\n",
			"proc/meminfo":              "MemTotal:       16384 kB\nMemFree: 1 kB\n",
			"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
			"etc/os-release":            "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		}, Machine{CPU: "AMD EPYC 9654", Memory: 16 << 20, Kernel: "6.1.0", Distribution: "Debian GNU/Linux 12 (bookworm)"}},
		{"a small board", map[string]string{"proc/cpuinfo": "processor : 0\nModel : Raspberry Pi 5\n"}, Machine{CPU: "Raspberry Pi 5"}},
		{"a container", map[string]string{"proc/meminfo": "MemTotal: 16384 kB\n", "sys/fs/cgroup/memory.max": "1048576\n"}, Machine{Memory: 1 << 20}},
		{"a container without limit", map[string]string{"proc/meminfo": "MemTotal: 16384 kB\n", "sys/fs/cgroup/memory.max": "max\n"}, Machine{Memory: 16 << 20}},
		{"nothing to read", nil, Machine{}},
		{"nonsense", map[string]string{"proc/meminfo": "MemTotal: many kB\n", "proc/cpuinfo": ":::\n\x00", "etc/os-release": "PRETTY_NAME"}, Machine{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := readMachine(files(tt.files))
			if got.Cores < 1 || got.OS == "" || got.Arch == "" {
				t.Errorf("got %+v, want what the Go runtime knows", got)
			}
			got.Cores, got.OS, got.Arch = 0, "", ""
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestMachineString(t *testing.T) {
	tests := []struct {
		machine Machine
		want    string
	}{
		{Machine{CPU: "AMD EPYC", Cores: 2, Memory: 24 << 30, OS: "linux", Arch: "amd64", Kernel: "6.1", Distribution: "Debian 12"},
			"AMD EPYC, 2 cores, 24.0 GiB memory, Debian 12, linux/amd64 6.1"},
		{Machine{Cores: 1, OS: "linux", Arch: "arm64"}, "arm64, 1 core, linux/arm64"},
	}
	for _, tt := range tests {
		if got := tt.machine.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestGPUs(t *testing.T) {
	fromTool := parseSMI("NVIDIA H200, 143771, 550.54.15, 9.0\nTesla K80, [N/A], 470.1, [N/A]\nNo devices were found\n\n")
	want := []GPU{{"NVIDIA H200", 143771 << 20, "550.54.15", "9.0"}, {"Tesla K80", 0, "470.1", ""}}
	if !reflect.DeepEqual(fromTool, want) {
		t.Errorf("nvidia-smi: got %+v, want %+v", fromTool, want)
	}
	if got, want := want[0].String(), "NVIDIA H200, 140 GiB, compute capability 9.0, driver 550.54.15"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	fromFiles := readGPUs(files(map[string]string{
		"proc/driver/nvidia/version":                       "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n",
		"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H200\nIRQ: 1\n",
		"proc/driver/nvidia/gpus/0000:02:00.0/information": "IRQ: 1\n",
	}))
	if want := []GPU{{Name: "NVIDIA H200", Driver: "550.54.15"}}; !reflect.DeepEqual(fromFiles, want) {
		t.Errorf("files: got %+v, want %+v", fromFiles, want)
	}
	if got := readGPUs(files(nil)); len(got) != 0 {
		t.Errorf("no driver: got %+v, want none", got)
	}
}

func TestVersions(t *testing.T) {
	v := readVersions(&debug.BuildInfo{
		Main: debug.Module{Path: "gaiden", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "github.com/gomlx/compute", Version: "v0.1.2"},
			{Path: "example.com/other", Version: "v1.0.0"},
			{Path: "github.com/gomlx/gomlx", Version: "v0.1.0", Replace: &debug.Module{Path: "fork", Version: "v0.28.2"}},
		},
	})
	if got, want := strings.TrimPrefix(v.String(), v.Go), ", gomlx v0.28.2, compute v0.1.2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := readVersions(nil); got.Go == "" || got.String() != got.Go {
		t.Errorf("without build information: got %+v, want Go's version", got)
	}
}

func TestReadOnThisMachine(t *testing.T) {
	info := Read(t.Context())
	if info.Machine.Cores < 1 || !strings.HasPrefix(info.Versions.Go, "go") {
		t.Errorf("got %+v, want cores and a Go version", info)
	}
	data, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	var back Info
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, info) {
		t.Errorf("through JSON: got %+v, %v, want %+v", back, err, info)
	}
	if text := info.String(); !strings.Contains(text, "GPU") || !strings.Contains(text, info.Versions.Go) {
		t.Errorf("got %q, want a line on GPUs and Go's version", text)
	}
	t.Log(info)
}
