// Package sysinfo says what a program runs on: the machine, its GPUs and their
// driver, and the versions of Go and of the modules that decide about speed.
//
// Everything is plain data with a String method and JSON tags, read from files
// of the system in a few milliseconds:
//
//	fmt.Println(sysinfo.Read(ctx)) // a paragraph for a report's head
//
//	if len(sysinfo.GPUs(ctx)) == 0 { … } // no NVIDIA driver, or no card
//
// What cannot be found out is left zero and is not shown; nothing here fails.
// It imports nothing of ours and starts no device: what the session's plugin
// says of its devices is package session's to tell. Only Linux is known well;
// elsewhere the Go runtime's answers remain.
package sysinfo

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// Info is everything this package knows.
type Info struct {
	Machine  Machine  `json:"machine"`
	GPUs     []GPU    `json:"gpus,omitempty"`
	Versions Versions `json:"versions"`
}

// Read collects everything. It may ask the NVIDIA driver's own tool, which
// takes a second at most; when ctx ends, the rest is returned.
func Read(ctx context.Context) Info {
	return Info{Machine: ReadMachine(), GPUs: GPUs(ctx), Versions: ReadVersions()}
}

// String is a paragraph with a line for each kind of thing.
func (i Info) String() string {
	lines := []string{i.Machine.String()}
	for n, g := range i.GPUs {
		lines = append(lines, fmt.Sprintf("GPU %d: %s", n, g))
	}
	if len(i.GPUs) == 0 {
		lines = append(lines, "GPU: none found")
	}
	return strings.Join(append(lines, i.Versions.String()), "\n")
}

// Machine is the computer as the operating system shows it. In a container
// Cores and Memory are what the container may use.
type Machine struct {
	CPU          string `json:"cpu,omitempty"`          // model name
	Cores        int    `json:"cores"`                  // logical ones that this process may use
	Memory       int64  `json:"memory_bytes,omitempty"` // bytes
	OS           string `json:"os"`                     // runtime.GOOS
	Arch         string `json:"arch"`                   // runtime.GOARCH
	Distribution string `json:"distribution,omitempty"` // "Debian GNU/Linux 12 (bookworm)"
	Kernel       string `json:"kernel,omitempty"`       // "6.1.0"
}

// ReadMachine describes this computer.
func ReadMachine() Machine { return readMachine(os.DirFS("/")) }

func readMachine(root fs.FS) Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0)}
	// x86 says "model name"; some ARM kernels have only one of the others.
	m.CPU = firstField(root, "proc/cpuinfo", ":", "model name", "Model", "Hardware", "Processor")
	// The version alone: what a builder adds says nothing to readers of a report.
	m.Kernel, _, _ = strings.Cut(line(root, "proc/sys/kernel/osrelease"), "-")
	m.Distribution = strings.Trim(firstField(root, "etc/os-release", "=", "PRETTY_NAME"), `"'`)
	m.Memory = ReadMemoryOf(root).Total
	return m
}

// String is one line: model, cores, memory, system.
func (m Machine) String() string {
	cpu := m.CPU
	if cpu == "" {
		cpu = m.Arch
	}
	cores := "core"
	if m.Cores != 1 {
		cores = "cores"
	}
	parts := []string{fmt.Sprintf("%s, %d %s", cpu, m.Cores, cores)}
	if m.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB memory", float64(m.Memory)/(1<<30)))
	}
	if m.Distribution != "" {
		parts = append(parts, m.Distribution)
	}
	system := m.OS + "/" + m.Arch
	if m.Kernel != "" {
		system += " " + m.Kernel
	}
	return strings.Join(append(parts, system), ", ")
}

// firstField returns the value of the first of the keys that the file has.
func firstField(root fs.FS, path, separator string, keys ...string) string {
	found := map[string]string{}
	f, err := root.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), separator)
		if key = strings.TrimSpace(key); ok && found[key] == "" {
			found[key] = strings.TrimSpace(value)
		}
	}
	for _, key := range keys {
		if found[key] != "" {
			return found[key]
		}
	}
	return ""
}

func line(root fs.FS, path string) string {
	data, err := fs.ReadFile(root, path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first)
}
