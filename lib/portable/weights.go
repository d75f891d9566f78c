package portable

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// names are the element types of safetensors files, by those of package dtypes.
var names = map[dtypes.DType]string{
	dtypes.Float32: "F32", dtypes.Float64: "F64", dtypes.Float16: "F16", dtypes.BFloat16: "BF16", dtypes.Bool: "BOOL",
	dtypes.Int8: "I8", dtypes.Int16: "I16", dtypes.Int32: "I32", dtypes.Int64: "I64",
	dtypes.Uint8: "U8", dtypes.Uint16: "U16", dtypes.Uint32: "U32", dtypes.Uint64: "U64",
}

// FileType is the name of an element type in safetensors files.
func FileType(t dtypes.DType) (string, error) {
	name, is := names[t]
	if !is {
		return "", fmt.Errorf("portable: a safetensors file has no arrays of %s", t)
	}
	return name, nil
}

// ReadArrays reads arrays of a safetensors file, and checks the sums that Gaiden writes.
func ReadArrays(file []byte, want []Array) (flats []any, err error) {
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return nil, fmt.Errorf("%d bytes are too few for its header: the file is damaged or cut short", len(file))
	}
	length := binary.LittleEndian.Uint64(file)
	head, data := file[8:8+length], file[8+length:]
	entries := map[string]json.RawMessage{}
	if err := json.Unmarshal(head, &entries); err != nil {
		return nil, fmt.Errorf("the header is not JSON (%v): the file is damaged", err)
	}
	type entry struct {
		name    string
		DType   string
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	var meta map[string]string
	var all []entry
	for name, raw := range entries {
		if name == "__metadata__" {
			err = json.Unmarshal(raw, &meta)
		} else {
			e := entry{name: name}
			if err = json.Unmarshal(raw, &e); err == nil && (e.Offsets[0] < 0 || e.Offsets[0] > e.Offsets[1]) {
				err = fmt.Errorf("its data is at %v", e.Offsets)
			}
			all = append(all, e)
		}
		if err != nil {
			return nil, fmt.Errorf("header: %s: %w", name, err)
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return a.Offsets[0] - b.Offsets[0] })
	found := map[string]entry{}
	for _, e := range all {
		found[e.name] = e
	}
	for i, e := range all {
		if e.Offsets[1] > len(data) {
			return nil, fmt.Errorf("array %s ends at byte %d of %d: the file is cut short", e.name, e.Offsets[1], len(data))
		}
		if sums := meta["crc32c"]; len(sums) == 8*len(all) {
			sum, err := strconv.ParseUint(sums[8*i:8*i+8], 16, 32)
			if err != nil || uint32(sum) != crc32.Checksum(data[e.Offsets[0]:e.Offsets[1]], crc32.MakeTable(crc32.Castagnoli)) {
				return nil, fmt.Errorf("array %s has another checksum than the file says: the file is damaged", e.name)
			}
		}
	}
	for _, a := range want {
		t := typeOf(a)
		size, _ := a.size() // ParseProgram has checked it
		flat := dtypes.MakeAnySlice(t, size)
		to := dtypes.UnsafeByteSliceFromAny(flat)
		e, is := found[a.Name]
		if !is {
			e, is = found[a.From] // in a snapshot
		}
		switch {
		case !is:
			return nil, fmt.Errorf("there is no array %s %v", a.Name, a.Dims)
		case e.DType != names[t] || !slices.Equal(e.Shape, a.Dims) || e.Offsets[1]-e.Offsets[0] != len(to):
			return nil, fmt.Errorf("array %s is %s %v: want %s %v", a.Name, e.DType, e.Shape, names[t], a.Dims)
		}
		copy(to, data[e.Offsets[0]:])
		flats = append(flats, flat)
	}
	return flats, nil
}

// Scalar is the bytes of one number of a type.
func Scalar(t dtypes.DType, x float64) ([]byte, error) {
	if !t.IsFloat() && !t.IsInt() {
		return nil, fmt.Errorf("portable: a %s is not a number", t)
	}
	return dtypes.UnsafeByteSliceFromAny(shapes.CastAsDType([]float64{x}, t)), nil
}
