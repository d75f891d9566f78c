package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/portable"
	"gaiden/lib/session"
)

// servedFor is how long requests are sent for one figure.
const servedFor = time.Second

// benchServe measures the time of a request for one example of an MLP, to gaiden serve and to
// FastAPI with PyTorch: the time that passes divided by the requests that are answered in it.
func benchServe(b *bench) error {
	return inPrivate(func(p *session.Private, s *session.Session) error { return b.serve(p, s) })
}

func (b *bench) serve(p *session.Private, s *session.Session) error {
	dir, err := os.MkdirTemp("", "bench-serve")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const inputs = 784
	n, err := fit.Attach(s, "mlp", models.Net{Name: "mlp", Input: []int{inputs}, Layers: []models.Layer{models.Dense{Units: 512, Act: models.ReLU},
		models.Dense{Units: 512, Act: models.ReLU}, models.Dense{Units: 10}}}, fit.Config{Seed: 1})
	if err != nil {
		return err
	}
	exported := filepath.Join(dir, "mlp")
	if err := n.Export(exported); err != nil {
		return err
	}
	bin, err := session.Binary()
	if err != nil {
		return err
	}
	url, stop, err := startServer(bin, p.Socket, exported)
	if err != nil {
		return err
	}
	defer stop()
	urls, others := map[string]string{"gaiden": url}, map[string]*peer{}
	if b.peerNames != "" {
		code, err := peers.ReadFile("peers/serve_torch.py")
		if err != nil {
			return err
		}
		other, err := b.startPeer("serve_torch.py", code, filepath.Join(exported, portable.WeightsFile))
		if err != nil {
			return err
		}
		defer other.end(0)
		if first, err := b.await(other); err != nil || len(first.Subjects) != 1 {
			b.lose(other, errors.Join(err, errors.New("it does not serve")))
		} else {
			urls["fastapi + torch"], others["fastapi + torch"] = first.Subjects[0], other
		}
	}
	x := make([]float32, inputs)
	for i := range x {
		x[i] = float32(i%7) / 7
	}
	text, err := json.Marshal(map[string][][]float32{"x": {x}})
	if err != nil {
		return err
	}
	bodies := map[string][]byte{"application/json": text, "application/octet-stream": dtypes.UnsafeByteSlice(x)}
	want, err := n.Predict(x)
	if err != nil {
		return err
	}
	for name, url := range urls { // the same numbers
		got, err := post(url, "application/octet-stream", bodies["application/octet-stream"])
		if err != nil || len(got) != 4*len(want.Output) {
			return fmt.Errorf("%s: got %d bytes, %w", name, len(got), err)
		}
		y := make([]float32, len(want.Output))
		copy(dtypes.UnsafeByteSlice(y), got)
		for i := range y {
			if !(math.Abs(float64(y[i]-want.Output[i])) < 1e-3) {
				return fmt.Errorf("%s: got %v, want %v", name, y, want.Output)
			}
		}
	}
	for _, clients := range []int{1, 16, 64} {
		var subjects []*subject
		for _, name := range []string{"gaiden", "fastapi + torch"} {
			for _, kind := range []string{"application/json", "application/octet-stream"} {
				if url := urls[name]; url != "" {
					subjects = append(subjects, &subject{name: name + ", " + kind, peer: others[name], measure: func() (float64, error) { return load(url, kind, bodies[kind], clients) }})
				}
			}
		}
		if err := b.rounds(fmt.Sprintf("mlp, clients: %d", clients), subjects, func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// startServer starts gaiden serve in a session.
func startServer(bin, socket, dir string) (url string, stop func(), err error) {
	cmd := exec.Command(bin, "serve", "-addr", "127.0.0.1:0", dir)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GAIDEN_SOCKET="+socket, "GAIDEN_SERVE_TOKEN="), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = session.StartBound(cmd, syscall.SIGTERM)
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if url = regexp.MustCompile(`http://[0-9.:]*[0-9]`).FindString(line); url == "" {
		stop()
		return "", nil, fmt.Errorf("gaiden serve: got %q, %w", line, err)
	}
	return url, stop, nil
}

var browser = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func post(url, kind string, body []byte) ([]byte, error) {
	a, err := browser.Post(url+"/predict", kind, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if a.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %.200s", a.Status, b)
	}
	return b, err
}

// load is the time of a request in µs, with so many clients that send one after another.
func load(url, kind string, body []byte, clients int) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), servedFor)
	defer cancel()
	var done atomic.Int64
	var wait sync.WaitGroup
	failed := make(chan error, clients)
	began := time.Now()
	for range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				if _, err := post(url, kind, body); err != nil {
					failed <- err
					return
				}
				done.Add(1)
			}
		})
	}
	wait.Wait()
	took := time.Since(began)
	select {
	case err := <-failed:
		return 0, err
	default:
	}
	return took.Seconds() / float64(done.Load()) * 1e6, nil
}
