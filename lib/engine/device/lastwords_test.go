package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	long := strings.Repeat("goroutine 7 [running]:\n", 20000)
	tests := []struct {
		name, text, want string
	}{
		{"panic", "hello\npanic: a fault\n\tmore\n\ngoroutine 1 [running]:\n" + long, "panic: a fault / more / goroutine 1 [running]:"},
		{"signal in C", "SIGSEGV: segmentation violation\nPC=0x1 m=3\n" + long, "SIGSEGV: segmentation violation / PC=0x1 m=3 / goroutine 7 [running]:"},
		{"check of XLA", "F0000 00:00:1 thunk.cc:12] Check failed: a == b\nSIGABRT: abort\n", "F0000 00:00:1 thunk.cc:12] Check failed: a == b / SIGABRT: abort"},
		{"device lost", "E0000 noise\nmore\nsession: device lost: program f: pjrt: ready: INTERNAL\n", "session: device lost: program f: pjrt: ready: INTERNAL"},
		{"no crash", "one\ntwo\nthree\nI0000 noise\nfour\n", "two / three / four"},
		{"killed", "", ""},
		{"killed with large arrays", "W0000 00:00:1795677537.108810   13839 heap_simulator.cc:3076] Alloc buffer size 320000000 larger than the per-heap size limit 66000000\n", ""},
		{"ended, after what XLA does on a GPU", "I1130 00:53:33.322202    2007 cuda_dnn.cc:442] Loaded cuDNN version 91900\nhost gpu2 is lost\n", "host gpu2 is lost"},
		{"killed at work", "2026-11-22 10:13:18 worker: space \"train\": 20 arrays are back\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			x := words{to: &log}
			for i := 0; i < len(tt.text); i += 1000 {
				x.Write([]byte(tt.text[i:min(len(tt.text), i+1000)]))
			}
			if got := x.lastLine(); got != tt.want {
				t.Errorf("last line is %q, want %q", got, tt.want)
			}
			if log.String() != tt.text {
				t.Errorf("%d bytes went to the log, want %d", log.Len(), len(tt.text))
			}
			if len(x.last)+len(x.crash) > 3*keptWords+1000 {
				t.Errorf("%d and %d bytes are kept", len(x.last), len(x.crash))
			}
		})
	}
}

func TestBury(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "crashes")
	for i := range keptCrashes + 3 {
		x := words{}
		fmt.Fprintf(&x, "panic: number %d\n", i)
		path, err := x.saveCrash(dir, i, errors.New("exit status 2"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if want := fmt.Sprintf("worker %d: exit status 2\npanic: number %d\n", i, i); err != nil || !strings.HasPrefix(string(b), want) {
			t.Fatalf("file has %q, %v, want %q first", b, err, want)
		}
	}
	if l, _ := filepath.Glob(dir + "/*"); len(l) != keptCrashes {
		t.Errorf("%d files are kept, want %d", len(l), keptCrashes)
	}
}
