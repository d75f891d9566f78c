package device

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// Worker owns the devices: it is the only process with a device context. Set
// the fields before Run and not after.
type Worker struct {
	Version    string // of this build
	Generation int    // counts restarts, from 1
	Note       string // what the last restart lost, for clients
	Plugin     Plugin
	Socket     string // where clients look for it; the listener is Run's
	Log        string
	Programs   string // directory of compiled programs, "" for none
	State      string // directory of snapshots and jobs, "" for none
	Logf       func(format string, args ...any)

	Hosts  []string   // addresses of followers that are to join
	Secret string     // for those that are reached over TLS
	Node   *pjrt.Node // of a follower's worker, nil for the controller's

	identity
	accelerators
	storage
	lifetime

	mu       sync.Mutex // protects following, and array and program
	unpinned *sync.Cond // signalled when a call into PJRT has ended, or a reader of an array
	totals
	holdings
}

// identity is how clients and files know a worker.
type identity struct {
	socketID string // of the socket that Run listens on
	uid      int
	started  time.Time
	instance string
	origin   string // of its process number
}

// accelerators are the devices, and what Open finds out about them.
type accelerators struct {
	client      *hosts.Client
	devices     []*hosts.Device // of all nodes, those of this one first
	inline      bool            // short programs run inside Execute
	pools       []gpuMemory     // of GPUs, where memory is theirs
	deviceLimit int64           // memory of the smallest device, 0 if it is not known
	turns       []*turns        // of the devices
	health      health
	flags       flags // that the plugin has been given

	tracing sync.Mutex // protects trace
	trace   *pjrt.Profile
}

// storage is what a worker has on disk.
type storage struct {
	cache      *cache
	keeping    sync.Mutex     // held while a program is written to disk
	background sync.WaitGroup // work that the end waits for
	writer     sync.Once      // begins the thread that takes writes
	writes     chan func()
	stateLock  *os.File
	stateOff   string // why no snapshots are kept, "" if they are
	stateNext  string // what to do about it, where one knows
}

// lifetime is how a worker ends, and its hosts change.
type lifetime struct {
	stopped chan struct{}
	once    sync.Once     // closes stopped
	shut    chan struct{} // closed when Run takes no more connections
	fate    error         // what ends the worker, nil if it was asked to stop; written before stopped is closed

	regrouping sync.Mutex                        // held while the hosts are changed
	reported   atomic.Pointer[[]wire.DeviceInfo] // of a follower's worker: what the controller hears of the devices
}

// totals are all arrays, and their memory. Worker.mu protects them.
type totals struct {
	all     array // head of the list of all arrays
	count   int   // in it
	tidying bool  // memory is released soon
	bytes   int64 // in arrays
	undoing int64 // of them, kept to be undone
	most    int64 // what arrays and a program that ran needed at once: see wastes
	floor   int64 // resident besides arrays after the last trim
}

// holdings are what clients have in the session. Worker.mu protects them.
type holdings struct {
	names    map[name]*array
	folders  map[name]int // how many names there are in one: see under
	programs map[[32]byte]*program
	conns    map[*conn]struct{}
	left     int      // frames of clients that have gone: see pulse
	orphans  []orphan // errors of clients that have gone
	spaces   map[string]*space
	troubles map[string]string // by space: why it is not saved
	ending   bool              // no work is taken any more
}

// Open loads the plugin and takes the devices.
func (w *Worker) Open() error {
	w.uid, w.started, w.instance, w.origin = os.Getuid(), time.Now(), rand.Text(), wire.ProcessOrigin()
	w.stopped, w.shut = make(chan struct{}), make(chan struct{})
	w.unpinned = sync.NewCond(&w.mu)
	w.all.prev, w.all.next = &w.all, &w.all
	w.names, w.folders = map[name]*array{}, map[name]int{}
	w.programs, w.conns = map[[32]byte]*program{}, map[*conn]struct{}{}
	w.spaces, w.troubles = map[string]*space{}, map[string]string{}
	if w.Logf == nil {
		w.Logf = func(string, ...any) {}
	}
	w.health.try = w.fourBytes
	p, err := pjrt.Load(w.Plugin.Path)
	if err != nil {
		return wire.Errorf(wire.Unavailable, "%v", err).WithHint("gaiden doctor says what is there; GAIDEN_PLUGIN names another plugin")
	}
	if w.Plugin.Device == "cuda" {
		w.pools = choosePools(w.Plugin.Options, pjrt.GPUs(), func(gpu int) (pool, error) { return pjrt.PoolOf(gpu) })
	}
	if len(w.pools) > 0 {
		w.Plugin.Options[allocatorOption] = "cuda_async"
	}
	if err := w.openClient(p); err != nil {
		return err
	}
	w.devices = w.client.Devices()
	for range w.devices {
		w.turns = append(w.turns, newTurns(&w.mu))
	}
	w.inline = w.client.Platform() == "cpu"
	if len(w.pools) > 0 {
		if err := w.keepPools(); err != nil { // a session without a limit is better than none
			w.Logf("memory of GPUs: %v: no limit is kept", err)
			w.pools = nil
		}
	}
	for i := range w.devices {
		if m, _, err := w.memory(i); err == nil && m.Limit > 0 && (w.deviceLimit == 0 || m.Limit < w.deviceLimit) {
			w.deviceLimit = m.Limit
		}
	}
	about := []string{w.client.Platform(), w.client.PlatformVersion(), w.Plugin.Device, fmt.Sprint(w.client.Here())}
	for _, d := range w.devices[:w.client.Here()] {
		about = append(about, d.Kind())
	}
	w.cache = openCache(w.Programs, 0, w.Plugin.Path, about, w.Logf)
	w.openState()
	w.resumeJobs()
	return nil
}

// Run serves clients that come to l until Stop is called, or the devices are lost:
// its error says of what.
func (w *Worker) Run(l *net.UnixListener) error {
	go w.keepState()
	go w.guard()
	if w.Plugin.Device == "cpu" {
		go w.rest(idle, w.wastes, w.shed)
	} else if len(w.pools) > 0 {
		go w.rest(unusedFor, func() bool { return false }, w.unused)
	}
	w.accept(l)
	close(w.shut)
	if w.stop(); w.fate != nil { // stop: where it was not the worker that closed the socket
		if errors.Is(w.fate, errRegroup) {
			w.regrouping.Lock() // until who has changed the hosts is answered
		}
		time.Sleep(grace)
		return w.fate
	}
	w.finish()
	return nil
}

// accept serves clients that come to l until the worker stops.
func (w *Worker) accept(l *net.UnixListener) {
	go func() {
		<-w.stopped
		l.Close()
	}()
	for {
		sock, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			w.Logf("accept: %v", err)
			time.Sleep(10 * time.Millisecond) // out of descriptors: others will free some
			continue
		}
		go w.serve(sock)
	}
}

// orphan is an error whose client has gone.
type orphan struct {
	pid, group int // of the client; not the connection itself, whose buffers would be kept too
	origin     string
	err        *wire.Error
	told       bool // the client has been told
}

// stop ends Run. The controller of a follower's worker did not ask for it.
func (w *Worker) stop() {
	if w.Node != nil {
		w.fail(errStopped)
	}
	w.once.Do(func() { close(w.stopped) })
}

// fail ends Run with an error, unless it was asked to stop.
func (w *Worker) fail(cause error) {
	w.once.Do(func() {
		w.fate = cause
		close(w.stopped)
	})
}

// failed says whether the worker ends with an error.
func (w *Worker) failed() bool {
	select {
	case <-w.stopped:
		return w.fate != nil
	default:
		return false
	}
}

// finish takes no more work, and saves what there is.
func (w *Worker) finish() {
	w.mu.Lock()
	w.ending = true
	w.unpinned.Broadcast()
	w.mu.Unlock()
	w.haltJobs()
	w.saveAll()
	w.background.Wait()
}

func (w *Worker) join(c *conn) {
	w.mu.Lock()
	w.conns[c] = struct{}{}
	w.mu.Unlock()
}

// leave ends a connection. Errors its client has not read stay for Drain.
func (w *Worker) leave(c *conn) {
	c.leaveAll()
	errs := c.untold()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	c.unlockAll()
	c.mu.Lock()
	w.left += c.work
	c.mu.Unlock()
	for _, e := range errs {
		w.orphan(c, e, false)
	}
	for _, e := range c.advice { // its reader has ended
		w.orphan(c, e, true)
	}
}

// orphan keeps an error for Drain. The caller holds w.mu.
func (w *Worker) orphan(c *conn, e *wire.Error, told bool) {
	if n := len(w.orphans); n > 1000 {
		w.orphans = slices.Delete(w.orphans, 0, n/2) // nobody drains these: clients without our kernel
	}
	w.orphans = append(w.orphans, orphan{c.pid, c.group, c.hello.Origin, e, told})
}

// freeBuffer gives a buffer back to the device.
func (w *Worker) freeBuffer(b pjrt.Buffer) {
	if err := w.client.Free(b); err != nil {
		w.Logf("free: %v", err)
	}
}

// welcome describes the session to a client of a space.
func (w *Worker) welcome(s *space) wire.WelcomeBody {
	b := wire.WelcomeBody{Protocol: wire.Protocol, Version: w.Version, Generation: w.Generation, Instance: w.instance, Note: w.Note, Plugin: w.Plugin.Path,
		Platform: w.client.Platform(), PlatformVersion: w.client.PlatformVersion(), Boot: wire.BootID()}
	if s != nil {
		w.mu.Lock()
		b.Note = strings.Join(slices.DeleteFunc([]string{w.Note, s.note}, func(t string) bool { return t == "" }), "; ")
		w.mu.Unlock()
	}
	b.Devices = w.deviceInfos()
	return b
}

// deviceInfos describes the devices, those of other hosts as they last did.
func (w *Worker) deviceInfos() (all []wire.DeviceInfo) {
	for i, d := range w.devices {
		if r := d.Reported(); r != nil {
			all = append(all, *r)
			continue
		}
		info := wire.DeviceInfo{ID: d.ID(), Kind: d.Kind(), Host: d.Host, InUse: -1, Peak: -1, Limit: -1, Pool: -1, LargestFree: -1}
		m, left, err := w.memory(i)
		if err == nil {
			info.InUse, info.Peak, info.Limit, info.Pool, info.LargestFree = m.InUse, m.Peak, m.Limit, m.Pool, m.LargestFree
		}
		info.Memory, info.Left = w.memoryOf(info.Limit, left)
		if all, err := d.Attributes(); err == nil {
			info.Capability, _ = all["compute_capability"].(string)
		}
		all = append(all, info)
	}
	return all
}

// profile begins a trace of all that the device does, or ends it and returns
// XLA's XSpace message.
func (w *Worker) profile(start bool) ([]byte, error) {
	w.tracing.Lock()
	defer w.tracing.Unlock()
	if start {
		if w.trace != nil {
			return nil, fmt.Errorf("a profile is being taken: end it first")
		}
		var err error
		w.trace, err = w.client.Plugin.StartProfile()
		return nil, err
	}
	if w.trace == nil {
		return nil, fmt.Errorf("no profile is being taken: start one first")
	}
	t := w.trace
	w.trace = nil
	return t.Stop()
}

// dtype is the plugin's number of an element type: the protocol uses the same.
func dtype(t wire.DType) pjrt.DType { return pjrt.DType(t) }

// credentials of a peer.
type credentials struct{ uid, pid, group int }

// peer asks the system who is at the other end.
func peer(sock *net.UnixConn) (credentials, error) {
	cred, err := wire.Peer(sock)
	if err != nil {
		return credentials{}, err
	}
	group, err := syscall.Getpgid(int(cred.Pid))
	if err != nil {
		group = int(cred.Pid) // it has gone already
	}
	return credentials{int(cred.Uid), int(cred.Pid), group}, nil
}
