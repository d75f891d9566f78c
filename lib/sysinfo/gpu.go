package sysinfo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"
)

// GPU is a GPU that the NVIDIA driver shows to this process.
type GPU struct {
	Name       string `json:"name"`                         // "NVIDIA H200"
	Memory     int64  `json:"memory_bytes,omitempty"`       // bytes; 0 if nvidia-smi, which reports it, is not available
	Driver     string `json:"driver,omitempty"`             // "550.54.15"
	Capability string `json:"compute_capability,omitempty"` // "9.0"
}

// String returns one line: name, memory, driver.
func (g GPU) String() string {
	parts := []string{g.Name}
	if g.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB", float64(g.Memory)/(1<<30)))
	}
	if g.Capability != "" {
		parts = append(parts, "compute capability "+g.Capability)
	}
	if g.Driver != "" {
		parts = append(parts, "driver "+g.Driver)
	}
	return strings.Join(parts, ", ")
}

// GPUs lists the GPUs; the list is empty without a driver. It runs the driver's tool
// nvidia-smi. If that is missing or slow, the driver's files still provide the names.
func GPUs(ctx context.Context) []GPU {
	root := os.DirFS("/")
	if _, err := fs.Stat(root, "proc/driver/nvidia"); err != nil {
		return nil // then the tool, if there is one, has nothing to say either
	}
	if cards := parseSMI(querySMI(ctx, "name,memory.total,driver_version,compute_cap")); len(cards) > 0 {
		return cards
	}
	return readGPUs(root)
}

// querySMI is what nvidia-smi says of some fields, a line for each GPU; "" where it is missing
// or slow.
func querySMI(ctx context.Context, fields string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu="+fields, "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// parseSMI reads lines like "NVIDIA H200, 143771, 550.54.15, 9.0"; a field may
// be "[N/A]". Memory is in MiB.
func parseSMI(out string) (cards []GPU) {
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) != 4 {
			continue
		}
		known := func(i int) string {
			if strings.HasPrefix(fields[i], "[") {
				return ""
			}
			return fields[i]
		}
		g := GPU{Name: known(0), Driver: known(2), Capability: known(3)}
		if MiB, err := strconv.ParseInt(known(1), 10, 64); err == nil && MiB > 0 && MiB < 1<<40 {
			g.Memory = MiB << 20
		}
		cards = append(cards, g)
	}
	return cards
}

func readGPUs(root fs.FS) (cards []GPU) {
	// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …"
	driver := ""
	for _, word := range strings.Fields(line(root, "proc/driver/nvidia/version")) {
		if word[0] >= '0' && word[0] <= '9' && strings.Count(word, ".") >= 1 {
			driver = word
			break
		}
	}
	entries, _ := fs.Glob(root, "proc/driver/nvidia/gpus/*")
	for _, entry := range entries {
		if name := firstField(root, path.Join(entry, "information"), ":", "Model"); name != "" {
			cards = append(cards, GPU{Name: name, Driver: driver})
		}
	}
	return cards
}
