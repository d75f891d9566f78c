package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// tuneCases are nets that have kernels of package fused, some of which must be found to be
// faster first.
var tuneCases = []string{"seedcnn-b8", "mlp-b100", "lenet5-b100", "kerascnn-b128", "lstm5-b20", "peaks-b40000", "fcn-b1024", "resnet14-b32"}

// tunedCell is what a cell tells of its training.
type tunedCell struct {
	First  float64 // s of its first epoch, with compiling
	Micros float64 // µs of a step, after it
}

// benchTune is what a net's later cells gain from what is found out about its kernels in
// the background, and how long that takes, when cells are processes that end.
func benchTune(b *bench) error {
	switch {
	case slices.Contains(tuneCases, b.cell):
		return tuneCell(caseOf(b.cell))
	case b.cell != "":
		return fmt.Errorf("bench tune: -cell %q: want one of %s", b.cell, strings.Join(tuneCases, ", "))
	}
	return inPrivate(func(p *session.Private, s *session.Session) error {
		if s.Welcome().Platform == "cpu" {
			return errors.New("bench tune: on a CPU there is nothing to find out about kernels: want a GPU")
		}
		for _, name := range tuneCases {
			if !b.wants(name) {
				continue
			}
			if err := b.tuneCase(p, s, name); err != nil {
				return fmt.Errorf("bench tune: %s: %w", name, err)
			}
		}
		return nil
	})
}

func (b *bench) tuneCase(p *session.Private, s *session.Session, name string) error {
	before, err := cellIn(p, name)
	if err != nil {
		return err
	}
	b.addSamples(name+", first epoch", "the first cell", "s", []float64{before.First})
	b.addSamples(name, "the first cell", "µs a step", []float64{before.Micros})
	began := time.Now()
	if err := untuned(s, b.tune); err != nil {
		return err
	}
	b.addSamples(name, "until nothing is left to find out", "s", []float64{time.Since(began).Seconds()})
	after, err := cellIn(p, name)
	if err != nil {
		return err
	}
	b.addSamples(name+", first epoch", "the next cell", "s", []float64{after.First})
	b.addSamples(name, "the next cell", "µs a step", []float64{after.Micros})
	log, err := os.ReadFile(filepath.Join(p.Dir, "state", "gaiden", "tune.log"))
	if err == nil {
		fmt.Fprintf(b.progress, "%s: %+v, then %+v\n%s", name, before, after, log)
		err = os.Truncate(filepath.Join(p.Dir, "state", "gaiden", "tune.log"), 0)
	}
	return err
}

// untuned waits until the tuner that a cell has left behind has ended.
func untuned(s *session.Session, limit time.Duration) error {
	seen := false
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		st, err := s.Status()
		if err != nil {
			return err
		}
		at := strings.Contains(strings.Join(st.Clients, "\n"), "gaiden tune")
		if seen = seen || at; seen && !at {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the tuner is at work after %v, or has not begun (%t): -tune gives it longer", limit, !seen)
		}
	}
}

// cellIn trains a net in a session as a cell does: in a process that ends with it.
func cellIn(p *session.Private, name string) (c tunedCell, err error) {
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	cmd := exec.Command(self, "bench", "tune", "-cell", name)
	cmd.Env = append(os.Environ(), "GAIDEN_SOCKET="+p.Socket, "GAIDEN_SPACE=bench", "XDG_STATE_HOME="+p.Dir+"/state", "XDG_CACHE_HOME="+p.Dir+"/cache",
		"XDG_DATA_HOME="+p.Dir+"/data", "PATH="+filepath.Dir(self)+":"+os.Getenv("PATH")) // the tuner is this program, too
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := session.StartBound(cmd, syscall.SIGKILL); err != nil {
		return c, err
	}
	if err := cmd.Wait(); err != nil {
		return c, err
	}
	return c, json.Unmarshal(out.Bytes(), &c)
}

// tuneCell is the cell.
func tuneCell(c trainCase) error {
	net := fit.New(c.name, c.model, c.config)
	data, err := net.Load(c.name, c.examples())
	if err != nil {
		return err
	}
	train := func(epochs int) (time.Duration, error) {
		began := time.Now()
		_, err := net.Train(context.Background(), data, fit.Train{Epochs: epochs, Batch: c.batch, DropLast: true})
		return time.Since(began), err
	}
	first, err := train(1)
	if err != nil {
		return err
	}
	epochs, took := max(3, c.epochs), time.Duration(0)
	for range 2 { // epochs of one batch are another program, which the first of them compiles
		if took, err = train(epochs); err != nil {
			return err
		}
	}
	if took < time.Second { // else chance is up to a quarter of it
		epochs = int(float64(epochs)/took.Seconds()) + 1
		if took, err = train(epochs); err != nil {
			return err
		}
	}
	steps := float64(epochs * (c.n / c.batch))
	return json.NewEncoder(os.Stdout).Encode(tunedCell{first.Seconds(), took.Seconds() * 1e6 / steps})
}
