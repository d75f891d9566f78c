package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/portable"
)

// program is y = x·w, of two numbers to one.
const program = `{"Format":1,"Net":"line","Steps":7,"Inputs":[{"Name":"x","Type":"Float32","Dims":[2]}],"Output":{"Name":"output","Type":"Float32","Dims":[1]},
"Weights":[{"Name":"w","Type":"Float32","Dims":[2,1]}],"Ops":[{"op":"DotGeneral","in":[0,[1],[],1,[0],[],{}],"out":[2]}],"Result":2}`

// start starts a server of y = 2·x0 + x1/2, whose weights gate gives.
func start(t *testing.T, o Options, gate func() error) (*Server, *httptest.Server) {
	t.Helper()
	return startProgram(t, program, o, gate)
}

func startProgram(t *testing.T, program string, o Options, gate func() error) (*Server, *httptest.Server) {
	t.Helper()
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	net, err := portable.OpenProgram(fstest.MapFS{portable.ProgramFile: {Data: []byte(program)}}, backend)
	if err != nil {
		t.Fatal(err)
	}
	w, err := backend.BufferFromFlatData(0, []float32{2, 0.5}, shapes.Make(dtypes.Float32, 2, 1))
	if err != nil {
		t.Fatal(err)
	}
	net.Weights = func() ([]compute.Buffer, func(), error) { return []compute.Buffer{w}, func() {}, gate() }
	s := New(net, o)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s, h
}

func free() error { return nil }

// ask sends a request and returns status and body.
func ask(t *testing.T, method, url, kind, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b), a.Header
}

func TestAnswers(t *testing.T) {
	_, open := start(t, Options{MaxBytes: 64}, free)
	_, locked := start(t, Options{Token: "secret"}, free)
	_, broken := start(t, Options{}, func() error { return errors.New("no session") })
	const plain = "application/json"
	for _, c := range []struct {
		method, url, kind, body string
		code                    int
		want                    string
		header                  []string
	}{
		{"POST", open.URL + "/predict", plain, `{"x": [[1, 2], [3, 4]]}`, 200, `{"outputs": [[3], [8]]}`, nil},
		{"POST", open.URL + "/predict", plain + "; charset=utf-8", `{"x": [1, 2]}`, 200, `{"outputs": [[3]]}`, nil},
		{"POST", open.URL + "/predict", plain, `{"x": [3e38, 2]}`, 200, `{"outputs": [[null]]}`, nil},
		{"GET", open.URL + "/net", "", "", 200, `{"net":"line","training_steps":7,"inputs":[{"name":"x","type":"Float32","shape":[2]}]`, nil},
		{"GET", open.URL + "/health", "", "", 200, `"ok"`, nil},
		{"POST", open.URL + "/predict", plain, `{"x": [1]}`, 400, `has 1 numbers, want 2`, nil},
		{"POST", open.URL + "/predict", plain, `rubbish`, 400, `no JSON object`, nil},
		{"POST", open.URL + "/predict", "application/octet-stream", "abc", 400, `3 bytes: want a multiple of 4`, nil},
		{"POST", open.URL + "/predict", "application/octet-stream", "", 400, `has 0 numbers`, nil},
		{"POST", open.URL + "/predict", "text/plain", `{}`, 415, `want application/json or application/octet-stream`, nil},
		{"POST", open.URL + "/predict", plain, `{"x": [` + strings.Repeat(" ", 64) + `]}`, 413, `more than 64 bytes`, nil},
		{"GET", open.URL + "/predict", plain, "", 405, `want POST`, nil},
		{"GET", open.URL + "/none", plain, "", 404, `want POST /predict`, nil},
		{"GET", open.URL + "/net", plain, "", 403, `want localhost`, []string{"Host", "evil.example"}},
		{"GET", locked.URL + "/net", plain, "", 401, `want the header Authorization`, nil},
		{"GET", locked.URL + "/net", plain, "", 401, `wrong one`, []string{"Authorization", "Bearer secret2"}},
		{"GET", locked.URL + "/net", plain, "", 200, `line`, []string{"Authorization", "Bearer secret", "Host", "any.example"}},
		{"GET", locked.URL + "/health", plain, "", 200, `ok`, nil},
		{"POST", broken.URL + "/predict", plain, `{"x": [1, 2]}`, 503, `no session`, nil},
	} {
		code, body, _ := ask(t, c.method, c.url, c.kind, c.body, c.header...)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s %s %.40s: got %d %s, want %d and %s", c.method, c.url, c.body, code, body, c.code, c.want)
		}
	}
	raw := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1)), math.Float32bits(2))
	code, body, header := ask(t, "POST", open.URL+"/predict", "application/octet-stream", string(raw))
	if code != 200 || len(body) != 4 || math.Float32frombits(binary.LittleEndian.Uint32([]byte(body))) != 3 || header.Get("X-Examples") != "1" {
		t.Errorf("raw: got %d, % x, %v", code, body, header)
	}
	_, text, _ := ask(t, "GET", open.URL+"/metrics", "", "")
	for _, want := range []string{`gaiden_requests_total{code="200"} 4`, `gaiden_requests_total{code="400"} 4`, "gaiden_request_seconds_count 4\n", `gaiden_batch_examples_bucket{le="1"} 3`, "gaiden_batch_examples_sum 5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics: got %s, want %s", text, want)
		}
	}
}

// TestBatches holds that requests which arrive while a batch runs are computed together, each
// with its own answer, and that no more wait than may.
func TestBatches(t *testing.T) {
	running, proceed := make(chan struct{}, 99), make(chan struct{})
	s, h := start(t, Options{MaxQueue: 6, MaxBatch: 4, Timeout: time.Minute}, func() error {
		running <- struct{}{}
		<-proceed
		return nil
	})
	var wait sync.WaitGroup
	send := func(x int) {
		wait.Go(func() {
			code, body, _ := ask(t, "POST", h.URL+"/predict", "application/json", fmt.Sprintf(`{"x": [%d, 0]}`, x))
			if want := fmt.Sprintf(`{"outputs": [[%d]]}`, 2*x); code != 200 || strings.TrimSpace(body) != want {
				t.Errorf("%d: got %d %s, want %s", x, code, body, want)
			}
		})
	}
	send(1)
	<-running
	for x := 2; x < 7; x++ {
		send(x)
	}
	for len(s.queue) < 5 { // they are on their way
		time.Sleep(time.Millisecond)
	}
	if code, body, header := ask(t, "POST", h.URL+"/predict", "application/json", `{"x": [0, 0]}`); code != 429 || header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 429 and Retry-After", code, body)
	}
	s.Stop()
	if code, _, _ := ask(t, "GET", h.URL+"/health", "", ""); code != 503 {
		t.Errorf("health while it stops: got %d, want 503", code)
	}
	close(proceed)
	wait.Wait()
	if got := fmt.Sprint(s.metrics.batches); got != "[2 0 1 0 0 0 0 0]" {
		t.Errorf("got batches %s, want one of 1, one of 4, one of 1", got)
	}
	if code, _, _ := ask(t, "POST", h.URL+"/predict", "application/json", `{"x": [0, 0]}`); code != 503 {
		t.Errorf("after Stop: got %d, want 503", code)
	}
}

// TestBytes holds that bodies which wait have a limit together.
func TestBytes(t *testing.T) {
	running, proceed := make(chan struct{}, 99), make(chan struct{})
	s, h := start(t, Options{MaxBytes: 20, Timeout: time.Minute}, func() error {
		running <- struct{}{}
		<-proceed
		return nil
	})
	body := `{"x": [1, 2]}`
	var wait sync.WaitGroup
	for range largeRequests * 20 / len(body) {
		wait.Go(func() {
			if code, body, _ := ask(t, "POST", h.URL+"/predict", "application/json", body); code != 200 {
				t.Errorf("got %d %s, want 200", code, body)
			}
		})
	}
	<-running
	for s.bytes.Load() < int64(largeRequests*20/len(body)*len(body)) { // they are on their way
		time.Sleep(time.Millisecond)
	}
	if code, body, _ := ask(t, "POST", h.URL+"/predict", "application/json", body); code != 429 || !strings.Contains(body, "too large together") {
		t.Errorf("got %d %s, want 429", code, body)
	}
	close(proceed)
	wait.Wait()
	for s.bytes.Load() != 0 { // their handlers end after the answers
		time.Sleep(time.Millisecond)
	}
}

// TestTimeout holds that a client gets its answer in time, and that a request whose client has
// gone is not computed.
func TestTimeout(t *testing.T) {
	proceed := make(chan struct{})
	s, h := start(t, Options{Timeout: 20 * time.Millisecond}, func() error {
		<-proceed
		return nil
	})
	for range 2 {
		if code, body, _ := ask(t, "POST", h.URL+"/predict", "application/json", `{"x": [0, 0]}`); code != 504 {
			t.Errorf("got %d %s, want 504", code, body)
		}
	}
	close(proceed)
	h.Close()
	for len(s.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestRenew holds that a request is answered although the session was restarted.
func TestRenew(t *testing.T) {
	other, _ := start(t, Options{}, free)
	lost := errors.New("the session was restarted")
	s, h := start(t, Options{Renew: func() (*portable.Net, error) { return other.net, lost }}, func() error { return lost })
	if code, body, _ := ask(t, "POST", h.URL+"/predict", "application/json", `{"x": [1, 2]}`); code != 503 || !strings.Contains(body, lost.Error()) {
		t.Errorf("got %d %s, want 503", code, body)
	}
	s.options.Renew = func() (*portable.Net, error) { return other.net, nil }
	if code, body, _ := ask(t, "POST", h.URL+"/predict", "application/json", `{"x": [1, 2]}`); code != 200 || !strings.Contains(body, "[[3]]") {
		t.Errorf("got %d %s, want 200", code, body)
	}
}

// TestRows holds what a server of a net with an encoder takes, says, and refuses.
func TestRows(t *testing.T) {
	encoder := `,"Encoder":{"Target":"y","Classes":["no","yes"],"Numbers":[{"Name":"age","Mean":30,"Deviation":10}],"Categories":[{"Name":"port","Values":["Oslo"]}],"OneHot":true},"Reading":"sigmoid"}`
	_, h := startProgram(t, strings.TrimSuffix(program, "}")+encoder, Options{}, free)
	for _, c := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"/predict", `{"rows": [{"age": 30, "port": null}, {"age": 10, "port": "Oslo", "name": "Jo"}]}`, 200,
			`{"outputs": [[0], [-3.5]], "answers": [{"class":"no","probabilities":{"no":0.5,"yes":0.5}},{"class":"no","probabilities":{"no":0.970`},
		{"/predict", `{"x": [[1, 0]]}`, 200, `{"outputs": [[2]], "answers": [{"class":"yes","probabilities":{"no":0.119`},
		{"/predict", `{"rows": [{"age": 30, "port": "Olso"}]}`, 400, `{"error":"line: row 1: port is \"Olso\": want one of \"Oslo\", or nil (null in JSON) where it is not known"}`},
		{"/predict", `{"rows": [{"age": "30", "port": "Oslo"}]}`, 400, `row 1: age is \"30\": want a number, such as 30`},
		{"/predict", `{"rows": [{"age": 30}]}`, 400, "row 1 has no port: want age, port"},
		{"/net", "", 200, `"columns":[{"name":"age","type":"number"},{"name":"port","type":"category","values":["Oslo"]}],"classes":["no","yes"]}`},
	} {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		if code, got, _ := ask(t, method, h.URL+c.path, "application/json", c.body); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %d %s, want %d %s", c.body, code, got, c.code, c.want)
		}
	}
}
