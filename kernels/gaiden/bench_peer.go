package main

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"gaiden/lib/engine/device"
)

// peers are the scripts that measure the same in JAX and PyTorch.
//
//go:embed peers/*.py
var peers embed.FS

// sample is what a peer's script prints: one line of JSON for each case.
type sample struct {
	Case, Subject, Unit string
	Samples             []float64
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
	dir, err := os.MkdirTemp("", "gaiden-peer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, script)
	if err := os.WriteFile(path, code, 0o600); err != nil {
		return err
	}
	cmd := exec.Command(b.python, append([]string{path}, args...)...)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return v == device.AllocatorEnv }) // peers run as their users run them
	cmd.Env = append(env, "XLA_PYTHON_CLIENT_PREALLOCATE=false")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("bench: peer: %w", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			fmt.Fprintf(b.progress, "bench: peer %s: %s\n", script, lines.Bytes())
			continue
		}
		if b.wants(s.Case) {
			b.addSamples(s.Case, s.Subject, s.Unit, s.Samples)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("bench: peer %s: %w", script, err)
	}
	return nil
}
