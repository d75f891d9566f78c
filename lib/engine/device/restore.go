package device

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/engine/wire"
)

// Names of the element types in files.
var tensorTypes = map[wire.DType]string{1: "BOOL", 2: "I8", 3: "I16", 4: "I32", 5: "I64", 6: "U8", 7: "U16", 8: "U32", 9: "U64", 10: "F16", 11: "F32", 12: "F64", 13: "BF16"}

// Complex numbers as pairs.
const complex64, complex128 = 14, 15

// tensorOf is how an array is written.
func tensorOf(name string, t wire.Type) (x safetensors.Tensor, isComplex bool, err error) {
	x = safetensors.Tensor{Name: name, Shape: append([]int{}, t.Dims...), DType: tensorTypes[t.DType]}
	switch t.DType {
	case complex64:
		x.DType, isComplex = "F32", true
	case complex128:
		x.DType, isComplex = "F64", true
	}
	if isComplex {
		x.Shape = append(x.Shape, 2)
	}
	if x.DType == "" {
		err = wire.Errorf(wire.Unsupported, "array %s has element type %s, which files do not have", name, t.DType)
	}
	return x, isComplex, err
}

// typeOf is the array that a tensor of a file stands for.
func typeOf(x safetensors.Tensor, isComplex bool) (wire.Type, error) {
	t := wire.Type{Dims: slices.Clone(x.Shape)}
	for d, n := range tensorTypes {
		if n == x.DType {
			t.DType = d
		}
	}
	if n := len(t.Dims); isComplex && n > 0 && t.Dims[n-1] == 2 && (x.DType == "F32" || x.DType == "F64") {
		t.Dims, t.DType = t.Dims[:n-1], complex64
		if x.DType == "F64" {
			t.DType = complex128
		}
	}
	if t.DType == 0 {
		return t, wire.Errorf(wire.Unsupported, "array %s has element type %s, which no program takes", x.Name, x.DType)
	}
	if len(t.Dims) > wire.MaxRank {
		return t, wire.Errorf(wire.Unsupported, "array %s has %d dimensions: limit is %d", x.Name, len(t.Dims), wire.MaxRank)
	}
	return t, nil
}

// source is an array in a file.
type source struct {
	name   string
	file   *safetensors.File
	tensor int
	typ    wire.Type
	device int
	place  *place // nil when the file is none of the archive's
}

// read reads the array.
func (s *source) read(data []byte) error {
	err := s.file.Read(s.tensor, data)
	if err != nil && s.place != nil {
		return &fileError{s.place.file, err}
	}
	return err
}

// load brings the arrays of a snapshot whose names have the prefix to the
// device: all of them or none. Those that the space still has on the device
// are not read again. The caller holds the archive's mutex and owns one
// reference to each array.
func (w *Worker) load(s *space, r *record, prefix string) (names []string, arrays []*array, err error) {
	present := w.present(s)
	want, closeAll, err := s.archive.sources(r, prefix, func(n string, p place) bool {
		x := present[p]
		if x == nil {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if x.gone != "" || x.refs == 0 {
			return false
		}
		x.refs++
		names, arrays = append(names, n), append(arrays, x)
		return true
	})
	defer closeAll()
	if err == nil {
		var more []*array
		more, err = w.bring(s, want)
		for i, x := range more {
			names, arrays = append(names, want[i].name), append(arrays, x)
		}
	}
	if err != nil {
		w.drop(arrays)
		return nil, nil, err
	}
	return names, arrays, nil
}

// sources are the arrays of a snapshot, in the files that have them, but for
// those that skip takes on itself. closeAll ends their use, also after an error.
func (a *archive) sources(r *record, prefix string, skip func(string, place) bool) (l []source, closeAll func(), err error) {
	files, index := map[int]*safetensors.File{}, map[int]map[string]int{}
	closeAll = func() {
		for _, f := range files {
			f.Close()
		}
	}
	if err := cmp.Or(r.damaged, r.broken, r.unread, r.foreign); err != nil {
		return nil, closeAll, err
	}
	isComplex := map[string]bool{}
	for _, n := range r.about.Complex {
		isComplex[n] = true
	}
	for n, p := range a.names(r) {
		if !strings.HasPrefix(n, prefix) || skip != nil && skip(n, p) {
			continue
		}
		if files[p.file] == nil {
			o := a.record(p.file)
			if o == nil {
				return nil, closeAll, &fileError{p.file, fmt.Errorf("array %s is in file %d: %w", n, p.file, errGone)}
			}
			f, err := safetensors.Open(a.path(o))
			if err != nil {
				return nil, closeAll, &fileError{p.file, err}
			}
			files[p.file], index[p.file] = f, map[string]int{}
			for i, t := range f.Tensors {
				index[p.file][t.Name] = i
			}
		}
		i, ok := index[p.file][p.tensor]
		if !ok {
			return nil, closeAll, &fileError{p.file, fmt.Errorf("array %s is not in file %d: %w", p.tensor, p.file, errGone)}
		}
		src := source{name: n, file: files[p.file], tensor: i, place: &p, device: r.about.Devices[n]}
		if src.typ, err = typeOf(src.file.Tensors[i], isComplex[n]); err != nil {
			return nil, closeAll, err
		}
		l = append(l, src)
	}
	return l, closeAll, nil
}

// complexOf are the names of a file's arrays that are complex numbers in pairs.
func complexOf(f *safetensors.File) (map[string]bool, error) {
	m := map[string]bool{}
	text, ours := f.Metadata[aboutKey]
	if !ours {
		return m, nil
	}
	var a metadata
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return nil, fmt.Errorf("its description: %w", err)
	}
	for _, n := range a.Complex {
		m[n] = true
	}
	return m, nil
}

// present are the arrays of a space whose data is on disk, by where it is there.
func (w *Worker) present(s *space) map[place]*array {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := map[place]*array{}
	for n, x := range w.names {
		if n.space == s.name && x.saved != nil && x.gone == "" && x.err == nil {
			m[*x.saved] = x
		}
	}
	return m
}

// drop gives up references to arrays.
func (w *Worker) drop(arrays []*array) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range arrays {
		w.release(x)
	}
}

// bring reads arrays from files and uploads them: all or none. The caller owns
// one reference to each.
func (w *Worker) bring(s *space, want []source) ([]*array, error) {
	sort.Slice(want, func(i, j int) bool { return want[i].tensor < want[j].tensor })
	total := int64(0)
	for i := range want {
		n, err := want[i].typ.Bytes()
		if err != nil {
			return nil, err
		}
		if total += n; want[i].device >= len(w.devices) {
			want[i].device = 0 // the machine has fewer devices than it had
		}
	}
	w.mu.Lock()
	why := w.room(s, total)
	w.mu.Unlock()
	if why != nil {
		return nil, why
	}
	arrays := make([]*array, len(want))
	errs := make([]error, 2)
	next := make(chan int, len(want))
	for i := range want {
		next <- i
	}
	close(next)
	var readers sync.WaitGroup
	for k := range errs {
		readers.Go(func() {
			var mem []byte
			defer func() { unmap(mem) }()
			for i := range next {
				if errs[k] == nil {
					arrays[i], errs[k] = w.one(s, want[i], &mem)
				}
			}
		})
	}
	readers.Wait()
	errs = append(errs, w.arrived(arrays))
	for _, err := range errs {
		if err == nil {
			continue
		}
		w.mu.Lock()
		for _, x := range arrays {
			if x != nil {
				w.release(x)
			}
		}
		w.mu.Unlock()
		return nil, err
	}
	return arrays, nil
}

// one reads one array through mem, which it makes larger where it must.
func (w *Worker) one(s *space, src source, mem *[]byte) (*array, error) {
	size := src.file.Tensors[src.tensor].Size()
	if int64(len(*mem)) < size {
		unmap(*mem)
		var err error
		if *mem, err = mapped(max(size, 1<<20)); err != nil {
			return nil, err
		}
	}
	data := (*mem)[:size]
	if err := src.read(data); err != nil {
		return nil, err
	}
	buf, err := w.client.Upload(data, dtype(src.typ.DType), src.typ.Dims, w.devices[src.device])
	if err != nil {
		return nil, w.deviceError(wire.Invalid, "", err)
	}
	x := &array{buf: buf, typ: src.typ, bytes: size, device: src.device, owner: s, saved: src.place, used: time.Now()}
	w.mu.Lock()
	w.add(x)
	w.mu.Unlock()
	return x, nil
}

// arrived waits for the uploads of arrays, nil where there was none, to followers, and says
// what went wrong with them.
func (w *Worker) arrived(arrays []*array) (err error) {
	answers, n := make(chan error, len(arrays)), 0
	for _, x := range arrays {
		if x == nil || x.device < w.client.Here() {
			continue
		}
		if e := w.client.Ready(x.buf, func(err error) { answers <- err }); e != nil {
			return w.deviceError(wire.Invalid, "", e)
		}
		n++
	}
	for range n {
		if e := <-answers; e != nil {
			err = w.transferError(wire.Invalid, e)
		}
	}
	return err
}

// mapped is memory for a while, in large pages where the system has them: to copy
// 128 MB into fresh pages of 4 kB takes almost three times as long. Reserved or not is
// all the same to Linux here, but not to keepLarge.
func mapped(size int64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	unix.Madvise(mem, unix.MADV_HUGEPAGE) // where it is refused, small pages do
	return mem, nil
}

func unmap(mem []byte) {
	if mem != nil {
		unix.Munmap(mem)
	}
}
