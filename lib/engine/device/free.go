package device

import (
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// hungry is the size, in bytes, of what a program on a CPU needs from which it is looked
// whether there is as much: to look takes 0.1 ms.
const hungry = 256 << 20

// needs is how much memory a run of a program takes beside its inputs, in bytes: 0 where
// the plugin does not tell.
func needs(exe *pjrt.Program, replicas int) int64 {
	m, err := exe.MemoryStats()
	if err != nil || m.Outputs < 0 || m.Temporary < 0 {
		return 0
	}
	return (m.Outputs - max(0, m.Aliased) + m.Temporary) * int64(replicas)
}

// fits refuses a program that a CPU has no memory for. A GPU says so itself; Linux would
// end the worker instead, after minutes of looking for pages. What the connection has asked
// for before may have to end first: the caller holds w.mu, which fits may give up while it
// waits for that.
func (c *conn) fits(p *program) *wire.Error {
	if p.need < hungry {
		return nil
	}
	free := freeMemory(os.DirFS("/"))
	for _, more := range []func(){
		func() {
			c.watch(true)
			for c.inflight > 1 { // the program itself is one of them
				c.landing.Wait()
			}
		},
		func() { c.w.spare() },
		pjrt.Trim, // what the allocator has kept
	} {
		if p.need <= free {
			return nil
		}
		more()
		free = freeMemory(os.DirFS("/"))
	}
	if p.need <= free {
		return nil
	}
	return c.late(p, wire.Errorf(wire.OutOfMemory, "it needs %s beside its inputs, and %s of the machine's memory are free", megabytes(p.need), megabytes(free)))
}

// allMemory is how much memory the machine has, or a container may have, in bytes; 0 where
// the files below root do not tell.
func allMemory(root fs.FS) int64 {
	all := figures(root, "proc/meminfo")["MemTotal:"] << 10
	if limit := figure(root, cgroup+"memory.max"); limit > 0 {
		all = min(all, limit)
	}
	return all
}

// cgroup is where a container's figures are.
const cgroup = "sys/fs/cgroup/"

// freeMemory is how much memory Linux can still give this process, in bytes, by the files
// below root: the machine's, or what a container has left. It is math.MaxInt64 where they
// do not tell.
func freeMemory(root fs.FS) int64 {
	free := int64(math.MaxInt64)
	if m := figures(root, "proc/meminfo"); m["MemAvailable:"] > 0 {
		free = (m["MemAvailable:"] + m["SwapFree:"]) << 10
	}
	limit, used := figure(root, cgroup+"memory.max"), figure(root, cgroup+"memory.current")
	if limit > 0 && used > 0 { // pages of files are given up for others
		free = min(free, max(0, limit-used+figures(root, cgroup+"memory.stat")["inactive_file"]))
	}
	return free
}

// figure is the number in a file, 0 if there is none.
func figure(root fs.FS, path string) int64 {
	b, _ := fs.ReadFile(root, path)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// figures are the numbers in the lines of a file, by the word before each.
func figures(root fs.FS, path string) map[string]int64 {
	m := map[string]int64{}
	b, _ := fs.ReadFile(root, path)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 {
			m[f[0]], _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return m
}
