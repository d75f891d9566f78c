package sysinfo

import (
	"os"
	"reflect"
	"testing"
	"time"
)

func TestGPUUsage(t *testing.T) {
	got := parseGPUUsage("NVIDIA H200, 97, 12300, 143771, 54, 410.25\nNVIDIA H200 MIG 1g.18gb, [N/A], 15, 18000, [Not Supported], [N/A]\nFailed to initialize NVML\n")
	want := []GPUUsage{{"NVIDIA H200", 0.97, 12300 << 20, 143771 << 20, 54, 410.25}, {"NVIDIA H200 MIG 1g.18gb", -1, 15 << 20, 18000 << 20, -1, -1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCPUTime(t *testing.T) {
	at := func(text string) cpuTime { return readCPUTime(files(map[string]string{"proc/stat": text})) }
	first, later := at("cpu  100 0 100 700 100 0 0 0 50 50\ncpu0 1 1 1 1"), at("cpu  150 0 100 740 110 0 0 0 90 90")
	if got, want := later.since(first), 0.5; got != want {
		t.Errorf("got %v, want %v: 50 of 100 ticks; guests are in those of the users", got, want)
	}
	for _, last := range []cpuTime{{}, later} {
		if got := later.since(last); got != -1 {
			t.Errorf("since %+v: got %v, want -1, not known", last, got)
		}
	}
	if got := at(""); got != (cpuTime{}) {
		t.Errorf("without /proc/stat: got %+v", got)
	}
}

func TestProcesses(t *testing.T) {
	u := readProcesses(files(map[string]string{
		"proc/7/stat":         "7 (a) b (c)) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0",
		"proc/7/smaps_rollup": "00 ---p\nRss: 9000 kB\nPss: 1000 kB\n",
		"proc/8/stat":         "8 (cell) R 7 7 7 0 -1 0 0 0 0 0 100 0 0 0 20 0",
		"proc/8/status":       "Name: cell\nVmRSS: 500 kB\n",
		"proc/9/stat":         "9 (other) R 1 7 7 0 -1 0 0 0 0 0 900 0 0 0 20 0",
	}), 7)
	want := ProcessUsage{CPU: map[int]time.Duration{7: 3 * time.Second, 8: time.Second}, Memory: 1500 << 10}
	if !reflect.DeepEqual(u, want) {
		t.Errorf("got %+v, want %+v", u, want)
	}
	earlier := ProcessUsage{CPU: map[int]time.Duration{7: time.Second, 5: time.Hour}}
	if got, want := u.Since(earlier), 3*time.Second; got != want {
		t.Errorf("got %v since then, want %v: those that have ended do not count", got, want)
	}
	if own := ReadProcesses(os.Getpid()); own.Memory == 0 || len(own.CPU) == 0 {
		t.Errorf("this process: got %+v", own)
	}
}
