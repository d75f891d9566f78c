package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// cellSamples is how often each cell is run; two more go before.
const cellSamples = 20

// cellPause goes before each cell, as nobody types a changed cell faster. A kernel
// may use it to make something ready; the cases "at once" do without.
const cellPause = 300 * time.Millisecond

// A cellPeer is a kernel whose cells are timed: how to start it, and the same
// cases in its language. In a case's code %d is another number each time.
type cellPeer struct {
	subject string
	argv    []string // FILE is the connection file
	env     []string
	setup   []string
	cases   map[string]string
}

// cellCases are the cases in order, and which of a peer's cells each runs. What
// follows another cell at once is sent when that is idle, as by Run All.
var cellCases = []struct {
	name, cell string
	unchanged  bool
	pause      time.Duration
}{
	{"print", "print", false, cellPause}, {"print at once", "print", false, 0},
	{"forward", "forward", false, cellPause},
	{"step", "step", false, cellPause}, {"step at once", "step", false, 0},
	{"unchanged", "print", true, cellPause},
}

// benchCells times cells from execute_request to idle, changed each time, in
// kernels as Jupyter starts them.
func benchCells(b *bench) error {
	p, err := startPrivate()
	if err != nil {
		return err
	}
	defer p.Close()
	gaiden, err := session.Binary()
	if err != nil {
		return err
	}
	env := append(os.Environ(), "GAIDEN_SOCKET="+p.Socket, "GAIDEN_SPACE=cells")
	peers := []cellPeer{gaidenCells(gaiden, env)}
	if gonb, err := exec.LookPath("gonb"); err == nil {
		peers = append(peers, gonbPlain(gonb, env), gonbCells(gonb, env))
	} else {
		fmt.Fprintln(b.progress, "bench cells: no GoNB: put gonb, goimports and gopls into PATH")
	}
	if b.python == "" {
		fmt.Fprintln(b.progress, "bench cells: no JAX: -python names an interpreter that has ipykernel and jax")
	} else {
		peers = append(peers, jaxCells(b.python))
	}
	for _, peer := range peers {
		if err := b.timeCells(peer); err != nil {
			if peer.subject == peers[0].subject {
				return fmt.Errorf("cells: %s: %w", peer.subject, err)
			}
			fmt.Fprintf(b.progress, "bench cells: %s: skipped: %v\n", peer.subject, err)
		}
	}
	return nil
}

// timeCells starts a kernel and runs the cases in it.
func (b *bench) timeCells(peer cellPeer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	client, stop, err := startPeer(ctx, peer)
	if err != nil {
		return err
	}
	defer stop()
	for _, code := range peer.setup {
		if _, _, err := timeCell(ctx, client, code); err != nil {
			return err
		}
	}
	// The kernel keeps the programs of earlier runs: numbers that no run had.
	fresh := time.Now().Unix() * 100
	for _, c := range cellCases {
		name := c.name
		code, ok := peer.cases[c.cell]
		if c.unchanged {
			code = strings.ReplaceAll(code, "%d", "1")
		}
		if !ok || !b.wants(name) {
			continue
		}
		var samples []float64
		runs := 0
		parts := map[string][]float64{}
		for range cellSamples + 2 {
			time.Sleep(c.pause)
			fresh++
			took, said, err := timeCell(ctx, client, strings.ReplaceAll(code, "%d", fmt.Sprint(fresh)))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if runs++; runs <= 2 {
				continue // packages are found, programs compiled
			}
			samples = append(samples, took.Seconds()*1e3)
			for part, d := range cellParts(said) {
				parts[part] = append(parts[part], d.Seconds()*1e3)
			}
		}
		b.addSamples(name, peer.subject, "ms", samples)
		for _, part := range cellPartNames {
			b.addSamples(name, peer.subject+": "+part, "ms", parts[part])
		}
	}
	return nil
}

// timeCell runs a cell and returns what it said; one that fails is an error.
func timeCell(ctx context.Context, c *frontend.Client, code string) (time.Duration, string, error) {
	began := time.Now()
	a, err := c.Execute(ctx, code)
	took := time.Since(began)
	if err != nil {
		return 0, "", err
	}
	if a.Status() != "ok" {
		return 0, "", fmt.Errorf("a cell failed: %v\n%s\n%s", frontend.Content(a.Reply)["evalue"], a.Stream("stderr"), code)
	}
	return took, a.Stream("stdout") + a.Stream("stderr"), nil
}

// The parts of a cell's time, as the kernel's cost line, the session's and the
// cell itself write them: "link 78.1ms", "graph 4.1 ms".
var (
	cellPartNames = []string{"compose", "compile", "link", "start", "run", "after", "find", "work", "graph", "device"}
	partPattern   = regexp.MustCompile(`\b(compose|compile|link|start|run|after|find|work) ([0-9.]+ ?(?:µs|ms|s))\b|\b(graph|device) ([0-9.]+ (?:ns|µs|ms|s))\b`)
)

// cellParts reads what has been said of a cell's parts.
func cellParts(said string) map[string]time.Duration {
	parts := map[string]time.Duration{}
	for line := range strings.Lines(said) {
		session := strings.Contains(line, "graph ") // it compiles, too
		for _, m := range partPattern.FindAllStringSubmatch(line, -1) {
			if d, err := time.ParseDuration(strings.ReplaceAll(m[2]+m[4], " ", "")); err == nil && session == (m[3] != "") {
				parts[m[1]+m[3]] = d
			}
		}
	}
	return parts
}

// startPeer starts a kernel in a directory of its own and dials it.
func startPeer(ctx context.Context, peer cellPeer) (*frontend.Client, func(), error) {
	dir, err := os.MkdirTemp("", "gaiden-cells-")
	if err != nil {
		return nil, nil, err
	}
	c, err := freeConnection()
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	file := filepath.Join(dir, "kernel-bench.json")
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	log, logErr := os.Create(filepath.Join(dir, "log"))
	if err = errors.Join(err, logErr); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	defer log.Close()
	var args []string
	for _, a := range peer.argv[1:] {
		args = append(args, strings.ReplaceAll(a, "FILE", file))
	}
	cmd := exec.Command(peer.argv[0], args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, peer.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		late := time.AfterFunc(5*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		cmd.Wait()
		late.Stop()
		os.RemoveAll(dir)
	}
	client, err := frontend.Dial(ctx, c)
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		stop()
		return nil, nil, fmt.Errorf("%w: %s", err, said)
	}
	return client, func() { client.Close(); stop() }, nil
}

// freeConnection chooses ports that are free now, as Jupyter does.
func freeConnection() (jupyter.Connection, error) {
	c := jupyter.Connection{Transport: "tcp", IP: "127.0.0.1", Key: jupyter.NewID(), Scheme: "hmac-sha256"}
	for _, port := range []*int{&c.ShellPort, &c.IOPubPort, &c.StdinPort, &c.ControlPort, &c.HBPort} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return c, err
		}
		defer l.Close() // all are held until all are chosen
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return c, nil
}

// The live net has the shape of notebook 04's MLP. Its cells say where their own time goes.
const (
	liveNet   = `var net = fit.New("live", models.MLP(100), fit.Config{Seed: 1})`
	liveLoad  = `must(net.Upload("eight", fit.Data{X: make([]float32, 8*784), Y: make([]int32, 8)}))`
	liveBegin = `began := time.Now()
set := must(net.Data("eight"))
found := time.Now()
`
	liveEnd     = "\nfmt.Println(%d, \"find\", found.Sub(began), \"work\", time.Since(found))"
	liveForward = liveBegin + `must(net.Predict(set))` + liveEnd
	liveStep    = liveBegin + `must(net.Fit(set, fit.Train{Batch: 8}))` + liveEnd
)

func gaidenCells(gaiden string, env []string) cellPeer {
	return cellPeer{subject: "Gaiden", argv: []string{gaiden, "kernel", "FILE"}, env: env,
		setup: []string{"%cost on", liveNet, liveLoad},
		cases: map[string]string{"print": "fmt.Println(%d)", "forward": liveForward, "step": liveStep}}
}

// gonbSetup makes the library known to a plain GoNB, without the network.
func gonbSetup() string {
	lib := filepath.Join(wire.DataDir(), "src")
	return fmt.Sprintf("!*go mod edit -replace gaiden=%[1]s -require gaiden@v0.0.0 && cp %[1]s/go.sum . && go mod edit -require github.com/gomlx/gomlx@v0.28.2 -require github.com/gomlx/compute@v0.1.2\n%%goflags -mod=mod", lib)
}

func gonbPlain(gonb string, env []string) cellPeer {
	return cellPeer{subject: "GoNB", argv: []string{gonb, "--kernel", "FILE"}, env: env,
		setup: []string{"import \"fmt\""}, cases: map[string]string{"print": "%%\nfmt.Println(%d)"}}
}

// gonbCells is our library in a plain GoNB: the net is live, the kernel theirs.
func gonbCells(gonb string, env []string) cellPeer {
	return cellPeer{subject: "GoNB with this library", argv: []string{gonb, "--kernel", "FILE"}, env: env,
		setup: []string{gonbSetup(), "import (\n\t\"fmt\"\n\t\"time\"\n\t\"context\"\n\t\"gaiden/lib/fit\"\n\t\"gaiden/lib/models\"\n)\n" + liveNet, "%%\n" + liveLoad},
		cases: map[string]string{"forward": "%%\n" + liveForward, "step": "%%\n" + liveStep}}
}

// jaxCells is the same net in IPython with JAX, compiled once, its weights live.
func jaxCells(python string) cellPeer {
	const setup = `import jax, jax.numpy as jnp
dims = [784, 100, 100, 10]
def mlp(p, x):
    for i, (w, b) in enumerate(p):
        x = x @ w + b
        if i < 2: x = jax.nn.relu(x)
    return x
def loss(p, x): return jnp.mean(mlp(p, x) ** 2)
params = [(jnp.zeros((a, b)), jnp.zeros(b)) for a, b in zip(dims, dims[1:])]
x = jnp.zeros((8, 784))
forward = jax.jit(mlp)
@jax.jit
def step(p, x):
    l, g = jax.value_and_grad(loss)(p, x)
    return jax.tree.map(lambda a, b: a - 0.01 * b, p, g), l`
	return cellPeer{subject: "IPython with JAX", argv: []string{python, "-m", "ipykernel_launcher", "-f", "FILE"},
		env: append(os.Environ(), "XLA_PYTHON_CLIENT_PREALLOCATE=false"), setup: []string{setup},
		cases: map[string]string{"print": "print(%d)", "forward": "forward(params, x).block_until_ready(); print(%d)",
			"step": "params, l = step(params, x); l.block_until_ready(); print(%d)"}}
}
