// Package serve is the HTTP server of gaiden serve: it predicts with an exported net, for requests
// of many clients at a time.
//
//	s := serve.New(net, serve.Options{MaxBatch: 32})
//	http.ListenAndServe("127.0.0.1:8765", s)
//
//	POST /predict   JSON {"x": [[…], …]}, or of a net that was trained on a table {"rows": [{…}, …]},
//	                gives {"outputs": [[…], …]}, with "answers" where the export names classes;
//	                application/octet-stream, the numbers of all examples as little-endian float32
//	                or int32, gives float32 in the same form
//	GET  /net       what the net takes and returns
//	GET  /health    200, or 503 while it stops
//	GET  /metrics   for Prometheus
//
// Requests that arrive while a batch runs are joined into the next one, so a batch is as large as
// the load makes it; MaxWait lets it wait for more. A request is answered alone: one with wrong
// inputs does not spoil the others.
//
// Errors are JSON, {"error": "…"}: 400 for wrong inputs, 401 without the token, 413 for a body that
// is too large, 415 for another content type, 429 when too many requests wait, 503 while the server
// stops or the session cannot be reached, 504 when an answer takes too long.
package serve

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"gaiden/lib/portable"
)

// Options are the limits of a server.
type Options struct {
	Token    string        // that requests must have: Authorization: Bearer TOKEN; "": none
	MaxBatch int           // examples that are computed together; default: 64
	MaxWait  time.Duration // that a batch waits for more; default: none
	MaxQueue int           // requests at a time; default: 256
	MaxBytes int64         // of a body; default: 64 MiB
	Timeout  time.Duration // for one answer; default: 30 s
	// Renew opens the net once more after a run has failed, because the session was restarted;
	// then the run is tried again. nil: it is not.
	Renew func() (*portable.Net, error)
}

// Server serves one net. It implements http.Handler.
type Server struct {
	net     *portable.Net
	options Options
	mux     *http.ServeMux
	queue   chan *request
	places  chan struct{} // one for each request that may be there at a time
	metrics metrics

	bytes    atomic.Int64 // of the bodies that are there
	stopping atomic.Bool
	closed   chan struct{} // the loop of batches is to end
	ended    chan struct{} // it has

	// Of the loop of batches:
	runs *portable.Net // net, or what it was renewed as
	held *request      // it did not fit into the last batch
}

// request is one request's examples.
type request struct {
	ctx      context.Context
	inputs   []any
	examples int
	answer   chan answer // has room for one
}

type answer struct {
	output []float32
	err    error
}

// New starts a server, which Close ends.
func New(net *portable.Net, o Options) *Server {
	if o.MaxBatch <= 0 {
		o.MaxBatch = 64
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = 256
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	s := &Server{net: net, runs: net, options: o, mux: http.NewServeMux(), queue: make(chan *request, o.MaxQueue), places: make(chan struct{}, o.MaxQueue),
		closed: make(chan struct{}), ended: make(chan struct{})}
	s.metrics.codes = map[int]int64{}
	s.mux.HandleFunc("POST /predict", s.predict)
	s.mux.HandleFunc("GET /net", s.describe)
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /metrics", s.metrics.write)
	go s.batches()
	return s
}

// Stop makes /health and new requests answer 503; those that are there are answered.
func (s *Server) Stop() { s.stopping.Store(true) }

// Close ends the server after the batch that runs. It is called once.
func (s *Server) Close() {
	s.Stop()
	close(s.closed)
	<-s.ended
}

// largeRequests is how many requests of the largest size may be there at a time: memory is for
// them all.
const largeRequests = 8

// statusError is an error with the status of its answer.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func refuse(code int, format string, args ...any) error {
	return &statusError{code, fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.admits(r); err != nil && r.URL.Path != "/health" {
		s.fail(w, err)
		return
	}
	_, pattern := s.mux.Handler(r)
	if pattern == "" {
		if allowed := map[string]string{"/predict": "POST", "/net": "GET, HEAD", "/health": "GET, HEAD", "/metrics": "GET, HEAD"}[r.URL.Path]; allowed != "" {
			w.Header().Set("Allow", allowed)
			s.fail(w, refuse(http.StatusMethodNotAllowed, "%s %s: want %s", r.Method, r.URL.Path, allowed))
		} else {
			s.fail(w, refuse(http.StatusNotFound, "there is no %.80s: want POST /predict, GET /net, /health or /metrics", r.URL.Path))
		}
		return
	}
	s.mux.ServeHTTP(w, r)
}

// admits checks the token. Without one, only requests that name this machine are let in: a web
// page that has made its own name point here is not.
func (s *Server) admits(r *http.Request) error {
	if s.options.Token == "" {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return refuse(http.StatusForbidden, "the request is for the host %.80q: want localhost, or a server with a token", r.Host)
		}
		return nil
	}
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is || subtle.ConstantTimeCompare([]byte(token), []byte(s.options.Token)) != 1 {
		return refuse(http.StatusUnauthorized, "no token, or a wrong one: want the header Authorization: Bearer TOKEN")
	}
	return nil
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, err error) {
	code := http.StatusServiceUnavailable // the session's, or the device's
	var status *statusError
	var input *portable.InputError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &status):
		code = status.code
	case errors.As(err, &input):
		code = http.StatusBadRequest
	case errors.As(err, &large):
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes: want less, in several requests", large.Limit)
	case errors.Is(err, context.DeadlineExceeded):
		code, err = http.StatusGatewayTimeout, fmt.Errorf("no answer within %s: want smaller requests, or fewer", s.options.Timeout)
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.metrics.answered(code)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.stopping.Load() {
		s.fail(w, refuse(http.StatusServiceUnavailable, "the server is stopping"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"status\": \"ok\", \"net\": %q}\n", s.net.Program.Net)
}

func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	type array struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Dims []int  `json:"shape"` // behind the number of examples
	}
	type column struct {
		Name   string   `json:"name"`
		Type   string   `json:"type"`
		Values []string `json:"values,omitempty"` // of a category
	}
	p := s.net.Program
	out := struct {
		Net     string   `json:"net"`
		Steps   int      `json:"training_steps"`
		Inputs  []array  `json:"inputs"`
		Output  array    `json:"output"`
		Columns []column `json:"columns,omitempty"` // of a row
		Classes []string `json:"classes,omitempty"`
	}{Net: p.Net, Steps: p.Steps, Output: array{p.Output.Name, p.Output.Type, p.Output.Dims}}
	if e := p.Encoder; e != nil {
		for _, c := range e.Numbers {
			kind := "number"
			if c.Times {
				kind = "time"
			}
			out.Columns = append(out.Columns, column{c.Name, kind, nil})
		}
		for _, c := range e.Categories {
			out.Columns = append(out.Columns, column{c.Name, "category", c.Values})
		}
		out.Classes = e.Classes
	}
	for _, a := range p.Inputs {
		out.Inputs = append(out.Inputs, array{a.Name, a.Type, a.Dims})
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(out)
}

// predict answers POST /predict.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if s.stopping.Load() {
		s.fail(w, refuse(http.StatusServiceUnavailable, "the server is stopping"))
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		s.fail(w, refuse(http.StatusTooManyRequests, "%d requests are waiting: want fewer at a time", s.options.MaxQueue))
		return
	}
	size := r.ContentLength
	if size < 0 {
		size = s.options.MaxBytes
	}
	if size > s.options.MaxBytes {
		s.fail(w, &http.MaxBytesError{Limit: s.options.MaxBytes})
		return
	}
	defer s.bytes.Add(-size)
	if s.bytes.Add(size) > largeRequests*s.options.MaxBytes {
		s.fail(w, refuse(http.StatusTooManyRequests, "the requests that wait are too large together: want fewer or smaller ones at a time"))
		return
	}
	raw, inputs, err := s.read(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	examples, err := s.net.Check(inputs...)
	if err != nil {
		s.fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Timeout)
	defer cancel()
	q := &request{ctx, inputs, examples, make(chan answer, 1)}
	var a answer
	for queue := s.queue; ; queue = nil {
		select {
		case queue <- q:
			continue
		case a = <-q.answer:
		case <-ctx.Done():
			a.err = ctx.Err()
		case <-s.ended:
			a.err = refuse(http.StatusServiceUnavailable, "the server is stopping")
		}
		break
	}
	if a.err != nil {
		s.fail(w, a.err)
		return
	}
	s.metrics.answered(http.StatusOK)
	s.metrics.took(time.Since(began))
	s.write(w, a.output, examples, raw)
}

// batches joins requests and runs them, until Close.
func (s *Server) batches() {
	defer close(s.ended)
	for {
		first := s.held
		if s.held = nil; first == nil {
			select {
			case first = <-s.queue:
			case <-s.closed:
				return
			}
		}
		s.run(s.more(first))
	}
}

// more adds to a first request those that wait, and with MaxWait those that come.
func (s *Server) more(first *request) []*request {
	batch, examples := []*request{first}, first.examples
	late := make(<-chan time.Time)
	if s.options.MaxWait > 0 {
		late = time.After(s.options.MaxWait)
	}
	for examples < s.options.MaxBatch {
		var q *request
		select {
		case q = <-s.queue:
		default:
			if s.options.MaxWait <= 0 {
				return batch
			}
			select {
			case q = <-s.queue:
			case <-late:
				return batch
			case <-s.closed:
				return batch
			}
		}
		if examples += q.examples; examples > s.options.MaxBatch {
			s.held = q
			return batch
		}
		batch = append(batch, q)
	}
	return batch
}

// run computes the requests of a batch whose clients still wait.
func (s *Server) run(batch []*request) {
	var live []*request
	examples := 0
	for _, q := range batch {
		if q.ctx.Err() == nil {
			live, examples = append(live, q), examples+q.examples
		}
	}
	if len(live) == 0 {
		return
	}
	inputs := live[0].inputs
	if len(live) > 1 {
		inputs = make([]any, len(live[0].inputs))
		for i := range inputs {
			first := reflect.ValueOf(live[0].inputs[i])
			joined := reflect.MakeSlice(first.Type(), 0, first.Len()/live[0].examples*examples)
			for _, q := range live {
				joined = reflect.AppendSlice(joined, reflect.ValueOf(q.inputs[i]))
			}
			inputs[i] = joined.Interface()
		}
	}
	out, err := s.runs.Predict(inputs...)
	if err != nil && s.options.Renew != nil {
		if renewed, failed := s.options.Renew(); failed == nil {
			s.runs = renewed
			out, err = renewed.Predict(inputs...)
		}
	}
	s.metrics.ran(examples)
	at := 0
	for _, q := range live {
		a := answer{err: err}
		if err == nil {
			n := len(out) / examples * q.examples
			a.output, at = out[at:at+n], at+n
		}
		q.answer <- a
	}
}
