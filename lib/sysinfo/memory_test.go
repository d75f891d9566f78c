package sysinfo

import (
	"maps"
	"testing"
)

func TestReadMemory(t *testing.T) {
	machine := map[string]string{"proc/meminfo": "MemTotal: 16000 kB\nMemAvailable: 8000 kB\nSwapTotal: 2000 kB\nSwapFree: 1000 kB\n"}
	const kB = 1 << 10
	whole := Memory{16000 * kB, 9000 * kB, 2000 * kB}
	tests := []struct {
		name  string
		files map[string]string
		want  Memory
	}{
		{"a machine", nil, whole},
		{"cgroup 2", map[string]string{"sys/fs/cgroup/memory.max": "4096000\n", "sys/fs/cgroup/memory.current": "1024000\n", "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 102400\n"},
			Memory{4000 * kB, 3100 * kB, 2000 * kB}},
		{"cgroup 2 without limit", map[string]string{"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "1024000\n"}, whole},
		{"cgroup 2, a unit in a slice with a limit", map[string]string{"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/memory.max": "4096000\n", "sys/fs/cgroup/a.slice/memory.current": "1024000\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "max\n", "sys/fs/cgroup/a.slice/b.service/memory.current": "1000\n"}, Memory{4000 * kB, 3000 * kB, 2000 * kB}},
		{"cgroup 1 of a container", map[string]string{"proc/self/cgroup": "4:memory:/docker/1234\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "4096000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1024000\n",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 102400\n"}, Memory{4000 * kB, 3100 * kB, 2000 * kB}},
		{"cgroup 1 of a batch job", map[string]string{"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/job/7\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/job/7/memory.limit_in_bytes": "4096000\n", "sys/fs/cgroup/memory/job/7/memory.usage_in_bytes": "1024000\n"}, Memory{4000 * kB, 3000 * kB, 2000 * kB}},
		{"cgroup 1 without limit", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1024000\n"}, whole},
		{"both versions, as systemd mounts them", map[string]string{"proc/self/cgroup": "0::/x\n", "sys/fs/cgroup/unified/x/memory.max": "4096000\n", "sys/fs/cgroup/unified/x/memory.current": "4096001\n"}, Memory{4000 * kB, 0, 2000 * kB}},
		{"nonsense", map[string]string{"proc/self/cgroup": "::\nmemory\n\x00", "sys/fs/cgroup/memory.max": "-1\n"}, whole},
	}
	for _, tt := range tests {
		all := maps.Clone(machine)
		maps.Copy(all, tt.files)
		if got := ReadMemoryOf(files(all)); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if got := readMachine(files(all)).Memory; got != tt.want.Total {
			t.Errorf("%s: the machine has %d bytes, want %d", tt.name, got, tt.want.Total)
		}
	}
	if got := ReadMemoryOf(files(nil)); got != (Memory{Free: -1}) {
		t.Errorf("nothing to read: got %+v", got)
	}
}
