package jupyter

import (
	"math"
	"os"
	"runtime"
	"sync"
	"time"

	"gaiden/lib/sysinfo"
)

// usage is what the last usage_request saw: shares are of the time since then.
type usage struct {
	mu      sync.Mutex
	when    time.Time
	process sysinfo.ProcessUsage
	machine sysinfo.Meter
}

// usageRequest answers the panel of jupyter-resource-usage as ipykernel does: the kernel and
// the processes that it has started, the machine, CPU in percent of one core and of all.
func (c *core) usageRequest(request) (fields, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	u := &c.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	now, process := time.Now(), sysinfo.ReadProcesses(os.Getpid())
	percent := 0.0
	if took := now.Sub(u.when); !u.when.IsZero() && took > 0 {
		percent = 100 * float64(process.Since(u.process)) / float64(took)
	}
	u.when, u.process = now, process
	content := fields{"hostname": host, "pid": os.Getpid(), "kernel_cpu": tenths(percent), "kernel_memory": process.Memory,
		"cpu_count": runtime.NumCPU(), "host_virtual_memory": sysinfo.ReadHostMemory()}
	if busy := u.machine.CPU(); busy >= 0 {
		content["host_cpu_percent"] = tenths(100 * busy)
	}
	return content, nil
}

// tenths rounds as psutil does: front ends show all digits.
func tenths(percent float64) float64 { return math.Round(10*percent) / 10 }
