package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// openClient makes the client: of this process alone, or with the followers that answer, or
// as one of them.
func (w *Worker) openClient(p *pjrt.Plugin) error {
	if w.Node != nil {
		c, err := p.NewNode(w.Plugin.Options, *w.Node)
		if err != nil {
			return w.Plugin.refused(err)
		}
		w.client = hosts.Follow(c)
		w.devices = w.client.Devices()
		return nil
	}
	nodes := hosts.Gather(w.Hosts, w.Secret, w.call())
	for _, err := range nodes.Missing {
		w.note("%v", err)
	}
	c, err := nodes.Open(p, w.Plugin.Options)
	if err != nil {
		w.dropHosts(nodes.Failed()) // before Close, by which all are lost
		nodes.Close()
		if e, is := errors.AsType[*wire.Error](err); is {
			return e
		}
		return w.Plugin.refused(err)
	}
	c.Watch(func(err error) {
		w.Logf("%v: the nodes cannot continue", err)
		w.fail(err)
	})
	w.client, w.devices = c, c.Devices()
	return nil
}

// dropHosts has the next worker start without some hosts: with them none can.
func (w *Worker) dropHosts(addresses []string) {
	if len(addresses) == 0 {
		return
	}
	l := slices.DeleteFunc(slices.Clone(w.Hosts), func(a string) bool { return slices.Contains(addresses, a) })
	if err := wire.ReplaceFile(hostsPath(), wire.JSON(hostFile{l, w.Secret})); err != nil {
		w.Logf("list of hosts: %v", err)
	}
	w.Logf("the next worker starts without %s", strings.Join(addresses, ", "))
}

// gpus are those that a client of the plugin uses.
func (p Plugin) gpus() (g hosts.GPUs) {
	if p.Device == "cuda" {
		g.Boot, g.Environment = wire.BootID(), os.Getenv("CUDA_VISIBLE_DEVICES")
		g.Visible, _ = p.Options[visibleOption].([]int64)
	}
	return g
}

// call is how this worker calls followers.
func (w *Worker) call() hosts.Call {
	return hosts.Call{Version: w.Version, Owner: w.owner(), GPUs: w.Plugin.gpus()}
}

// owner tells the controllers of one session from others'.
func (w *Worker) owner() string { return wire.ProcessOrigin() + " " + w.Socket }

// outOfStep ends the worker where a program of several nodes has failed: the other nodes may
// wait for this one in the middle of it. One that did not start on the controller has started
// nowhere, or Client.Watch tells. The caller may hold w.mu.
func (w *Worker) outOfStep(p *program, why *wire.Error, started bool) {
	if p.spans && (started || w.Node != nil) && why.Code != wire.Lost { // which openClient has been told of, with its cause
		w.fail(wire.Errorf(why.Code, "program %s, which runs on several hosts, failed: %s", p.name, why.Text))
	}
}

// What ends a follower's worker.
var (
	errHungUp  = errors.New("the controller has ended the connection")
	errStopped = errors.New("the follower was stopped")
)

// hostsPath is the file with the addresses of followers, as JSON. It lives as long as the
// session's supervisor.
func hostsPath() string { return wire.SocketPath() + ".hosts" }

// hostFile is what that file holds.
type hostFile struct {
	Addresses []string
	Secret    string `json:",omitempty"`
}

// readHosts fills in the followers. A worker without them is better than none.
func (w *Worker) readHosts() {
	var l hostFile
	b, err := wire.ReadOwn(hostsPath())
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		w.note("list of hosts %s: %v", hostsPath(), err)
	}
	w.Hosts, w.Secret = l.Addresses, l.Secret
}

// note logs what clients are to know of the hosts, too.
func (w *Worker) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.Logf("%s", text)
	w.Note = strings.TrimPrefix(w.Note+"; "+text, "; ")
}

// errRegroup ends a worker whose hosts have changed, and regroupStatus is the status of its
// process: all is saved, and the supervisor starts the next one.
var errRegroup = errors.New("the hosts have changed")

const regroupStatus = 75 // EX_TEMPFAIL of sysexits.h

// lostStatus is the status of a worker that ends because another host is lost.
const lostStatus = 69 // EX_UNAVAILABLE

// hostList describes the hosts that are to be in the session.
func (w *Worker) hostList() (l []wire.HostInfo) {
	for _, address := range w.Hosts {
		info := wire.HostInfo{Address: address}
		info.Name, info.Devices = w.client.Joined(address)
		l = append(l, info)
	}
	return l
}

// askHosts tells of the hosts, or changes them: then the answer says that all is saved, and
// the worker ends.
func (c *conn) askHosts(id uint32, a wire.AskBody) {
	w := c.w
	if len(a.Names)+len(a.Remove) == 0 {
		c.answer(id, &wire.AnswerBody{Hosts: w.hostList()})
		return
	}
	w.regrouping.Lock() // of two changes at the same time one would be lost
	defer w.regrouping.Unlock()
	list, why := w.changedHosts(a)
	if why == nil {
		why = w.mayRegroup(c)
	}
	if why != nil {
		c.fail(id, why)
		return
	}
	if err := wire.ReplaceFile(hostsPath(), wire.JSON(list)); err != nil {
		c.fail(id, wire.Errorf(wire.Unavailable, "list of hosts: %v", err))
		return
	}
	w.finish()
	w.fail(errRegroup)
	<-w.shut // who is answered, and connects again, must not come to this worker
	c.answer(id, &wire.AnswerBody{})
}

// mayRegroup saves the arrays, and says why this worker must not end now: somebody works with
// them, or what has a name would be lost.
func (w *Worker) mayRegroup(c *conn) *wire.Error {
	if w.pulse(c).Busy {
		return wire.Errorf(wire.Busy, "another cell or a job uses the devices: hosts change when nothing runs").WithHint("%%monitor shows what runs; try again when it has ended")
	}
	w.saveAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending {
		return wire.Errorf(wire.Busy, "this worker ends, as the hosts change or the session stops").WithHint("%%hosts lists those of the next worker; try again then")
	}
	why := ""
	if len(w.names) > 0 {
		why = w.stateOff
	}
	for _, s := range w.spaces {
		if len(s.locks) > 0 {
			return s.locks[0].busy(s.locks[0].prefix + "*")
		}
		if s.version != s.saved && w.troubles[s.name] != "" {
			why = fmt.Sprintf("notebook %q: %s", s.name, w.troubles[s.name])
		}
	}
	if why != "" {
		return wire.Errorf(wire.Unavailable, "the hosts stay as they are, as arrays would be lost, which cannot be saved: %s", why).
			WithHint("%%hosts works when they can be saved, or are deleted")
	}
	return nil
}

// changedHosts is the list of hosts after a request.
func (w *Worker) changedHosts(a wire.AskBody) (*hostFile, *wire.Error) {
	l := &hostFile{Addresses: slices.Clone(w.Hosts), Secret: w.Secret}
	if a.Path != "" {
		s, err := hosts.ReadSecret(a.Path)
		if err != nil {
			return nil, asError(err)
		}
		l.Secret = s
	}
	for _, address := range a.Remove {
		at := slices.Index(l.Addresses, address)
		if at < 0 {
			return nil, wire.Errorf(wire.NotFound, "no host %q in this session", address).WithHint("%%hosts lists them")
		}
		l.Addresses = slices.Delete(l.Addresses, at, at+1)
	}
	var come []string
	for _, address := range a.Names {
		if err := hosts.CheckAddress(address); err != nil {
			return nil, err
		}
		if name, _ := w.client.Joined(address); name != "" {
			return nil, wire.Errorf(wire.Invalid, "host %s is in this session already", address)
		}
		if come = append(come, address); !slices.Contains(l.Addresses, address) {
			l.Addresses = append(l.Addresses, address)
		}
	}
	if n := len(l.Addresses); n > hosts.MostPeers {
		return nil, wire.Errorf(wire.Invalid, "got %d hosts, want at most %d besides this one", n, hosts.MostPeers)
	}
	if len(come) > 0 && w.inline && w.client.Here() == len(w.devices) {
		c, err := w.client.Plugin.NewNode(w.Plugin.Options, pjrt.Node{Count: 1, Store: &hosts.Store{}})
		if err != nil {
			return nil, wire.Errorf(wire.Unsupported, "XLA's CPU plugin cannot compute on several hosts: %v", err).WithHint("hosts need GPUs; GAIDEN_CPU_DEVICES=2 tries programs for two devices on one CPU")
		}
		c.Close()
	}
	// Whoever does not answer now is not worth a new generation of the worker.
	call := w.call()
	call.Probe = true
	nodes := hosts.Gather(come, l.Secret, call)
	nodes.Close()
	if len(nodes.Missing) > 0 {
		e := asError(nodes.Missing[0])
		if e.Code == wire.Internal {
			e = wire.Errorf(wire.Unavailable, "%v", nodes.Missing[0]).WithHint("gaiden session join on that host prints its address")
		}
		return nil, e
	}
	return l, nil
}

// beNode makes this worker a follower's, whose controller is at the returned connection.
func (w *Worker) beNode(j job) (*net.UnixConn, error) {
	var ends [2]net.Conn
	for i, fd := range []uintptr{3, 5} {
		f := os.NewFile(fd, "controller")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("device: worker: descriptor %d: %w", fd, err)
		}
		ends[i] = c
	}
	w.State, w.Socket = "", "" // arrays are the controller's to save
	store := hosts.NewRemoteStore(ends[1])
	w.reported.Store(&[]wire.DeviceInfo{})
	w.Node = &pjrt.Node{ID: j.Node, Count: j.Count, Store: store}
	go func() {
		err := store.Beat(func() hosts.Sign { return hosts.Sign{Devices: *w.reported.Load()} })
		w.Logf("%v: this worker ends", err)
		os.Exit(1) // its threads may wait for other nodes, in the plugin, for ever
	}()
	return ends[0].(*net.UnixConn), nil
}

// observe keeps what the signs of life say of the devices, which do not wait for these.
func (w *Worker) observe() {
	for {
		all := w.deviceInfos()
		w.reported.Store(&all)
		time.Sleep(time.Second)
	}
}

// follow serves the controller, and ends with its connection.
func (w *Worker) follow(controller *net.UnixConn) error {
	go w.serve(controller)
	go w.observe()
	<-w.stopped
	w.mu.Lock()
	for c := range w.conns {
		go c.out.Send(wire.Failed, 0, func(b []byte) []byte { return append(b, wire.JSON(asError(w.fate))...) })
	}
	w.mu.Unlock()
	time.Sleep(grace)
	return w.fate
}
