package main

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
)

// A relay makes the session of another machine this machine's: it listens where a
// session would, and carries each connection over SSH, on whatever line there is.
type relay struct {
	host    string
	options []string // of ssh
	there   string   // how gaiden is called there
	forward string   // socket here that ssh forwards to the agent's
	log     io.Writer
}

// remoteGaiden finds gaiden where gaiden install puts it, else in PATH.
const remoteGaiden = `PATH="${XDG_DATA_HOME:-$HOME/.local/share}/gaiden/bin:$PATH" gaiden`

const sshUsage = `[-ssh-option OPTION]… [-gaiden COMMAND] USER@HOST
Uses the devices of another machine: its session is started if need be, and this
machine's notebooks reach it through SSH, which must not ask for a password. It
works until it is interrupted; what is in the session stays there. After a dropped
connection it reconnects, and nothing is lost meanwhile.`

// sshMain is gaiden session --ssh.
func sshMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("session --ssh", sshUsage, stderr)
	r := &relay{log: stderr}
	f.Func("ssh-option", "an option for ssh, such as -p2222; may be repeated", func(s string) error {
		r.options = append(r.options, s)
		return nil
	})
	f.StringVar(&r.there, "gaiden", remoteGaiden, "how gaiden is called on the other machine")
	if err := parseFlags(f, args); err != nil {
		return err
	}
	if f.NArg() != 1 || strings.HasPrefix(f.Arg(0), "-") {
		f.Usage()
		return errUsage
	}
	r.host = f.Arg(0)
	return r.run(stdout)
}

func (r *relay) run(stdout io.Writer) error {
	path := wire.SocketPath()
	lock, err := lockSocket(path)
	if errors.Is(err, errLocked) {
		what, next := "a session of this machine runs", "ends it"
		if _, host := sshRelay(); host != "" {
			what, next = "the session of "+host+" is in use here", "leaves it"
		}
		return wire.Errorf(wire.Unavailable, "%s", what).WithHint("gaiden session stop %s; GAIDEN_SOCKET names another socket for this one", next)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	fmt.Fprintf(lock, "%d ssh %s\n", os.Getpid(), r.host)
	socket, err := r.agent()
	if err != nil {
		return err
	}
	r.forward = path + ".ssh-" + rand.Text()[:8] // a process number may be another container's, too
	defer os.Remove(r.forward)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.lines(socket, done)
	}()
	defer func() {
		close(done)
		<-ended
	}()
	os.Remove(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	go func() {
		<-stop
		l.Close()
	}()
	go func() {
		if s, err := connect(); err == nil {
			fmt.Fprintf(stdout, "session of %s: %s\n", r.host, s.Backend().Description())
			s.Close()
		}
	}()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil
		}
		go r.carry(conn)
	}
}

// ssh is a command of the system's ssh, which must not ask anything.
func (r *relay) ssh(args ...string) *exec.Cmd {
	all := slices.Concat([]string{"-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=10"}, r.options, args)
	cmd := exec.Command("ssh", all...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

// agent starts session and agent on the other machine and returns the agent's
// socket there.
func (r *relay) agent() (string, error) {
	var stderr strings.Builder
	cmd := r.ssh(r.host, r.there+" session agent")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	s := bufio.NewScanner(strings.NewReader(string(out)))
	for s.Scan() {
		if path, is := strings.CutPrefix(s.Text(), "agent "); is && err == nil {
			return path, nil
		}
	}
	text := cmp.Or(strings.TrimSpace(stderr.String()), fmt.Sprint(err))
	return "", wire.Errorf(wire.Unavailable, "session on %s: %s", r.host, text).WithHint("try: ssh %s %s info", r.host, "gaiden")
}

// lines keeps ssh running.
func (r *relay) lines(socket string, done <-chan struct{}) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		os.Remove(r.forward)
		cmd := r.ssh("-N", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177", "-L", r.forward+":"+socket, r.host)
		cmd.Stderr = r.log
		began := time.Now()
		if err := cmd.Start(); err == nil {
			over := make(chan struct{})
			go func() {
				select {
				case <-done:
					cmd.Process.Kill()
				case <-over:
				}
			}()
			cmd.Wait()
			close(over)
		}
		select {
		case <-done:
			return
		case <-time.After(wait):
		}
		if time.Since(began) > time.Second {
			wait = 100 * time.Millisecond
		}
	}
}

// carry carries one connection, over as many lines as it takes.
func (r *relay) carry(conn *net.UnixConn) {
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	first, err := wire.NewReader(conn).Next() // a client waits for the answer to its Hello
	conn.SetReadDeadline(time.Time{})
	var hello wire.HelloBody
	if err != nil || first.Kind != wire.Hello || wire.DecodeJSON(wire.Hello, first.Body, &hello) != nil {
		conn.Close()
		return
	}
	hello.Remote = true
	l := wire.NewLink(conn, wire.AppendFrame(nil, wire.Hello, first.ID, wire.JSON(hello)))
	defer l.End()
	id := linkID{}
	rand.Read(id[:])
	kind := linkNew
	for lost := time.Now(); !l.Over() && time.Since(lost) < lineWait; {
		line, err := r.openLink(id, kind)
		if errors.Is(err, errGone) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		kind = linkOld
		l.Carry(line)
		lost = time.Now()
	}
}

var errGone = errors.New("the session does not know this connection any more")

// openLink makes a line for a link.
func (r *relay) openLink(id linkID, kind byte) (net.Conn, error) {
	line, err := net.Dial("unix", r.forward)
	if err != nil {
		return nil, err
	}
	line.SetDeadline(time.Now().Add(15 * time.Second))
	answer := []byte{0}
	if _, err = line.Write(append(id[:], kind)); err == nil {
		_, err = io.ReadFull(line, answer)
	}
	if err == nil && answer[0] != linkReady {
		err = errGone
	}
	if err != nil {
		line.Close()
		return nil, err
	}
	line.SetDeadline(time.Time{})
	return line, nil
}
