package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"gaiden/lib/engine/files"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer is a file that is being written.
type Writer struct {
	*Header
	f    *files.File
	base int64 // where the data begins
	head int   // size of the header
}

// Create begins a file that a user has named, as package files does: its mode,
// links and what is refused. Its tensors are sorted into the order of the
// format; the caller then writes each of them, in any order and from any
// goroutine but one at a time for each, and closes the file.
func Create(path string, h *Header) (*Writer, error) { return create(path, h, files.Create) }

// CreatePrivate is Create for a file of this user's alone.
func CreatePrivate(path string, h *Header) (*Writer, error) {
	return create(path, h, files.CreatePrivate)
}

func create(path string, h *Header, begin func(string) (*files.File, error)) (*Writer, error) {
	if err := h.lay(); err != nil {
		return nil, err
	}
	b, err := h.encode()
	if err != nil {
		return nil, err
	}
	f, err := begin(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: create: %w", err)
	}
	return &Writer{Header: h, f: f, base: int64(8 + len(b)), head: len(b)}, nil
}

// piece is how much of a tensor is summed and then written, in bytes: what is
// still in the processor's cache when it is written.
const piece = 1 << 18

// Write writes the data of tensor number i. It is not safe to call it twice for
// one tensor.
func (w *Writer) Write(i int, data []byte) error {
	t := &w.Tensors[i]
	if int64(len(data)) != t.Size() {
		return fmt.Errorf("safetensors: array %.80q: got %d bytes, want %d", t.Name, len(data), t.Size())
	}
	sum := uint32(0)
	for at := w.base + t.begin; len(data) > 0; {
		n := min(len(data), piece)
		sum = crc32.Update(sum, castagnoli, data[:n])
		if _, err := w.f.WriteAt(data[:n], at); err != nil {
			return fmt.Errorf("safetensors: %w", err)
		}
		data, at = data[n:], at+int64(n)
	}
	t.sum, t.summed = sum, true
	return nil
}

// WriteRun writes the data of tensors i, i+1, … that lie one after the other in
// data, whose sizes are given. Small arrays go to disk together like this.
func (w *Writer) WriteRun(i int, data []byte, sizes []int64) error {
	if len(sizes) == 1 {
		return w.Write(i, data)
	}
	rest := data
	for k, n := range sizes {
		t := &w.Tensors[i+k]
		if n != t.Size() || int64(len(rest)) < n {
			return fmt.Errorf("safetensors: array %.80q: got %d bytes, want %d", t.Name, n, t.Size())
		}
		t.sum, t.summed = crc32.Checksum(rest[:n], castagnoli), true
		rest = rest[n:]
	}
	if _, err := w.f.WriteAt(data, w.base+w.Tensors[i].begin); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// Close writes the header, makes the file safe on disk and gives it its name.
// Without it, or when it fails, there is nothing at that path that was not
// there before.
func (w *Writer) Close() error {
	defer w.f.Abort()
	err := w.seal()
	if err == nil {
		err = w.f.Commit()
	}
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

func (w *Writer) seal() error {
	for _, t := range w.Tensors {
		if !t.summed && t.Size() > 0 {
			return fmt.Errorf("array %.80q was not written", t.Name)
		}
	}
	b, err := w.encode()
	if err != nil {
		return err
	}
	if len(b) != w.head {
		return fmt.Errorf("header has grown from %d to %d bytes", w.head, len(b))
	}
	b = append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...)
	_, err = w.f.WriteAt(b, 0)
	return err
}

// Abort removes what has been written.
func (w *Writer) Abort() { w.f.Abort() }

// File is a file that is read. Its methods may be called from any goroutine.
type File struct {
	*Header
	f    *os.File
	base int64
}

// Open reads and checks the header of the file at path.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for somebody who writes
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	h, base, err := readHeader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return &File{h, f, base}, nil
}

func readHeader(f *os.File) (*Header, int64, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("safetensors: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("safetensors: %s is not a regular file: %w", st.Name(), ErrDamaged)
	}
	var start [32]byte
	n, err := f.ReadAt(start[:], 0)
	if err != nil && err != io.EOF {
		return nil, 0, cut(err)
	}
	if n == 0 {
		return nil, 0, fmt.Errorf("safetensors: the file is empty: %w", ErrDamaged)
	}
	if what := foreign(start[:n]); what != "" {
		return nil, 0, fmt.Errorf("safetensors: this is %s: %w", what, ErrDamaged)
	}
	if n < 8 {
		return nil, 0, fmt.Errorf("safetensors: the file has %d bytes, want 8 for the length of its header: %w", n, ErrDamaged)
	}
	size := binary.LittleEndian.Uint64(start[:])
	if size > maxHeader || int64(size) > st.Size()-8 {
		return nil, 0, fmt.Errorf("safetensors: header of %d bytes in a file of %d: %w", size, st.Size(), ErrDamaged)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 8); err != nil {
		return nil, 0, cut(err)
	}
	h, err := parseHeader(b, st.Size()-8-int64(size))
	return h, 8 + int64(size), err
}

// cut is an error of reading as this package's: a file that ends too early is
// damaged, any other error says nothing of what is in it.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("safetensors: it ends too early: %w", ErrDamaged)
	}
	return fmt.Errorf("safetensors: %w", err)
}

// Read fills data, which has the size of tensor number i, and checks its sum
// where the file has one.
func (f *File) Read(i int, data []byte) error {
	t := f.Tensors[i]
	if int64(len(data)) != t.Size() {
		return fmt.Errorf("safetensors: array %.80q: got room for %d bytes, want %d", t.Name, len(data), t.Size())
	}
	if _, err := f.f.ReadAt(data, f.base+t.begin); err != nil {
		return fmt.Errorf("array %.80q: %w", t.Name, cut(err))
	}
	if got := crc32.Checksum(data, castagnoli); t.summed && got != t.sum {
		return fmt.Errorf("safetensors: array %.80q: checksum is %08x, want %08x: %w", t.Name, got, t.sum, ErrDamaged)
	}
	return nil
}

func (f *File) Close() error { return f.f.Close() }
