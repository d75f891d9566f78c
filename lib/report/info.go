package report

import (
	"context"
	"fmt"
	"strings"

	"gaiden/lib/sysinfo"
)

// Info returns the table that opens a notebook: platform, versions, and whether there
// is a GPU. Pass facts that only the caller knows, such as the session's devices and
// plugin, as pairs of name and value; they come last.
func Info(ctx context.Context, more ...[2]string) Table { return info(sysinfo.Read(ctx), more) }

func info(i sysinfo.Info, more [][2]string) Table {
	t := Table{Title: "Run time"}
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	m := i.Machine
	add("Platform", strings.TrimSpace(fmt.Sprintf("%s/%s %s", m.OS, m.Arch, m.Kernel)))
	add("System", m.Distribution)
	add("CPU", strings.TrimPrefix(fmt.Sprintf("%s, %d cores", m.CPU, m.Cores), ", "))
	if m.Memory > 0 {
		add("Memory", fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30)))
	}
	if len(i.GPUs) == 0 {
		add("GPU", "none found: no NVIDIA driver shows one")
	}
	for n, g := range i.GPUs {
		add(fmt.Sprintf("GPU %d", n), g.String())
	}
	add("Go", i.Versions.Go)
	for _, module := range i.Versions.Modules {
		add(module.Path, module.Version)
	}
	for _, pair := range more {
		add(pair[0], pair[1])
	}
	return t
}
