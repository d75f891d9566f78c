package fit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// tuneRequest is what a run leaves to be tried by a process that survives its own: a file in
// the cache, until it has been handled.
type tuneRequest struct {
	Socket, Space string // of the session
	Net           recipe
	Data          string // the set's name
	Batch         int
	InOrder       bool
	Step          string // its key in the table of tilings
	Crashes       int    // how often it ended without a result: the session crashed, or there was no sandbox
}

// maxCrashes is how often that may be before a request is skipped: something in it may be
// the reason.
const maxCrashes = 3

// requestDir is where requests are.
func requestDir() string { return filepath.Join(wire.CacheDir(), "tilings", "requests") }

// path is the request's file: equal requests have the same.
func (w tuneRequest) path() string {
	sum := sha256.Sum256([]byte(w.Socket + "\n" + w.Space + "\n" + w.Net.Name + "\n" + w.Step))
	return filepath.Join(requestDir(), fmt.Sprintf("%x.json", sum[:8]))
}

// save writes the file: whole, or not at all.
func (w tuneRequest) save() error {
	b, err := json.MarshalIndent(w, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(requestDir(), 0o700); err != nil {
		return err
	}
	return sealed.Write(w.path(), b)
}

func readRequest(path string) (w tuneRequest, err error) {
	b, err := sealed.Read(path)
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	return w, err
}

// requested is what this process has requested, by net and step.
var requested sync.Map

// requestTuning requests that the net's steps be tuned in the background, in a notebook,
// where something is not known of them. It is no error if that never happens.
func (n *Net) requestTuning(data *Set, t Train) {
	if data.stream != nil || os.Getenv("GAIDEN_TUNE") == "off" || !n.kernelsMayRun() || n.config.Kernels != AutoKernels && n.config.Kernels != plainOps || n.config.Session != nil {
		return
	}
	if _, err := n.available(data, 1); err != nil {
		return
	}
	key, table := n.stepKey(t.Batch), n.tilings()
	known := table.Known(key)
	if !unmeasured(known) && len(table.Wanted()) == 0 || unmeasured(known) && known.Tried >= data.N/t.Batch {
		return
	}
	if _, started := requested.LoadOrStore(n.name+" "+key, true); started {
		return
	}
	r, err := n.recipe()
	if err != nil {
		return // only Tune can do it
	}
	w := tuneRequest{Socket: wire.SocketPath(), Space: n.session.Space(), Net: r, Data: data.Name, Batch: t.Batch, InOrder: t.InOrder, Step: key}
	if old, err := readRequest(w.path()); err == nil {
		if w.Crashes = old.Crashes; w.Crashes >= maxCrashes {
			return
		}
	}
	if w.save() == nil {
		startTuner()
	}
}

// startTuner starts a process that handles the requests and survives this one. It ends
// at once where another one runs.
var startTuner = func() error {
	bin, err := session.Binary()
	if err != nil {
		return err
	}
	cmd := exec.Command(bin, "tune", "-background")
	session.Detach(cmd)
	if err := startNice(cmd); err != nil {
		return err
	}
	go cmd.Wait()
	return nil
}

// niceness is that of the tuner: what it has compiled can take minutes, on all processors,
// and a cell that begins meanwhile is to have them.
const niceness = 10

// startNice starts a command that gives way to others, as what it starts does. It inherits
// that from a thread which is of no more use then, and stays: see Worker.write of package
// device for what the end of one can do.
func startNice(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness) // where that is forbidden, it is not nice
		started <- cmd.Start()
		select {}
	}()
	return <-started
}
