package notebook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/kernels/internal/cell/process"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// displays is how many displays a cell sends in its last instant.
const displays = 200

// TestLastDisplays: what a cell shows in its last instant arrives, all of it,
// in order and before the cell is idle; every time.
func TestLastDisplays(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	n := newNotebook(t)
	kernel := jupytertest.Start(t, n, jupyter.Options{})
	client := jupytertest.Connect(t, kernel.Connection)
	code := fmt.Sprintf("for i := range %d {\n\tgonbui.DisplayHTML(fmt.Sprint(i))\n}", displays)
	for round := range rounds {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		answer, err := client.Execute(ctx, code)
		cancel()
		if err != nil || answer.Status() != "ok" {
			t.Fatalf("round %d: got status %q, error %v: %s", round, answer.Status(), err, answer.Stream("stderr"))
		}
		got := answer.Shown("display_data", "text/html")
		if len(got) != displays {
			t.Fatalf("round %d: got %d displays before idle, want %d", round, len(got), displays)
		}
		for i, html := range got {
			if html != strconv.Itoa(i) {
				t.Fatalf("round %d: display %d is %q, want %d", round, i, html, i)
			}
		}
	}
}

// TestOrder: what was printed before a display stands above it, and the value
// of the cell stands below everything.
func TestOrder(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	out := r.must("fmt.Print(\"a\")\ngonbui.DisplayHTML(\"<b>\")\ngonbui.Sync()\nfmt.Print(\"b\")\n42")
	if got, want := strings.Join(out.events, " "), "stdout display stdout result"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestUpdates: displays with an id are shown once and updated then, also from
// other cells; running the first cell again shows them anew.
func TestUpdates(t *testing.T) {
	n := newNotebook(t)
	cells := []struct {
		name           string
		cell           string
		shown, updated int
	}{
		{"first", "one", 1, 2},
		{"another cell", "two", 0, 3},
		{"first again", "one", 1, 2},
	}
	code := "for range 3 {\n\tgonbui.UpdateHTML(\"bar\", \"x\")\n}"
	for i, c := range cells {
		out := &recorder{}
		res := n.Execute(t.Context(), jupyter.ExecuteRequest{Code: code, Count: i + 1, Cell: c.cell}, out)
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		if len(out.shown) != c.shown || len(out.updates) != c.updated {
			t.Errorf("%s: got %d shown, %d updated; want %d, %d", c.name, len(out.shown), len(out.updates), c.shown, c.updated)
		}
	}
}

// TestLastState: a display that says that something runs does so no longer when its program
// has ended, however it did; one that its program has replaced stays.
func TestLastState(t *testing.T) {
	send := func(id, html string, more string) string {
		return fmt.Sprintf("gonbui.SendData(&protocol.DisplayData{DisplayID: %q, Data: map[protocol.MIMEType]any{protocol.MIMETextHTML: %q%s}})\n", id, html, more)
	}
	runs := send("bar", "2 s left", ", "+fmt.Sprintf("%q", MIMEEnded)+`: "ended"`)
	const imports = "import \"github.com/janpfeifer/gonb/gonbui/protocol\"\n"
	for _, tt := range []struct {
		name, code string
		want       []string // in the end
	}{
		{"left", runs + "gonbui.Sync()", []string{"ended"}},
		{"killed", runs + "gonbui.Sync()\nsyscall.Kill(os.Getpid(), syscall.SIGKILL)", []string{"ended"}},
		{"panic", runs + "gonbui.Sync()\npanic(1)", []string{"ended"}},
		{"closed", runs + send("bar", "done", ""), []string{"done"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := &recorder{}
			newNotebook(t).Execute(t.Context(), jupyter.ExecuteRequest{Code: imports + "%%\n" + tt.code, Count: 1}, out)
			if len(out.shown) != 1 || len(out.shown[0].Data) != 1 {
				t.Fatalf("got %v, want one display of HTML alone", out.shown)
			}
			var got []string
			for _, d := range out.updates {
				got = append(got, fmt.Sprint(d.Data["text/html"]))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got updates %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRichResults(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []struct{ name, code, mime, want string }{
		{"structs", "type S struct { A string; B []int; C *int; own int }\none := 1\n[]*S{{\"<x>\", []int{1}, &one, 2}, nil}", "text/html", `<div><div><small>2 × main.S</small></div><table><thead><tr><th></th><th>A<br><small style="font-weight:normal">string</small></th><th>B<br><small style="font-weight:normal">[]int</small></th><th>C<br><small style="font-weight:normal">*int</small></th></tr></thead><tbody><tr><td>0</td><td>&lt;x&gt;</td><td>[1]</td><td>1</td></tr><tr><td>1</td><td>nil</td><td>nil</td><td>nil</td></tr></tbody></table></div>`},
		{"HTML", "type H struct{}\nfunc (H) HTML() string { return \"<i>\" }\nH{}", "text/html", "<i>"},
		{"Markdown", "type M struct{}\nfunc (*M) Markdown() string { return \"*x*\" }\n&M{}", "text/markdown", "*x*"},
		{"plot", "type P struct{}\nfunc (P) HTML() string { return `<div><svg width=\"9\" height=\"9\"><text>a</text></svg></div>` }\nP{}", "image/png", "\x89PNG"},
		{"SVG", "type S struct{}\nfunc (S) SVG() string { return \"<svg/>\" }\nS{}", "image/svg+xml", "<svg/>"},
		{"display", "type D struct{}\nfunc (D) Display() map[string]string { return map[string]string{\"text/latex\": \"$x$\"} }\nD{}", "text/latex", "$x$"},
		{"image", "image.NewGray(image.Rect(0, 0, 2, 2))", "image/png", "\x89PNG"},
		{"long text", "strings.Repeat(\"x\", 3<<20)", "text/plain", "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out := r.must(tt.code)
			if len(out.results) != 1 {
				t.Fatalf("got %d results, want 1", len(out.results))
			}
			data := out.results[0].Data
			got, ok := data[tt.mime].(string)
			if raw, isRaw := data[tt.mime].([]byte); isRaw {
				got, ok = string(raw), true
			}
			if !ok || !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s %.40q, want %q", tt.mime, got, tt.want)
			}
			if _, ok := data["text/plain"].(string); !ok {
				t.Errorf("got no text/plain, want one beside %s", tt.mime)
			}
		})
	}
}

func TestStdin(t *testing.T) {
	tests := []struct {
		name    string
		code    string
		answers []string
		stdout  string
		prompts string // what was asked, with * behind a password
	}{
		{"Scanln", "var a, b string\nfmt.Scanln(&a)\nfmt.Scanln(&b)\nfmt.Print(b, a)", []string{"one", "two"}, "twoone", "| |"},
		{"scanner to the end", "s := bufio.NewScanner(os.Stdin)\nfor s.Scan() {\n\tfmt.Print(s.Text(), \";\")\n}", []string{"a", "b"}, "a;b;", "| | |"},
		{"not read", "time.Sleep(50 * time.Millisecond)\nfmt.Print(1)", nil, "1", ""},
		{"prompt and password", "gonbui.RequestInput(\"PIN\", true)\ngonbui.Sync()\nvar p string\nfmt.Scanln(&p)\nfmt.Print(len(p))", []string{"1234"}, "4", "PIN*|"},
		{"shell", "!read x; echo \"got $x\"", []string{"é"}, "got é\n", "|"},
		{"child of a shell", "!sh -c 'head -1; true'", []string{"deep"}, "deep\n", "|"},
		{"password for a shell", "%with_password\n!read x; echo ${#x}", []string{"abc"}, "3\n", "*|"},
	}
	r := &runner{t: t, n: newNotebook(t)}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var prompts strings.Builder
			out := &recorder{Answer: func(prompt string, password bool) (string, error) {
				if password {
					prompt += "*"
				}
				prompts.WriteString(prompt + "|")
				if len(tt.answers) == 0 {
					return "", jupyter.ErrNoStdin
				}
				answer := tt.answers[0]
				tt.answers = tt.answers[1:]
				return answer, nil
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := r.runTo(ctx, out, tt.code); err != nil {
				t.Fatalf("got error %s: %s", err.Name, err.Value)
			}
			if got := out.stream("stdout"); got != tt.stdout {
				t.Errorf("got output %q, want %q", got, tt.stdout)
			}
			if got, want := prompts.String(), strings.ReplaceAll(tt.prompts, " ", ""); got != want {
				t.Errorf("got prompts %q, want %q", got, want)
			}
		})
	}
	t.Run("nobody to ask", func(t *testing.T) {
		r.t = t
		out := r.must("var a string\n_, err := fmt.Scanln(&a)\nerr")
		if got := out.result(); got != "unexpected newline" && got != "EOF" {
			t.Errorf("got %q, want EOF", got)
		}
	})
}

// TestFlood: much output arrives byte for byte.
func TestFlood(t *testing.T) {
	const size = 10 << 20
	r := &runner{t: t, n: newNotebook(t)}
	out := r.must(fmt.Sprintf("line := []byte(\"Grüße, 世界 0123456789\\n\")\nvar all []byte\nfor len(all) < %d {\n\tall = append(all, line...)\n}\nos.Stdout.Write(all)\nos.Stderr.Write(all[:len(all)/2])", size))
	line := []byte("Grüße, 世界 0123456789\n")
	want := bytes.Repeat(line, (size+len(line)-1)/len(line))
	if got := out.stream("stdout"); got != string(want) {
		t.Errorf("got %d bytes, want the %d that were written", len(got), len(want))
	}
	if got := out.stream("stderr"); got != string(want[:len(want)/2]) {
		t.Errorf("got %d bytes of stderr, want the %d that were written", len(got), len(want)/2)
	}
}

// TestStop: whatever a cell does, Stop ends it, and the next cell runs.
func TestStop(t *testing.T) {
	const obedient, stubborn = time.Second, 4 * time.Second
	const questionGone = "reading input, the question gone first"
	tests := []struct {
		name   string
		code   string
		within time.Duration
	}{
		{"loop", "fmt.Println(\"go\")\nfor {\n}", obedient},
		{"sleep", "fmt.Println(\"go\")\ntime.Sleep(time.Hour)", obedient},
		{"reading input", "fmt.Println(\"go\")\nvar s string\nfmt.Scanln(&s)", obedient},
		{questionGone, "fmt.Println(\"go\")\nvar s string\nfmt.Scanln(&s)", obedient},
		{"shell", "!echo go; sleep 1000", obedient},
		{"flood", "for {\n\tfmt.Println(\"go\")\n}", obedient},
		{"ignores signals", "signal.Ignore(os.Interrupt, syscall.SIGTERM)\nfmt.Println(\"go\")\nselect {\ncase <-time.After(time.Hour):\n}", stubborn},
		{"child that ignores signals", "c := exec.Command(\"sh\", \"-c\", \"trap '' INT TERM HUP; echo go; while :; do sleep 100; done\")\nc.Stdout = os.Stdout\nc.Run()", obedient},
		{"child in a session of its own", "c := exec.Command(\"setsid\", \"sh\", \"-c\", \"trap '' INT; echo go; sleep 1000\")\nc.Stdout = os.Stdout\nc.Run()", obedient},
	}
	n := newNotebook(t)
	r := &runner{t: t, n: n}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			out := &stopper{began: make(chan struct{})}
			out.Answer = func(string, bool) (string, error) { <-ctx.Done(); return "", ctx.Err() }
			pause := 20 * time.Millisecond
			if tt.name == questionGone {
				out.Answer = func(string, bool) (string, error) { return "", context.Canceled }
				pause = 300 * time.Millisecond
			}
			done := make(chan *jupyter.Error)
			go func() {
				r.count++
				done <- n.Execute(ctx, jupyter.ExecuteRequest{Code: tt.code, Count: r.count, AllowStdin: true}, out).Err
			}()
			select {
			case <-out.began:
			case err := <-done:
				t.Fatalf("got %v before it was stopped", err)
			case <-time.After(60 * time.Second):
				t.Fatal("the cell does not begin")
			}
			time.Sleep(pause)
			start := time.Now()
			stop()
			select {
			case err := <-done:
				took := time.Since(start)
				t.Logf("stopped within %v", took)
				if took > tt.within {
					t.Errorf("stopping took %v, want at most %v", took, tt.within)
				}
				if err == nil || err.Name != nameInterrupt {
					t.Errorf("got error %v, want %s", err, nameInterrupt)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("the cell does not stop")
			}
			if left := alive(n.mark + "."); len(left) > 0 {
				t.Errorf("got processes left behind: %v, want none", left)
			}
			if got := r.must("1 + 1").result(); got != "2" {
				t.Errorf("the next cell got %q, want 2", got)
			}
		})
	}
}

// TestStopBuild holds that a cell that is stopped while its modules are fetched was stopped,
// whatever the go command says of that.
func TestStopBuild(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stop()
		select {
		case <-r.Context().Done():
		case <-time.After(30 * time.Second):
		}
	}))
	defer proxy.Close()
	t.Setenv("GOPROXY", proxy.URL)
	t.Setenv("GONOSUMDB", "*")
	r := newNotebook(t).Execute(ctx, jupyter.ExecuteRequest{Code: "import \"example.com/nowhere\"\nnowhere.X()", Count: 1}, &stopper{began: make(chan struct{})})
	if ctx.Err() == nil || r.Err == nil || r.Err.Name != nameInterrupt {
		t.Errorf("got error %v, context %v, want %s", r.Err, ctx.Err(), nameInterrupt)
	}
}

// A stopper tells when a cell has started to print.
type stopper struct {
	recorder
	began chan struct{}
}

func (s *stopper) Stream(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.began:
	default:
		if bytes.Contains(data, []byte("go")) {
			close(s.began)
		}
	}
}

// alive lists the processes whose environment holds the mark.
func alive(mark string) []string {
	var out []string
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(mark)) {
			state, _ := os.ReadFile("/proc/" + d.Name() + "/stat")
			if !bytes.Contains(state, []byte(") Z ")) {
				out = append(out, string(bytes.TrimSpace(state[:min(40, len(state))])))
			}
		}
	}
	return out
}

// TestLeftBehind: a child that outlives its cell does not hold the cell; what it
// wrote in time arrives, and it is killed, unless it has a session and an output of
// its own, or a shell was told to put it into the background: then it lives until
// the notebook ends.
func TestLeftBehind(t *testing.T) {
	tests := []struct {
		name, code, stdout string
		lives              bool
	}{
		{"holds the output", "c := exec.Command(\"setsid\", \"sh\", \"-c\", \"sleep 0.3; echo late; sleep 1000\")\nc.Stdout = os.Stdout\nc.Start()\nfmt.Println(\"early\")", "early\nlate\n", false},
		{"ignores signals", "exec.Command(\"sh\", \"-c\", \"trap '' INT TERM HUP; sleep 1000; :\").Start()", "", false},
		{"of a cell that panics", "exec.Command(\"sleep\", \"1000\").Start()\npanic(\"x\")", "", false},
		{"a session of its own", "c := exec.Command(\"sleep\", \"1000\")\nc.SysProcAttr = &syscall.SysProcAttr{Setsid: true}\nc.Start()", "", true},
		{"background of a shell", "!sleep 1000 >/dev/null 2>&1 &", "", true},
	}
	n := newNotebook(t)
	r := &runner{t: t, n: n}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out, _ := r.run(tt.code)
			if got := out.stream("stdout"); got != tt.stdout {
				t.Errorf("got output %q, want %q", got, tt.stdout)
			}
			left, said := alive(n.mark+"."), strings.Contains(out.stream("stderr"), "they were killed: ")
			// Who is killed still has to run once to die, and who is becoming another
			// program, as a shell's child does, has no environment for a moment.
			for i := 0; tt.lives != (len(left) > 0) && i < 50; i++ {
				time.Sleep(100 * time.Millisecond)
				left = alive(n.mark + ".")
			}
			if lives := len(left) > 0; lives != tt.lives || said == tt.lives {
				t.Errorf("got processes %v left behind and stderr %q, want them alive %v, and a word about them if not", left, out.stream("stderr"), tt.lives)
			}
			process.KillMarked(n.mark)
		})
	}
	t.Run("ends in time", func(t *testing.T) {
		r.t = t
		out := r.must("exec.Command(\"sh\", \"-c\", \"sleep 0.2; echo done > left.txt\").Start()")
		data, _ := os.ReadFile(filepath.Join(n.Dir, "left.txt"))
		if string(data) != "done\n" || out.stream("stderr") != "" {
			t.Errorf("got file %q and stderr %q, want the child's file and no word", data, out.stream("stderr"))
		}
	})
	t.Run("end of the notebook", func(t *testing.T) {
		r.t = t
		r.must("!sleep 1000 >/dev/null 2>&1 &")
		n.Shutdown(false)
		if left := alive(n.mark + "."); len(left) > 0 {
			t.Errorf("got %v, want none", left)
		}
	})
}

// TestKilledKernel: a kernel that is killed leaves no process and no directory.
// The kernel is this test binary, run again.
func TestKilledKernel(t *testing.T) {
	if os.Getenv("NOTEBOOK_TEST_KERNEL") != "" {
		n := &Notebook{Library: testLibrary, Cache: testCache, Dir: testLibrary}
		if err := n.open(); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(os.Getenv("NOTEBOOK_TEST_KERNEL"), []byte(n.temp.Path+" "+n.mark), 0o600)
		r := &runner{t: t, n: n}
		r.run("exec.Command(\"setsid\", \"sh\", \"-c\", \"trap '' INT TERM HUP; sleep 1000\").Start()\nfor {\n}")
		return
	}
	rounds := 3
	for round := range rounds {
		file := t.TempDir() + "/where"
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledKernel$")
		cmd.Env = append(os.Environ(), "NOTEBOOK_TEST_KERNEL="+file, "NOTEBOOK_TEST_DIR="+filepath.Dir(testCache))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var where []string
		wait(t, 60*time.Second, "the kernel to run its cell", func() bool {
			data, _ := os.ReadFile(file)
			where = strings.Fields(string(data))
			return len(where) == 2 && len(alive(where[1]+".")) >= 2
		})
		time.Sleep(time.Duration(round) * 50 * time.Millisecond)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		wait(t, 10*time.Second, "its processes to die", func() bool { return len(alive(where[1])) == 0 })
		wait(t, 10*time.Second, "its directory to go", func() bool {
			_, err := os.Stat(where[0])
			return os.IsNotExist(err)
		})
	}
}

func wait(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
