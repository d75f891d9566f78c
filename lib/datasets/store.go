package datasets

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/files"
)

// A store is the folder that keeps the files of one data set.
type store struct {
	dir     string
	options Options
}

// store returns the folder of one data set; it need not exist.
func (o Options) store(folder string) (*store, error) {
	for i, mirror := range o.Mirrors {
		if u, err := url.Parse(mirror); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("datasets: Options.Mirrors[%d] is %q: want the address of a folder, http://… or https://…; for files on this machine use Options.Dir", i, mirror)
		}
	}
	dir := cmp.Or(o.Dir, os.Getenv("GAIDEN_DATA"))
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("datasets: no place to keep data: %w; set GAIDEN_DATA to a folder", err)
		}
		dir = filepath.Join(cache, "gaiden", "data")
	}
	return &store{dir: filepath.Join(dir, folder), options: o}, nil
}

// lock keeps other processes from fetching into the folder at the same time.
// It waits for one that does, until ctx ends.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("datasets: cannot keep data: %w; set GAIDEN_DATA to a folder that can be written", err)
	}
	f, err := open(filepath.Join(s.dir, ".lock"), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("datasets: cannot keep data: %w; set GAIDEN_DATA to a folder that can be written", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			s.sweep()
			return func() { f.Close() }, nil // closing gives the lock back
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("datasets: lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("datasets: waiting for another program that fetches into %s: %w", s.dir, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// open opens a regular file of a folder that others may share. It waits for nobody at the
// other end of a pipe, and does not follow a symbolic link to what is written.
func open(path string, flag int) (*os.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		flag |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file: remove it", path))
	}
	return f, nil
}

// sweep removes what a killed program left half written. Parts of downloads
// stay, to be resumed.
func (s *store) sweep() {
	for _, leavings := range []string{"*.new-*", "apt-*"} {
		paths, _ := filepath.Glob(filepath.Join(s.dir, leavings))
		for _, path := range paths {
			os.RemoveAll(path)
		}
	}
}

// read returns a file of the folder after proving its sum.
func (s *store) read(f file) ([]byte, error) {
	path := filepath.Join(s.dir, f.name)
	if info, err := os.Stat(path); err == nil && info.Size() != f.size {
		return nil, &ChecksumError{File: path, Got: fmt.Sprintf("%d bytes", info.Size()), Want: fmt.Sprintf("%d bytes", f.size)}
	}
	in, err := open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.sha256 {
		return nil, &ChecksumError{File: path, Got: hex.EncodeToString(sum[:]), Want: f.sha256}
	}
	return data, nil
}

// unpackFile is unpack of a file.
func (s *store) unpackFile(f file, path string) error {
	packed, err := open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer packed.Close()
	return s.unpack(f, packed)
}

// unpack writes what a gzip stream holds to the folder, if it has the right
// sum. The file appears whole or not at all.
func (s *store) unpack(f file, packed io.Reader) error {
	z, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("%s.gz: %w", f.name, err)
	}
	// One byte more than wanted is enough to see that a file is too long,
	// whatever a hostile archive would unpack to.
	return s.write(f, io.LimitReader(z, f.size+1))
}

func (s *store) write(f file, contents io.Reader) error {
	out, err := files.Create(filepath.Join(s.dir, f.name))
	if err != nil {
		return fmt.Errorf("datasets: %w", err)
	}
	defer out.Abort()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), contents)
	if err != nil {
		return fmt.Errorf("%s: after %d of %d bytes: %w", f.name, n, f.size, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.sha256 {
		return &ChecksumError{File: f.name, Got: got, Want: f.sha256}
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("datasets: %w", err)
	}
	return nil
}

// A cell is a process of its own, so a file records that mirrors are unreachable:
// otherwise every cell of an offline notebook would wait for them again.
const failureFile, failureHolds = "mirrors-failed", time.Hour

// mirrors returns those to ask now, or why there are none.
func (s *store) mirrors(usual []string) ([]string, error) {
	if s.options.Offline {
		return nil, errors.New("the network was not tried (Options.Offline)")
	}
	if s.options.Mirrors != nil {
		return s.options.Mirrors, nil
	}
	path := filepath.Join(s.dir, failureFile)
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > failureHolds {
		return usual, nil
	}
	reason, _ := os.ReadFile(path) // without it the time is still told
	return nil, fmt.Errorf("no mirror answered at %s (%s); delete %s to try again before an hour has passed",
		info.ModTime().Format("15:04"), strings.TrimSpace(string(reason)), path)
}

func (s *store) rememberFailure(reason error) {
	if s.options.Mirrors != nil {
		return // somebody is trying things out
	}
	// Losing this note costs a few seconds in the next cell, no more.
	_ = os.WriteFile(filepath.Join(s.dir, failureFile), []byte(reason.Error()+"\n"), 0o644)
}

// A ChecksumError reports a file whose content is not the expected one.
type ChecksumError struct {
	File      string
	Got, Want string // SHA-256 sums, or sizes
}

func (e *ChecksumError) Error() string {
	if strings.HasSuffix(e.Want, "bytes") {
		return fmt.Sprintf("datasets: %s: got %s, want %s", e.File, e.Got, e.Want)
	}
	return fmt.Sprintf("datasets: %s: checksum is %.8s…, want %.8s…", e.File, e.Got, e.Want)
}

// An UnavailableError reports a data set that is not on this machine and cannot be
// downloaded.
type UnavailableError struct {
	Name  string
	Dir   string   // where its files are expected
	Files []string // files that are missing there
	Tried []error  // why each attempt failed
}

// Error ends with what to do next: a cell that panics with the error shows only its
// text.
func (e *UnavailableError) Error() string { return "datasets: " + e.why() + "; " + e.Hint() }

func (e *UnavailableError) why() string {
	reasons := make([]string, len(e.Tried))
	for i, err := range e.Tried {
		reasons[i] = err.Error()
	}
	return fmt.Sprintf("%s: not in %s and cannot be fetched: %s", e.Name, e.Dir, strings.Join(reasons, "; "))
}

func (e *UnavailableError) Unwrap() []error { return e.Tried }

func (e *UnavailableError) Hint() string {
	return fmt.Sprintf("put %s (packed or not) into %s; or set GAIDEN_DATA to a folder that has them in %s; "+
		"or take datasets.Fashion, or datasets.Synthetic, which needs no files",
		strings.Join(e.Files, ", "), e.Dir, filepath.Base(e.Dir))
}
