package session

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"gaiden/lib/engine/wire"
)

// Cost is the time and traffic that a process spent on its connections. Times are
// wall-clock times of the process.
type Cost struct {
	Graph    time.Duration // building programs and generating their text
	Compile  time.Duration // compiling in the session, or loading from disk
	Compiled int           // number of programs that the session compiled
	Loaded   int           // number of programs that it loaded from disk
	Ready    int           // number of programs that it had in memory

	Upload, Download           time.Duration // copying arrays, and waiting for the results that are read
	UploadBytes, DownloadBytes int64
	Device                     time.Duration // other waiting for the devices
}

// costEnv names the file of a [CostMeter].
const costEnv = "GAIDEN_COST"

const costs = int(unsafe.Sizeof(Cost{}) / 8)

// tally is a Cost that several threads and processes add to.
type tally [costs]int64

const (
	costGraph = iota
	costCompile
	costCompiled
	costLoaded
	costReady
	costUpload
	costDownload
	costUploadBytes
	costDownloadBytes
	costDevice
)

func (t *tally) add(what int, n int64) { atomic.AddInt64(&t[what], n) }

func (t *tally) since(what int, began time.Time) { t.add(what, int64(time.Since(began))) }

// moved adds a transfer; the index of its bytes is two after that of its time.
func (t *tally) moved(what int, began time.Time, bytes int) {
	t.since(what, began)
	t.add(what+2, int64(bytes))
}

// program adds what a program has cost.
func (t *tally) program(p *Program) {
	t.add(costGraph, int64(p.Trace))
	if p.source != nil {
		t.add(costGraph, int64(p.source.Building))
	}
	t.add(costCompile, int64(p.Took))
	switch p.From {
	case wire.Memory:
		t.add(costReady, 1)
	case wire.Disk:
		t.add(costLoaded, 1)
	default:
		t.add(costCompiled, 1)
	}
}

// spent is this process's tally: in the meter's file where there is one, so that
// it is known however the process ends.
var spent = sync.OnceValue(func() *tally {
	if t, err := openTally(os.Getenv(costEnv)); err == nil {
		return t
	}
	return new(tally)
})

// openTally maps the tally of the meter whose Environ has this value. A program may have
// inherited it from a kernel that has ended long ago: the descriptor that the path names
// is then any file of any process, so nothing is written before the file is known to be
// the meter's, by the token at its beginning.
func openTally(value string) (*tally, error) {
	token, path, ok := strings.Cut(value, "@")
	if !ok || len(token) != tokenSize {
		return nil, fs.ErrNotExist
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var head [tokenSize]byte
	if !info.Mode().IsRegular() || info.Size() != meterSize {
		return nil, fs.ErrNotExist
	}
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:]) != token {
		return nil, fs.ErrNotExist
	}
	w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0) // the same file, to be written to
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return mapTally(w)
}

// A meter's file is its token and the tally.
const (
	tokenSize = 32
	meterSize = tokenSize + int64(unsafe.Sizeof(tally{}))
)

func mapTally(f *os.File) (*tally, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, int(meterSize), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*tally)(unsafe.Pointer(&b[tokenSize])), nil
}

// A CostMeter adds up the Cost of processes that this process starts.
type CostMeter struct {
	file  *os.File
	token string
	tally *tally
}

// NewCostMeter creates a meter. Processes that have its Environ in their environment
// report to it, even if they crash. It fails if no temporary file can be created.
func NewCostMeter() (*CostMeter, error) {
	token := (rand.Text() + rand.Text())[:tokenSize]
	f, err := os.CreateTemp("", "gaiden-cost-")
	if err == nil {
		err = os.Remove(f.Name()) // it has no name to be left behind
	}
	if err == nil {
		_, err = f.WriteString(token)
	}
	if err == nil {
		err = f.Truncate(meterSize)
	}
	if err != nil {
		return nil, fmt.Errorf("session: cost meter: %w", err)
	}
	t, err := mapTally(f)
	if err != nil {
		return nil, fmt.Errorf("session: cost meter: %w", err)
	}
	return &CostMeter{f, token, t}, nil
}

// Environ returns the entry, NAME=value, to add to a process's environment.
func (m *CostMeter) Environ() string {
	return fmt.Sprintf("%s=%s@/proc/%d/fd/%d", costEnv, m.token, os.Getpid(), m.file.Fd())
}

// Take returns the cost since the last Take.
func (m *CostMeter) Take() Cost {
	var n [costs]int64
	for i := range n {
		n[i] = atomic.SwapInt64(&m.tally[i], 0)
	}
	return *(*Cost)(unsafe.Pointer(&n))
}
