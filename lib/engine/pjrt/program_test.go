package pjrt

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCompileRefuses(t *testing.T) {
	c := client(t)
	ok := increments(1, 4, true)
	n := len(c.Devices())
	tests := []struct {
		name    string
		text    string
		options CompileOptions
		want    string
	}{
		{"no text", "", CompileOptions{}, "got no text"},
		{"no module", "module @m { this is not mlir }", CompileOptions{}, "custom op 'this' is unknown"},
		{"no text at all", "\x00\xff\x01", CompileOptions{}, "pjrt: compile: "},
		{"wrong types", strings.Replace(ok, "-> (tensor<4xf32>)", "-> (tensor<5xf32>)", 1), CompileOptions{}, "type of return operand 0"},
		{"unknown flag", ok, CompileOptions{Flags: map[string]any{"xla_no_such_flag": true}}, "xla_no_such_flag"},
		{"flag of a wrong type", ok, CompileOptions{Flags: map[string]any{"xla_backend_optimization_level": "much"}}, "xla_backend_optimization_level"},
		{"flag of no type", ok, CompileOptions{Flags: map[string]any{"x": []int{1}}}, "flag x: got a []int"},
		{"negative", ok, CompileOptions{Replicas: -1}, "-1 replicas"},
		{"too many", ok, CompileOptions{Replicas: n + 1}, "no more devices"},
		{"devices for another", ok, CompileOptions{Replicas: 1, Devices: []int{0, 1}}, "got 2 devices, want 1"},
		{"no such device", ok, CompileOptions{Devices: []int{4711}}, "device 4711 is not one of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Compile([]byte(tt.text), tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "pjrt: compile: ") {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	if n > 1 {
		id := c.Devices()[0].ID()
		if _, err := c.Compile([]byte(ok), CompileOptions{Replicas: 2, Devices: []int{id, id}}); err == nil || !strings.Contains(err.Error(), "two replicas") {
			t.Errorf("one device twice: got %v, want an error", err)
		}
	}
}

// Flags of every kind are taken, as Go has them and as JSON leaves them.
func TestFlags(t *testing.T) {
	c := client(t)
	var fromJSON map[string]any
	if err := json.Unmarshal([]byte(`{"xla_backend_optimization_level": 0, "xla_cpu_enable_fast_math": false, "xla_dump_to": ""}`), &fromJSON); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []map[string]any{fromJSON,
		{"xla_backend_optimization_level": 0, "xla_cpu_enable_fast_math": false, "xla_dump_to": ""},
		{"xla_backend_optimization_level": int64(1), "xla_cpu_parallel_codegen_split_count": json.Number("1"), "xla_llvm_disable_expensive_passes": true}} {
		p, err := c.Compile([]byte(increments(2, 16, true)), CompileOptions{Flags: flags})
		if err != nil {
			t.Errorf("%v: %v", flags, err)
			continue
		}
		p.Close()
	}
	// They do what they say: without optimization the two additions stay apart.
	text := []byte(`module @m { func.func @main(%x: tensor<512xf32>) -> tensor<512xf32> {
 %a = stablehlo.exponential %x : tensor<512xf32>
 %b = stablehlo.add %a, %x : tensor<512xf32>
 return %b : tensor<512xf32> } }`)
	size := func(flags map[string]any) int64 {
		p := must[*Program](t)(c.Compile(text, CompileOptions{Flags: flags}))
		defer p.Close()
		b := must[[]byte](t)(p.Serialize())
		return int64(len(b))
	}
	if plain, none := size(nil), size(map[string]any{"xla_backend_optimization_level": 0.0}); plain == none {
		t.Errorf("got %d bytes of code with and without optimization, want different code", plain)
	}
}

func TestOptionsEncoding(t *testing.T) {
	tests := []struct {
		name    string
		options CompileOptions
		want    []byte
	}{
		{"portable", CompileOptions{Replicas: 1}, []byte{
			3<<3 | 2, 15, 1 << 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 4 << 3, 1, 5 << 3, 1, // build options
			4 << 3, 1}}, // portable
		{"two devices", CompileOptions{Replicas: 2, Devices: []int{3, 1}}, []byte{
			3<<3 | 2, 27, 1 << 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 4 << 3, 2, 5 << 3, 1,
			9<<3 | 2, 10, 1 << 3, 2, 2 << 3, 1, 3<<3 | 2, 4, 1<<3 | 2, 2, 3, 1}}, // assignment
		{"flags in order", CompileOptions{Replicas: 1, Flags: map[string]any{"b": true, "a": 2}}, []byte{
			3<<3 | 2, 15, 1 << 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 4 << 3, 1, 5 << 3, 1, 4 << 3, 1,
			7<<3 | 2, 8, 1<<3 | 2, 1, 'a', 2<<3 | 2, 3, 1<<3 | 2, 1, '2',
			7<<3 | 2, 7, 1<<3 | 2, 1, 'b', 2<<3 | 2, 2, 2 << 3, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.options.encode(); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v\nwant %v", got, err, tt.want)
			}
		})
	}
}

func TestProgramFacts(t *testing.T) {
	c := client(t)
	p := compile(t, c, `module @facts { func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i1>, tensor<3xbf16>) {
 %t = stablehlo.constant dense<true> : tensor<i1>
 %h = stablehlo.constant dense<1.0> : tensor<3xbf16>
 return %x, %t, %h : tensor<2x3xf32>, tensor<i1>, tensor<3xbf16> } }`)
	out := must[[]Shape](t)(p.Outputs())
	var got []string
	for _, s := range out {
		got = append(got, s.String())
	}
	if want := []string{"tensor<2x3xf32>", "tensor<i1>", "tensor<3xbf16>"}; !slices.Equal(got, want) || p.NumOutputs() != 3 {
		t.Errorf("got %d outputs %v, want %v", p.NumOutputs(), got, want)
	}
	if m, err := p.MemoryStats(); err != nil || m.Arguments != 24 {
		t.Errorf("got %+v, %v, want 24 bytes of arguments", m, err)
	}
	b, format, err := p.Optimized()
	if err != nil || !strings.HasPrefix(format, "hlo") || !strings.Contains(string(b), "facts") {
		t.Errorf("got %d bytes of format %q, %v, want an HLO module named facts", len(b), format, err)
	}
}

func TestSerialize(t *testing.T) {
	c := client(t)
	p := compile(t, c, increments(31, 16, true))
	b := must[[]byte](t)(p.Serialize())
	loaded := must[*Program](t)(c.Deserialize(b, CompileOptions{}))
	defer loaded.Close()
	st := vectors(t, c, 31, 16)
	if err := loaded.Execute(st, st, all(31), nil, Wait, nil); err != nil {
		t.Fatal(err)
	}
	if got := first(t, c, st[30], 16); got != 31 {
		t.Errorf("loaded program: got %v, want 31", got)
	}
	free(t, c, st...)

	damage := func(f func(b []byte) []byte) []byte { return f(slices.Clone(b)) }
	tests := []struct {
		name  string
		bytes []byte
	}{
		{"nothing", nil},
		{"mark only", b[:8]},
		{"head only", b[:sealSize]},
		{"torn", b[:len(b)/2]},
		{"one byte short", b[:len(b)-1]},
		{"one byte more", damage(func(b []byte) []byte { return append(b, 0) })},
		{"one bit", damage(func(b []byte) []byte { b[len(b)/2] ^= 1; return b })},
		{"checksum", damage(func(b []byte) []byte { b[10] ^= 1; return b })},
		{"mark", damage(func(b []byte) []byte { b[0] ^= 1; return b })},
		{"text", []byte(strings.Repeat("not a program ", 100))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.Deserialize(tt.bytes, CompileOptions{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
		})
	}
}
