package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/device"
	"gaiden/lib/session"
)

// peers are the scripts that measure the same in JAX and PyTorch.
//
//go:embed peers/*.py
var peers embed.FS

// sample is what a peer's script prints, a line of JSON each: figures of a case, or
// a subject that it has prepared, and no subjects once it has prepared all. Of those it
// then measures one for each line of its input, which names it, and it ends when its
// input does.
type sample struct {
	Case, Subject, Unit string
	Samples             []float64
	Subjects            []string
}

// peer is a peer's script at work.
type peer struct {
	script string
	in     io.WriteCloser
	kill   context.CancelFunc
	lines  chan []byte // closed when it has ended
	err    error       // how, then

	failed bool     // nothing that it has measured counts
	found  []sample // while it prepared its subjects
}

// peerGrace is how long a peer may take to end.
const peerGrace = 10 * time.Second

// findPeers finds an interpreter that has the libraries of the peers that are requested.
func (b *bench) findPeers() error {
	if b.python == "" {
		b.python = "python3"
	}
	const missing = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if not importlib.util.find_spec(m)])"
	out, err := exec.Command(b.python, append([]string{"-c", missing}, strings.Split(b.peerNames, ",")...)...).Output()
	if err != nil {
		return fmt.Errorf("-peers %s: %s: %w: name an interpreter that has them with -python", b.peerNames, b.python, err)
	}
	if lacks := strings.Fields(string(out)); len(lacks) > 0 {
		return fmt.Errorf("-peers %s: %s has no %s: name an interpreter that has with -python, or leave it out", b.peerNames, b.python, strings.Join(lacks, ", "))
	}
	return nil
}

// peer runs a peer's script with the interpreter that -python names, and keeps
// what it measures. Without one there is nothing to run.
func (b *bench) peer(script string, args ...string) error {
	if b.python == "" {
		fmt.Fprintf(b.progress, "bench %s: no peers: -python names an interpreter that has JAX or PyTorch\n", b.name)
		return nil
	}
	code, err := peers.ReadFile("peers/" + script)
	if err != nil {
		return err
	}
	p, err := b.startPeer(script, code, args...)
	if err != nil {
		return err
	}
	defer p.end(peerGrace)
	for {
		s, err := p.next(context.Background())
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case b.wants(s.Case):
			b.addSamples(s.Case, s.Subject, s.Unit, s.Samples)
		}
	}
}

// startPeer starts a script.
func (b *bench) startPeer(script string, code []byte, args ...string) (*peer, error) {
	dir, err := os.MkdirTemp("", "gaiden-peer")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, script)
	scripts, err := fs.Sub(peers, "peers") // a script may import another one
	if err == nil {
		err = os.CopyFS(dir, scripts)
	}
	if err = errors.Join(err, os.WriteFile(path, code, 0o600)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, b.python, append([]string{path}, args...)...)
	env := device.WithoutAllocator(os.Environ()) // peers run as their users run them
	cmd.Env = append(env, "XLA_PYTHON_CLIENT_PREALLOCATE=false")
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = w, os.Stderr, time.Second // its children may keep its output open
	p := &peer{script: script, kill: kill, lines: make(chan []byte)}
	if p.in, err = cmd.StdinPipe(); err == nil {
		err = session.StartBound(cmd, syscall.SIGKILL)
	}
	if err != nil {
		kill()
		return nil, errors.Join(fmt.Errorf("peer: %w", err), os.RemoveAll(dir))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.err = cmd.Wait()
		w.Close()
		os.RemoveAll(dir)
	}()
	go func() {
		defer close(p.lines)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.lines <- bytes.Clone(lines.Bytes())
		}
		err := lines.Err() // of a line that is too long
		if err != nil {
			out.CloseWithError(err)
			kill()
		}
		<-ended
		if err != nil {
			p.err = err
		}
	}()
	return p, nil
}

// next is the next line that the peer prints, io.EOF when it has ended well.
func (p *peer) next(ctx context.Context) (s sample, err error) {
	select {
	case line, more := <-p.lines:
		switch {
		case more:
			if err = json.Unmarshal(line, &s); err != nil {
				err = fmt.Errorf("it printed %.80q: want a line of JSON", line)
			}
		case p.err != nil:
			err = p.err
		default:
			return s, io.EOF
		}
	case <-ctx.Done():
		err = fmt.Errorf("it printed nothing: %w", context.Cause(ctx))
	}
	if err != nil {
		err = fmt.Errorf("peer %s: %w", p.script, err)
	}
	return s, err
}

// end ends the peer by closing its input, and by force if that takes too long.
func (p *peer) end(grace time.Duration) {
	p.in.Close()
	defer time.AfterFunc(grace, p.kill).Stop()
	for range p.lines {
	}
	p.kill()
}
