package sysinfo

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory is the memory that this process can use, in bytes.
type Memory struct {
	Total int64 // of the machine, or the smallest limit of this process's control groups; 0: unknown
	Free  int64 // still available to this process, swap included; -1: unknown
	Swap  int64 // of the machine
}

// ReadMemory reads the files of Linux. It honors every limit of control groups
// (cgroup 1 or 2): of this process's own group (a container, a systemd unit, a batch
// job) and of its parents.
func ReadMemory() Memory { return ReadMemoryOf(os.DirFS("/")) }

// ReadMemoryOf is ReadMemory for the files below root.
func ReadMemoryOf(root fs.FS) Memory {
	all := fields(root, "proc/meminfo")
	m := Memory{Total: all["MemTotal:"] << 10, Free: -1, Swap: all["SwapTotal:"] << 10}
	if _, ok := all["MemAvailable:"]; ok {
		m.Free = (all["MemAvailable:"] + all["SwapFree:"]) << 10
	}
	for _, g := range groups(root) {
		limit, used := number(root, path.Join(g.dir, g.limit)), number(root, path.Join(g.dir, g.used))
		if limit <= 0 || limit >= 1<<60 || m.Total > 0 && limit >= all["MemTotal:"]<<10 { // "max", or what stands for it
			continue
		}
		m.Total = min(m.Total, limit)
		if used > 0 { // pages of files are given up for others
			left := max(0, limit-used+fields(root, path.Join(g.dir, "memory.stat"))[g.cache])
			if m.Free < 0 || left < m.Free {
				m.Free = left
			}
		}
	}
	return m
}

// Resident returns the memory that this process itself has in use, in bytes, 0 if the
// system does not report it.
func Resident() int64 { return fields(os.DirFS("/"), "proc/self/status")["RssAnon:"] << 10 }

// group is a directory of a control group, and the names of its files.
type group struct{ dir, limit, used, cache string }

// groups are those that this process is in, each with all that it is in, in turn. In a
// container they may be named as the machine names them, where there is no such directory:
// then the uppermost is the container's own.
func groups(root fs.FS) (l []group) {
	up := func(mount, dir string, g group) {
		for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
			g.dir = path.Join(mount, dir)
			l = append(l, g)
			if dir == "/" {
				return
			}
		}
	}
	first := group{"", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	second := group{"", "memory.max", "memory.current", "inactive_file"}
	own := map[string]string{"": "/", "memory": "/"}
	b, _ := fs.ReadFile(root, "proc/self/cgroup")
	for text := range strings.Lines(string(b)) { // 4:cpu,memory:/a/b of version 1, 0::/a/b of 2
		f := strings.SplitN(strings.TrimSpace(text), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			if controller == "" || controller == "memory" {
				own[controller] = f[2]
			}
		}
	}
	up("sys/fs/cgroup/memory", own["memory"], first)
	up("sys/fs/cgroup", own[""], second)
	up("sys/fs/cgroup/unified", own[""], second)
	return l
}

// number is the number in a file, 0 if there is none.
func number(root fs.FS, path string) int64 {
	n, _ := strconv.ParseInt(line(root, path), 10, 64)
	return n
}

// fields are the numbers in the lines of a file, by the word before each.
func fields(root fs.FS, path string) map[string]int64 {
	m := map[string]int64{}
	b, _ := fs.ReadFile(root, path)
	for text := range strings.Lines(string(b)) {
		if f := strings.Fields(text); len(f) > 1 {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n >= 0 && n < 1<<53 {
				m[f[0]] = n
			}
		}
	}
	return m
}
