package safetensors_test

import (
	"fmt"
	"os"
	"path/filepath"

	"gaiden/lib/engine/safetensors"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")

	w, err := safetensors.Create(path, &safetensors.Header{
		Tensors:  []safetensors.Tensor{{Name: "mask", DType: "U8", Shape: []int{3}}},
		Metadata: map[string]string{"epoch": "7"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Write(0, []byte{1, 0, 1}), w.Close())

	f, err := safetensors.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	b := make([]byte, f.Tensors[0].Size())
	fmt.Println(f.Read(0, b), f.Tensors[0].Name, b, "epoch", f.Metadata["epoch"])
	// Output:
	// <nil> <nil>
	// <nil> mask [1 0 1] epoch 7
}
