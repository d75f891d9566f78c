package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/device"
	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

const joinUsage = `[-listen ADDRESS] [-secret FILE]
Offers the GPUs of this machine to a session on another one, or on this one: %hosts add
in a notebook there. It works until it is interrupted, and uses the GPUs only while a
session has them. GAIDEN_DEVICE=cuda:1 offers one of them. ADDRESS is a path, which SSH can
forward, or HOST:PORT, which takes only TLS connections of who has the same secret.`

// joinMain is gaiden session join.
func joinMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("session join", joinUsage, stderr)
	address := f.String("listen", filepath.Join(wire.RuntimeDir(), "join.sock"), "where a session finds this host")
	file := f.String("secret", "", "a file with the secret that all hosts share; gaiden session secret writes one")
	if err := parseAll(f, args); err != nil {
		return err
	}
	secret := ""
	if *file != "" {
		var err error
		if secret, err = hosts.ReadSecret(*file); err != nil {
			return err
		}
	}
	plugin, err := device.Find()
	if err != nil {
		return err
	}
	if plugin.Device != "cuda" {
		return wire.Errorf(wire.Unsupported, "no GPU: XLA's CPU plugin cannot compute on several hosts").WithHint("gaiden doctor says what is there")
	}
	l, err := hosts.Listen(*address, secret)
	if err != nil {
		return err
	}
	defer l.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-stop
		l.Close()
	}()
	at := l.Address()
	if host, port, err := net.SplitHostPort(at); err == nil && net.ParseIP(host).IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			at = net.JoinHostPort(name, port)
		}
	}
	fmt.Fprintf(stdout, "this host waits at %s; in a notebook: %%hosts add %[1]s\n", at)
	(&device.Follower{Version: session.Version, Command: []string{self, "session", "worker"}, Plugin: plugin, Log: stderr}).Run(l)
	return nil
}

// secretMain is gaiden session secret.
func secretMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("session secret", "FILE\nWrites a new secret for gaiden session join and %hosts add: copy it to each host.", stderr)
	if err := parseFlags(f, args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		f.Usage()
		return errUsage
	}
	file, err := os.OpenFile(f.Arg(0), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // never in the place of one that is in use
	if err == nil {
		_, err = fmt.Fprintln(file, hosts.NewSecret())
		err = errors.Join(err, file.Close())
	}
	if err == nil {
		fmt.Fprintf(stdout, "%s has a new secret\n", f.Arg(0))
	}
	return err
}

const hostsArgs = "[add ADDRESS… [-secret FILE] | remove ADDRESS…]"

const hostsMore = `
gaiden session join, on another machine with the same Gaiden, offers its GPUs and
prints its ADDRESS: a socket, which ssh -L can forward to this machine, or
HOST:PORT, for which both need the same secret (gaiden session secret FILE).
%hosts reads FILE on the machine that the session runs on.

%hosts             list the hosts of the session
%hosts add …       let them join: their GPUs come after those of this machine, for
                   fit.Config{Devices: …}
%hosts remove …    let them leave
Arrays with names survive both, as they do a restart of the session. If a host is
lost, the session continues with the others from the last snapshot.`

func hostsMagic(_ context.Context, h magic.Host, c magic.Command) error {
	a, patience := wire.AskBody{Verb: wire.Hosts}, answerLimit
	if len(c.Args) > 0 {
		words := slices.Clone(c.Args[1:])
		if at := slices.Index(words, "-secret"); at >= 0 {
			if at+1 == len(words) {
				return magic.Usage(c)
			}
			path, err := filepath.Abs(words[at+1])
			if err != nil {
				return err
			}
			a.Path = path
			words = slices.Delete(words, at, at+2)
		}
		switch {
		case len(words) == 0:
			return magic.Usage(c)
		case c.Args[0] == "add":
			a.Names = words
		case c.Args[0] == "remove" && a.Path == "":
			a.Remove = words
		default:
			return magic.Usage(c)
		}
		if err := reviving("", func(s *session.Session) error {
			_, err := s.Ask(a)
			return err
		}); err != nil {
			return err
		}
		patience = 0 // the next worker answers when the hosts have joined
	}
	s, err := session.Config{Client: "kernel", NoStart: true, Patience: patience}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	ans, err := s.Ask(wire.AskBody{Verb: wire.Hosts})
	if err != nil {
		return err
	}
	return showHosts(h, s.Welcome(), ans.Hosts, a.Names)
}

// showHosts lists the hosts. The error says which of those that were added have not joined.
func showHosts(h magic.Host, w wire.WelcomeBody, l []wire.HostInfo, added []string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	here := len(slices.DeleteFunc(slices.Clone(w.Devices), func(d wire.DeviceInfo) bool { return d.Host != "" }))
	rows := [][]string{{"host", "devices", "address"}, {name, units.Count(here), "this session"}}
	away := slices.Clone(added)
	for _, i := range l {
		devices := units.Count(i.Devices)
		if i.Name == "" {
			devices = "has not joined"
		} else {
			away = slices.DeleteFunc(away, func(address string) bool { return address == i.Address })
		}
		rows = append(rows, []string{i.Name, devices, i.Address})
	}
	grid(h, rows)
	if len(away) > 0 {
		return wire.Errorf(wire.Unavailable, "host %s has not joined: %s", strings.Join(away, ", "), w.Note).WithHint("%%hosts add with its address tries again")
	}
	if slices.ContainsFunc(l, func(i wire.HostInfo) bool { return i.Name == "" }) {
		fmt.Fprintf(h.Stdout(), "%s\n%%hosts add with its address tries again\n", w.Note)
	}
	return nil
}
