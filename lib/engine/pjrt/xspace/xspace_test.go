package xspace

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func num(f int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(f)<<3), v)
}

func str[T string | []byte](f int, v T) []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(f)<<3|2), uint64(len(v)))
	return append(b, v...)
}

func fixed(f int, v float64) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, uint64(f)<<3|1), math.Float64bits(v))
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// named is an entry of a plane's table of events (4) or stats (5).
func named(table int, id uint64, name string, more ...[]byte) []byte {
	return str(table, join(num(1, id), str(2, join(num(1, id), str(2, name), join(more...)))))
}

// sample is a recording of two kernels, encoded by hand after xplane.proto. The
// names come after the lines, and there is a field that nobody knows.
func sample() []byte {
	stat := func(id uint64, value []byte) []byte { return join(num(1, id), value) }
	gemm := join(num(1, 7), num(2, 1_000_000), num(3, 5_300_000), str(4, stat(1, str(5, "dot.3"))), str(4, stat(2, num(7, 9))), str(4, stat(3, fixed(2, 0.5))))
	fusion := join(num(1, 8), num(2, 7_000_000), num(3, 1_100_000))
	sum := join(num(1, 8), num(5, 12), num(3, 99))
	stream := join(num(1, 3), num(10, 4), str(2, "Stream #1"), str(11, "compute"), num(3, 1_700_000_000_000_000_000), num(99, 1),
		str(4, gemm), str(4, fusion), str(4, sum))
	device := join(num(1, 1), str(2, "/device:GPU:0"), str(3, stream), str(6, stat(4, num(3, 132))), str(6, stat(5, num(4, math.MaxUint64))),
		named(4, 7, "ampere_sgemm_128x64", str(4, "gemm")),
		named(4, 8, "loop_fusion", str(5, stat(1, str(5, "add.1"))), str(5, stat(6, str(6, "raw")))),
		named(5, 1, "hlo_op"), named(5, 2, "hlo_module"), named(5, 3, "occupancy"), named(5, 4, "core_count"), named(5, 5, "minus"),
		named(5, 6, "bytes"), named(5, 9, "jit_step"))
	host := join(str(2, "/host:CPU"), append(binary.AppendUvarint(nil, 50<<3|5), 1, 2, 3, 4))
	return join(str(1, device), str(1, host), str(2, "no counters"), str(3, "dropped 3"), str(4, "box"), []byte{0})
}

func dump(s *Space) string {
	var b strings.Builder
	fmt.Fprintf(&b, "hosts %q errors %q warnings %q\n", s.Hosts, s.Errors, s.Warnings)
	stats := func(l []Stat) {
		for _, st := range l {
			fmt.Fprintf(&b, " %s=%v(%T)", st.Name, st.Value, st.Value)
		}
		b.WriteByte('\n')
	}
	for _, p := range s.Planes {
		fmt.Fprintf(&b, "plane %d %q", p.ID, p.Name)
		stats(p.Stats)
		for _, l := range p.Lines {
			fmt.Fprintf(&b, "  line %d %q from %d ns\n", l.ID, l.Name, l.Start)
			for _, e := range l.Events {
				fmt.Fprintf(&b, "    %q at %d ps for %d ps", e.Name, e.Offset, e.Duration)
				stats(e.Stats)
			}
		}
	}
	return b.String()
}

func TestSample(t *testing.T) {
	s, err := Read(sample())
	if err != nil {
		t.Fatal(err)
	}
	got, file := dump(s), filepath.Join("testdata", "sample.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p := s.Plane("/device:GPU:0")
	if p == nil || p.Stat("core_count") != uint64(132) || p.Lines[0].Events[0].Stat("hlo_module") != "jit_step" {
		t.Errorf("got plane %v, want one with core_count 132 and an event of hlo_module jit_step", p)
	}
	if s.Plane("/device:TPU:0") != nil || p.Stat("none") != nil {
		t.Error("got a plane or stat that is not there, want nil")
	}
}

// Every torn recording is an error or, torn between two fields, a shorter one.
func TestTorn(t *testing.T) {
	b := sample()
	errors := 0
	for n := range b {
		if _, err := Read(b[:n]); err != nil {
			errors++
			if !strings.HasPrefix(err.Error(), "xspace: ") {
				t.Fatalf("%d bytes: got error %q, want prefix xspace:", n, err)
			}
		}
	}
	if errors < len(b)*9/10 {
		t.Errorf("got %d errors, want one for nearly each of %d lengths", errors, len(b))
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"wire type", []byte{1<<3 | 3}, "wire type 3"},
		{"length", []byte{1<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "longer than the message"},
		{"number", append([]byte{1 << 3}, 0x80), "torn number"},
		{"tag", []byte{0x80}, "torn tag"},
		{"fixed 64", []byte{1<<3 | 1, 1}, "want 8"},
		{"fixed 32", []byte{1<<3 | 5, 1}, "want 4"},
		{"inner", str(1, str(3, str(4, []byte{9<<3 | 2, 5}))), "plane 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Read(tt.bytes); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample())
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Read(b)
		if (s == nil) != (err != nil) {
			t.Errorf("got %v and error %v, want one of them", s, err)
		}
		if s != nil {
			dump(s)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	s := sample()
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		if _, err := Read(s); err != nil {
			b.Fatal(err)
		}
	}
}
