// Package safetensors reads and writes arrays in the safetensors format: a
// length, a JSON header, the data. Python's safetensors reads what it writes,
// and it reads what Python writes.
//
//	f, err := safetensors.Create("net.safetensors", &safetensors.Header{
//		Tensors:  []safetensors.Tensor{{Name: "w", DType: "F32", Shape: []int{2, 3}}},
//		Metadata: map[string]string{"epoch": "7"},
//	})
//	for i := range f.Tensors { // sorted: the format wants wide types first
//		err = f.Write(i, data[f.Tensors[i].Name])
//	}
//	err = f.Close() // nothing is at that path before
//
// and back:
//
//	f, err := safetensors.Open("net.safetensors")
//	b := make([]byte, f.Tensors[0].Size())
//	err = f.Read(0, b)
//
// [OpenCheckpoint] opens the files of a model, sharded or not, and [File.Floats] gives
// floating-point numbers of any width as float32.
//
// Files that this package writes hold a CRC-32C of each array and a SHA-256 of
// the header, as entries of the metadata, so that a torn or changed file is an
// error ([ErrDamaged]) and never wrong numbers. Files from elsewhere have none;
// their structure is checked as strictly as Python does: no gap, no overlap, no
// name twice, no byte too many.
//
// The package moves bytes; it knows nothing of devices.
package safetensors
