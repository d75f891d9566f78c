package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gomlx/compute"

	"gaiden/kernels/internal/serve"
	"gaiden/lib/portable"
	"gaiden/lib/session"
)

// served is what gaiden serve was asked to do.
type served struct {
	dir, weights string
	live         bool
	options      serve.Options
}

// tokenEnv is the environment variable with the token that requests must have.
const tokenEnv = "GAIDEN_SERVE_TOKEN"

// serveMain is gaiden serve.
func serveMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("serve", "[OPTIONS] DIRECTORY\n\nAnswers HTTP requests with the net that net.Export has written to a directory. It computes in the session.\n"+
		"Its weights are those of the export, of -weights, or with -live those that the net has in the session now,\nalso while it is trained: those of the last chunk of steps.\n"+
		"Requests need the token in "+tokenEnv+" if it is set; other addresses than this machine's own want one.", stderr)
	var s served
	addr := f.String("addr", "127.0.0.1:8765", "address")
	f.BoolVar(&s.live, "live", false, "use the weights that the net has in the session")
	f.StringVar(&s.weights, "weights", "", "use the weights of a safetensors `file`: of another export, or of %snapshot export")
	o := &s.options
	f.IntVar(&o.MaxBatch, "max-batch", 64, "examples that are computed together")
	f.DurationVar(&o.MaxWait, "max-wait", 0, "how long a batch waits for more requests than are there")
	f.IntVar(&o.MaxQueue, "max-queue", 256, "requests at a time; further ones get status 429")
	f.Int64Var(&o.MaxBytes, "max-bytes", 64<<20, "size of a request")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "time for an answer")
	if len(args) > 1 && !strings.HasPrefix(args[0], "-") { // the directory first
		args = append(slices.Clone(args[1:]), args[0])
	}
	if err := parseFlags(f, args); err != nil {
		return err
	}
	switch {
	case f.NArg() != 1:
		fmt.Fprintf(stderr, "gaiden serve: got %d arguments, want one, the directory of an exported net\n", f.NArg())
		return errUsage
	case s.live && s.weights != "":
		fmt.Fprintln(stderr, "gaiden serve: got -live and -weights, want one of them")
		return errUsage
	case o.MaxBatch < 1 || o.MaxQueue < 1 || o.MaxBytes < 1 || o.Timeout <= 0 || o.MaxWait < 0:
		fmt.Fprintln(stderr, "gaiden serve: got a limit below 1, want a positive one")
		return errUsage
	}
	s.dir, o.Token = f.Arg(0), os.Getenv(tokenEnv)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return s.serve(ctx, *addr, stdout)
}

// serve serves until ctx ends, and then answers the requests that are there.
func (s served) serve(ctx context.Context, addr string, stdout io.Writer) error {
	listener, err := s.listen(addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	n, err := s.open()
	if err != nil {
		return err
	}
	s.options.Renew = s.open
	handler := serve.New(n, s.options)
	defer handler.Close()
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute + s.options.Timeout, IdleTimeout: 2 * time.Minute}
	from := "weights of the export"
	switch {
	case s.live:
		from = "weights that the net has in the session now"
	case s.weights != "":
		from = "weights of " + s.weights
	}
	fmt.Fprintf(stdout, "serving %s at http://%s: POST /predict, GET /net, /health, /metrics; %s; Ctrl-C ends it\n", n.Program.Net, listener.Addr(), from)
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	handler.Stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	return h.Shutdown(last)
}

// listen opens the address. One that other machines reach wants a token.
func (s served) listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve: %w: -addr wants an address such as 127.0.0.1:8765", err)
	}
	if tcp, is := listener.Addr().(*net.TCPAddr); s.options.Token == "" && (!is || !tcp.IP.IsLoopback()) {
		listener.Close()
		return nil, fmt.Errorf("serve: other machines reach %s, so it wants a token: set %s, and send it as Authorization: Bearer TOKEN", addr, tokenEnv)
	}
	return listener, nil
}

// open opens the net in the session, and tries it.
func (s served) open() (*portable.Net, error) {
	if _, err := os.Stat(filepath.Join(s.dir, portable.ProgramFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("serve: %s holds no exported net (no %s): want net.Export(%q) in a cell first", s.dir, portable.ProgramFile, filepath.Base(s.dir))
	}
	c, err := session.Config{Client: "serve"}.Open()
	if err != nil {
		return nil, err
	}
	files := os.DirFS(s.dir)
	n, err := portable.OpenProgram(files, c.Backend())
	if err != nil {
		c.Close()
		return nil, err
	}
	n.Largest = 1 << (bits.Len(uint(s.options.MaxBatch)) - 1)
	switch {
	case s.live:
		n.Weights = func() ([]compute.Buffer, func(), error) { return liveWeights(c, n.Program) }
	case s.weights != "":
		err = n.Load(os.DirFS(filepath.Dir(s.weights)), filepath.Base(s.weights))
	default:
		err = n.Load(files, portable.WeightsFile)
	}
	if err == nil {
		err = n.Try()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return n, nil
}

// liveWeights are a net's weights in the session, all of one moment.
func liveWeights(c *session.Session, p *portable.Program) ([]compute.Buffer, func(), error) {
	var names []string
	for _, w := range p.Weights {
		names = append(names, w.From)
	}
	arrays, err := c.ArraysOf(p.Space, names...)
	if err != nil {
		return nil, nil, fmt.Errorf("serve: net %s of %q: %w", p.Net, p.Space, err)
	}
	free := func() {
		for _, a := range arrays {
			a.Finalize()
		}
	}
	var buffers []compute.Buffer
	for i, a := range arrays {
		shape, err := a.Shape()
		if err == nil && (shape.DType.String() != p.Weights[i].Type || fmt.Sprint(shape.Dimensions) != fmt.Sprint(p.Weights[i].Dims)) {
			err = fmt.Errorf("serve: %s is %s in the session, and %s %v in the export: export the net again", names[i], shape, p.Weights[i].Type, p.Weights[i].Dims)
		}
		if err != nil {
			free()
			return nil, nil, err
		}
		buffers = append(buffers, a)
	}
	return buffers, free, nil
}
