// Package sealed keeps files of a cache so that damage is found before they are
// used.
//
// A sealed file ends with a seal: a note of its owner's and a checksum over its
// bytes, its name and the note. A program with a seal can be executed: what
// follows an ELF file's sections is not loaded. The checksum is CRC-32C, for
// which processors have an instruction, because cells wait for it:
//
//	err := sealed.Write(path, data)  // temporary file, fsync, rename
//	data, err := sealed.Read(path)   // *sealed.DamagedError where it is not what was written
//
//	err := sealed.Append(program, "cell-1f3c", note) // the linker wrote it; no fsync yet
//	err = sealed.Publish(program, dir+"/cell-1f3c")  // fsync, link, rename
//	note, err := verifier.Verify(dir + "/cell-1f3c")
//
// Package sealed refuses: to guard against somebody who may write to the cache.
// A directory that others may write to must not be used at all.
package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"gaiden/lib/engine/wire"
)

// A DamagedError reports a file whose contents are not what was written.
type DamagedError struct {
	Path   string
	Reason string
}

func (e *DamagedError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Reason) }

// footer ends a sealed file: the lengths of contents and note, and the checksum.
// It has a fixed length.
const footer = "\ngaiden seal 1 %016x %08x %08x\n"

var footerSize = len(fmt.Sprintf(footer, 0, 0, 0))

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns what follows contents of the given size and checksum.
func seal(name string, size int64, sum uint32, note []byte) []byte {
	sum = crc32.Update(sum, castagnoli, []byte(name))
	sum = crc32.Update(sum, castagnoli, note)
	return append(bytes.Clone(note), fmt.Sprintf(footer, size, len(note), sum)...)
}

// Write writes a sealed file that is there as a whole, on disk, or not at all.
func Write(path string, data []byte) error {
	return wire.ReplaceFileSync(path, append(bytes.Clone(data), seal(filepath.Base(path), int64(len(data)), crc32.Checksum(data, castagnoli), nil)...))
}

// Read returns the contents of a sealed file.
func Read(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	size, _, err := verify(bytes.NewReader(all), int64(len(all)), path)
	if err != nil {
		return nil, err
	}
	return all[:size], nil
}

// Append seals a file that another program has written, under the name that it
// will have. The note is returned by Verify.
func Append(path, name string, note []byte) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	sum, size, err := checksum(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// A process that is started meanwhile would have the file open for writing for
	// a moment: then nobody can execute it ("text file busy").
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if f, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW, 0); err != nil {
		return err
	}
	_, err = f.WriteAt(seal(name, size, sum, note), size)
	return errors.Join(err, f.Close())
}

// Publish gives a finished file another name, in the same file system, when all
// of it is on disk. The file keeps its old name, too, so that a program can be
// started from it meanwhile. It must not be written to any more: remove it.
func Publish(file, path string) error {
	f, err := open(file)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Close())
	if err != nil {
		return err
	}
	link := file + ".link"
	os.Remove(link)
	if err := os.Link(file, link); err != nil {
		if err = duplicate(file, link); err != nil {
			return err
		}
	}
	if err := os.Rename(link, path); err != nil {
		os.Remove(link)
		return err
	}
	os.Remove(link) // rename leaves it where both are one file already
	return wire.SyncDir(filepath.Dir(path))
}

// duplicate copies a file where links are not known.
func duplicate(from, to string) error {
	in, err := open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		os.Remove(to)
	}
	return err
}

// open is [wire.OpenOwn] for reading.
func open(path string) (*os.File, error) {
	f, err := wire.OpenOwn(path, os.O_RDONLY)
	if errors.Is(err, wire.Denied) {
		err = &DamagedError{path, "it is not a regular file of this user's"}
	}
	return f, err
}

// verify compares a file with its seal.
func verify(f io.ReaderAt, total int64, path string) (size int64, note []byte, err error) {
	damaged := func(format string, args ...any) (int64, []byte, error) {
		return 0, nil, &DamagedError{path, fmt.Sprintf(format, args...)}
	}
	end := make([]byte, footerSize)
	if total < int64(footerSize) {
		return damaged("it has %d bytes, and no checksum", total)
	}
	if _, err := f.ReadAt(end, total-int64(footerSize)); err != nil {
		return 0, nil, err
	}
	var length, sum uint32
	if n, err := fmt.Sscanf(string(end), footer, &size, &length, &sum); n != 3 || err != nil {
		return damaged("it does not end with a checksum: it is cut off, or another program's")
	}
	if size < 0 || size+int64(length)+int64(footerSize) != total {
		return damaged("it has %d bytes, want %d", total, size+int64(length)+int64(footerSize))
	}
	note = make([]byte, length)
	if _, err := f.ReadAt(note, size); err != nil && length > 0 {
		return 0, nil, err
	}
	got, err := checksumOf(io.NewSectionReader(f, 0, size))
	if err != nil {
		return 0, nil, err
	}
	if want := seal(filepath.Base(path), size, got, note); !bytes.Equal(want[len(note):], end) {
		return damaged("its checksum is wrong")
	}
	return size, note, nil
}

func checksum(f *os.File) (sum uint32, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	sum, err = checksumOf(io.NewSectionReader(f, 0, info.Size()))
	return sum, info.Size(), err
}

func checksumOf(r io.Reader) (sum uint32, err error) {
	// What fits into a core's cache is copied and summed fastest.
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		sum = crc32.Update(sum, castagnoli, buf[:n])
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
