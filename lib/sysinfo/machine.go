// Package sysinfo describes what a program runs on: the machine, its GPUs and their
// driver, and the versions of Go and of the modules that affect speed.
//
// Everything is plain data with a String method and JSON tags, read from system files
// in a few milliseconds:
//
//	fmt.Println(sysinfo.Read(ctx)) // a paragraph for a report's head
//
//	if len(sysinfo.GPUs(ctx)) == 0 { … } // no NVIDIA driver, or no card
//
// # What it refuses
//
// Nothing fails: a value that cannot be determined is zero and is not shown. The
// package imports no other package of Gaiden and starts no device; package session
// reports the devices of the session. It supports Linux; on other systems only the
// values of the Go runtime are known.
package sysinfo

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// Info is all that this package knows.
type Info struct {
	Machine  Machine  `json:"machine"`
	GPUs     []GPU    `json:"gpus,omitempty"`
	Versions Versions `json:"versions"`
}

// Read collects everything. It may run the NVIDIA driver's tool, which takes at most
// a second. When ctx is done, it returns what it has.
func Read(ctx context.Context) Info {
	return Info{Machine: ReadMachine(), GPUs: GPUs(ctx), Versions: ReadVersions()}
}

// String returns a paragraph with one line for each of machine, GPUs and versions.
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

// Machine is the computer as the operating system reports it. In a container, Cores
// and Memory are the limits of the container.
type Machine struct {
	CPU          string `json:"cpu,omitempty"`          // model name
	Cores        int    `json:"cores"`                  // logical cores that this process may use
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

// String returns one line: CPU model, cores, memory, system.
func (m Machine) String() string {
	cpu := cmp.Or(m.CPU, m.Arch)
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
