package pjrt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"gaiden/lib/engine/pjrt"
)

// double compiles a program, runs it three times on one donated array and prints
// the result.
func double(path string, w io.Writer) error {
	plugin, err := pjrt.Load(path)
	if err != nil {
		return err
	}
	client, err := plugin.NewClient(nil)
	if err != nil {
		return err
	}
	program, err := client.Compile([]byte(`module @double {
	  func.func @main(%x: tensor<2xf32> {jax.buffer_donor = true}) -> tensor<2xf32> {
	    %y = stablehlo.add %x, %x : tensor<2xf32>
	    return %y : tensor<2xf32>
	  }
	}`), pjrt.CompileOptions{})
	if err != nil {
		return err
	}
	data := []byte{0, 0, 128, 63, 0, 0, 0, 64} // 1 and 2 as float32
	x, err := client.Upload(data, pjrt.Float32, []int{2}, nil)
	if err != nil {
		return err
	}
	state := []pjrt.Buffer{x}
	for range 3 { // x is donated and replaced each time: nothing is allocated
		if err := program.Execute(state, state, []bool{true}, nil, pjrt.Async, nil); err != nil {
			return err
		}
	}
	if err := client.Download(state[0], data); err != nil {
		return err
	}
	for i := range 2 {
		fmt.Fprintln(w, math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return errors.Join(client.Free(state[0]), program.Close(), client.Close())
}

// The example of the package comment. TestExample runs it and looks at what it
// prints: 8 and 16.
func Example() {
	if err := double(os.Getenv("GAIDEN_PLUGIN"), os.Stdout); err != nil {
		fmt.Println(err)
	}
}

func TestExample(t *testing.T) {
	path := os.Getenv("GAIDEN_PLUGIN")
	if path == "" {
		t.Skip("GAIDEN_PLUGIN is not set: unpack the wheel lammps-jax-pjrt-cpu==0.11.2 and name its pjrt_c_api_cpu_plugin.so")
	}
	var b strings.Builder
	if err := double(path, &b); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "8\n16\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
