package sysinfo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Usage is how busy a machine is.
type Usage struct {
	CPU    float64 // share of all cores, since the look before; -1 at the first one
	Memory Memory
	GPUs   []GPUUsage
}

// GPUUsage is how busy a GPU is; a number is -1 where the driver does not tell.
type GPUUsage struct {
	Name        string
	Busy        float64 // share of the last second in which a kernel ran
	Used, Total int64   // memory, in bytes
	Temperature float64 // °C
	Power       float64 // W
}

// A Meter reads the usage of this machine. The zero Meter is ready; its methods may be
// called from any goroutine.
type Meter struct {
	mu   sync.Mutex
	last cpuTime
}

// Read looks at the machine. With GPUs it runs nvidia-smi, for which ctx can set a limit.
func (m *Meter) Read(ctx context.Context) Usage {
	return Usage{Memory: ReadMemory(), GPUs: gpuUsage(ctx, os.DirFS("/")), CPU: m.CPU()}
}

// CPU is the share of all cores that was busy since the look before; -1 at the first one.
func (m *Meter) CPU() float64 {
	now := readCPUTime(os.DirFS("/"))
	m.mu.Lock()
	defer m.mu.Unlock()
	share := now.since(m.last)
	m.last = now
	return share
}

// cpuTime is what all cores have spent since the start, in ticks.
type cpuTime struct{ busy, all float64 }

// since is the share of the time since an earlier look in which the cores were busy.
func (t cpuTime) since(last cpuTime) float64 {
	if last.all == 0 || t.all <= last.all {
		return -1
	}
	return min(max((t.busy-last.busy)/(t.all-last.all), 0), 1)
}

// readCPUTime reads "cpu  user nice system idle iowait irq softirq steal …" of /proc/stat.
func readCPUTime(root fs.FS) (t cpuTime) {
	f := strings.Fields(line(root, "proc/stat"))
	for i, word := range f[min(1, len(f)):min(9, len(f))] {
		v, _ := strconv.ParseFloat(word, 64)
		if t.all += v; i != 3 && i != 4 {
			t.busy += v
		}
	}
	return t
}

const gpuFields = "name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"

// gpuUsage asks the driver's tool; nil without a driver, or when it does not answer.
func gpuUsage(ctx context.Context, root fs.FS) []GPUUsage {
	if _, err := fs.Stat(root, "proc/driver/nvidia"); err != nil {
		return nil
	}
	return parseGPUUsage(querySMI(ctx, gpuFields))
}

// parseGPUUsage reads lines like "NVIDIA H200, 97, 12300, 143771, 54, 410.25": percent, MiB,
// MiB, °C, W. A field may be "[N/A]".
func parseGPUUsage(out string) (l []GPUUsage) {
	for text := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(text), ", ")
		if len(f) != strings.Count(gpuFields, ",")+1 {
			continue
		}
		var n [6]float64
		for i, word := range f {
			v, err := strconv.ParseFloat(word, 64)
			if n[i] = v; err != nil || !(v >= 0 && v < 1<<40) {
				n[i] = -1
			}
		}
		g := GPUUsage{Name: f[0], Busy: n[1], Used: int64(n[2]), Total: int64(n[3]), Temperature: n[4], Power: n[5]}
		if g.Busy > 0 {
			g.Busy /= 100
		}
		for _, size := range []*int64{&g.Used, &g.Total} {
			if *size > 0 {
				*size <<= 20
			}
		}
		l = append(l, g)
	}
	return l
}

// HostMemory is the memory of the whole machine, in bytes, by the names of Linux and psutil.
type HostMemory struct {
	Total     int64   `json:"total"`
	Available int64   `json:"available"`
	Used      int64   `json:"used"`
	Free      int64   `json:"free"`
	Active    int64   `json:"active"`
	Inactive  int64   `json:"inactive"`
	Percent   float64 `json:"percent"` // that is not available
}

// ReadHostMemory reads /proc/meminfo.
func ReadHostMemory() HostMemory {
	all := fields(os.DirFS("/"), "proc/meminfo")
	bytes := func(name string) int64 { return all[name+":"] << 10 }
	m := HostMemory{Total: bytes("MemTotal"), Available: bytes("MemAvailable"), Free: bytes("MemFree"), Active: bytes("Active"), Inactive: bytes("Inactive")}
	if m.Used = m.Total - m.Available; m.Total > 0 {
		m.Percent = 100 * float64(m.Used) / float64(m.Total)
	}
	return m
}

// A ProcessUsage is what a process and those that it started use.
type ProcessUsage struct {
	CPU    map[int]time.Duration // since their start, by the number of the process
	Memory int64                 // bytes: their part of what they share with others (PSS), or else what is resident
}

// Since is the time that processes have spent since an earlier look.
func (u ProcessUsage) Since(last ProcessUsage) (spent time.Duration) {
	for pid, t := range u.CPU {
		spent += max(0, t-last.CPU[pid])
	}
	return spent
}

// ReadProcesses looks at a process and its descendants.
func ReadProcesses(pid int) ProcessUsage { return readProcesses(os.DirFS("/"), pid) }

func readProcesses(root fs.FS, pid int) (u ProcessUsage) {
	u.CPU = map[int]time.Duration{}
	children := map[int][]int{}
	spent := map[int]time.Duration{}
	for _, p := range processes(root) {
		children[p.Parent], spent[p.PID] = append(children[p.Parent], p.PID), p.CPU
	}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		id := todo[0]
		todo = append(todo, children[id]...)
		u.CPU[id] = spent[id]
		dir := fmt.Sprintf("proc/%d/", id)
		size := fields(root, dir+"smaps_rollup")["Pss:"]
		if size == 0 {
			size = fields(root, dir+"status")["VmRSS:"]
		}
		u.Memory += size << 10
	}
	return u
}

// A Process is what the system says of a process.
type Process struct {
	PID, Parent, Group int
	Name               string
	State              byte          // as /proc has it: D, it waits for a disk; T, it is stopped by a signal; Z, it has ended
	CPU                time.Duration // that it has spent
}

// Processes lists the processes that there are now.
func Processes() []Process { return processes(os.DirFS("/")) }

func processes(root fs.FS) (l []Process) {
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text := line(root, path.Join("proc", e.Name(), "stat"))
		begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')') // the name between may hold anything
		f := strings.Fields(text[end+1:])
		if begin < 0 || end < begin || len(f) < 13 {
			continue
		}
		p := Process{PID: pid, Name: text[begin+1 : end], State: f[0][0]}
		p.Parent, _ = strconv.Atoi(f[1])
		p.Group, _ = strconv.Atoi(f[2])
		for _, spent := range f[11:13] { // by the program, and by the system for it
			n, _ := strconv.Atoi(spent)
			p.CPU += time.Duration(n) * time.Second / ticks
		}
		l = append(l, p)
	}
	return l
}

const ticks = 100 // of /proc/*/stat in a second, on every Linux that Go knows
