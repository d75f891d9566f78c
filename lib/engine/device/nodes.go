package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

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
	nodes := hosts.Gather(w.Hosts, w.Secret, hosts.Call{Version: w.Version, Owner: w.owner()})
	for _, err := range nodes.Missing {
		w.Logf("%v", err)
		w.Note = strings.TrimPrefix(w.Note+"; "+err.Error(), "; ")
	}
	c, err := nodes.Open(p, w.Plugin.Options)
	if err != nil {
		nodes.Close()
		if e, is := errors.AsType[*wire.Error](err); is {
			return e
		}
		return w.Plugin.refused(err)
	}
	c.Watch(func(err error) {
		w.Logf("%v: the nodes cannot go on", err)
		w.fail(err)
	})
	w.client, w.devices = c, c.Devices()
	return nil
}

// owner tells the controllers of one session from others'.
func (w *Worker) owner() string { return wire.ProcessOrigin() + " " + w.Socket }

// outOfStep ends the worker where a program of several nodes has failed: the other nodes may
// wait for this one in the middle of it. The caller may hold w.mu.
func (w *Worker) outOfStep(p *program, why *wire.Error) {
	if p.spans {
		w.fail(wire.Errorf(why.Code, "program %s, which runs on several hosts, failed: %s", p.name, why.Text))
	}
}

var errHungUp = errors.New("the controller has ended the connection")

// hostsPath is the file with the addresses of followers, as JSON. It lives as long as the
// session's supervisor.
func hostsPath() string { return wire.SocketPath() + ".hosts" }

// hostList is what that file holds.
type hostList struct {
	Addresses []string
	Secret    string `json:",omitempty"`
}

func readHosts() (addresses []string, secret string, err error) {
	var l hostList
	b, err := wire.ReadOwn(hostsPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return nil, "", fmt.Errorf("device: list of hosts %s: %w", hostsPath(), err)
	}
	return l.Addresses, l.Secret, nil
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
	w.Node = &pjrt.Node{ID: j.Node, Count: j.Count, Store: hosts.NewRemoteStore(ends[1])}
	return ends[0].(*net.UnixConn), nil
}

// follow serves the controller, and ends with its connection.
func (w *Worker) follow(controller *net.UnixConn) error {
	go w.serve(controller)
	<-w.stopped
	return w.fate
}
