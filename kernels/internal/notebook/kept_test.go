package notebook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
)

// TestKept: what happens to values when cells fail, stop, change types, and
// what the magics say of them.
func TestKept(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []struct {
		name   string
		code   string
		result string
		stdout string // part of it
		said   string // part of stderr
		fails  string // part of the traceback
	}{
		{name: "begin", code: "x := 1"},
		{name: "panic", code: "x = 2\ny := 5\npanic(\"oh\")\nz := 6", fails: "oh"},
		{name: "kept before the panic", code: "x + y", result: "7"},
		{name: "not reached", code: "z", fails: "defines z, but failed or was stopped before that; run it again"},
		{name: "exit", code: "x = 3\nif x == 3 {\n\tos.Exit(4)\n}", fails: "exit status 4"},
		{name: "kept before the exit", code: "x", result: "3"},
		{name: "fatal in a function", code: "func die() { log.Fatal(\"dying\") }\nx = 33\ndie()", said: "dying", fails: "exit status 1"},
		{name: "kept before that", code: "x", result: "33"},
		{name: "killed", code: "x = 4\nsyscall.Kill(os.Getpid(), syscall.SIGKILL)", fails: "killed", said: "the cell ended before its variables were kept: they are as they were before it"},
		{name: "as before", code: "x", result: "33"},
		{name: "does not compile", code: "x = nowhere", fails: "undefined: nowhere"},
		{name: "as before that", code: "x", result: "33"},
		{name: "panic in a goroutine", code: "x = 5\ngo func() { panic(\"aside\") }()\ntime.Sleep(time.Minute)", fails: "aside"},
		{name: "as before it", code: "x", result: "33"},

		{name: "old type", code: "type W struct{ A int }\nw := W{A: 1}\nvar v = W{A: 2}\nw.A, v.A = 5, 6"},
		{name: "new type", code: "type W struct{ A, B int }"},
		{name: "recreated", code: "w", result: "{A:1 B:0}", said: "the value of w from cell 15 is gone: its type main.W is not what it was; it begins again as cell 15, line 2, defines it"},
		{name: "var made anew", code: "v", result: "{A:2 B:0}", said: "the value of v from cell 15 is gone"},
		{name: "and kept again", code: "v.B++\nv", result: "{A:2 B:1}"},
		{name: "type that will go", code: "type Gone int\ngone := Gone(3)\n"},
		{name: "now it is", code: "%rm Gone", stdout: "removed type Gone"},
		{name: "and its value", code: "gone", fails: "undefined: Gone"},

		{name: "changing while it is kept", code: "m := map[int]int{}\nfor range 4 {\n\tgo func() {\n\t\tfor i := 0; ; i++ {\n\t\t\t_ = i\n\t\t}\n\t}()\n}\nm[1] = 1"},
		{name: "kept all the same", code: "len(m)", result: "1"},

		{name: "shared", code: "one := []int{1, 2, 3}\nother := one[:2]"},
		{name: "one of two replaced", code: "one := \"text\""},
		{name: "the other stays", code: "other", result: "[1 2]"},

		{name: "list", code: "%whos", stdout: "other  []int"},
		{name: "names", code: "%who", stdout: "x"},
		{name: "names of a type", code: "%who []int", stdout: "other"},
		{name: "made anew in each cell", code: "double := func(i int) int { return 2 * i }"},
		{name: "list of that", code: "%whos", stdout: "double  func(int) int  "},
		{name: "names of that type, in two words", code: "%who func(int) int", stdout: "double\n"},
		{name: "names of no type", code: "%who chan", stdout: "there are no variables of type chan"},
		{name: "forget", code: "%del x", stdout: "removed var x"},
		{name: "forgotten", code: "x", fails: "undefined: x"},
		{name: "reset", code: "%reset -f"},
		{name: "no names", code: "%who", stdout: "there are no variables"},
		{name: "no list", code: "%whos", stdout: "there are no variables"},
		{name: "nothing there", code: "other", fails: "undefined: other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out, err := r.run(tt.code)
			trace := ""
			if err != nil {
				trace = strings.Join(err.Traceback, "\n")
			}
			if (err != nil) != (tt.fails != "") || !strings.Contains(trace, tt.fails) {
				t.Fatalf("got error %q, want %q", trace, tt.fails)
			}
			text := out.stream("stdout")
			for _, d := range out.shown {
				text += d.Data["text/plain"].(string)
			}
			if !strings.Contains(text, tt.stdout) {
				t.Errorf("got output %q, want %q", text, tt.stdout)
			}
			if got := out.stream("stderr"); !strings.Contains(got, tt.said) {
				t.Errorf("it says %q, want %q", got, tt.said)
			}
			if got := out.result(); got != tt.result {
				t.Errorf("got %q, want %q", got, tt.result)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(r.n.temp.Path, "values", "*")); len(left) > 0 {
		t.Errorf("got files %q, want none after %%reset", left)
	}
}

// TestStopKeeps: a stopped cell leaves what it had set, as far as it does not change
// while it is being read.
func TestStopKeeps(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	r.must("type T struct {\n\tname string\n\tn    []int\n}\nx, m, old := 1, map[string]int{\"a\": 1}, \"as it was\"\nf := func() int { return 1 }")
	r.must("name := \"a\"\nwork, named := handle.Do(7+0*time.Now().Year()), handle.Find(name)\nname += \"changed\"")
	tests := []struct {
		name, code string // prints when it may be stopped
		use, want  string
		fails      string
	}{
		{name: "what it has set", code: "x = 2\ny := T{\"t\", []int{1, 2}}\nvar z = 7\nfmt.Println(\"go\")\nfor {\n}", use: "fmt.Sprint(x, y, z, old)", want: "2 {t [1 2]} 7as it was"},
		{name: "maps", code: "m[\"b\"] = 2\nfmt.Println(\"go\")\ntime.Sleep(time.Hour)", use: "len(m)", want: "2"},
		{name: "what it has not come to", code: "fmt.Println(\"go\")\nfor {\n}\nlate := 1", use: "late", fails: "defines late, but failed or was stopped before that"},
		{name: "a count that goes on", code: "n := 0\nfmt.Println(\"go\")\nfor i := 0; ; i++ {\n\tn = i\n\truntime.Gosched()\n}", use: "n > 0", want: "true"},
		{name: "numbers that change", code: "v := make([]float64, 1<<16)\nfmt.Println(\"go\")\nfor i := 0; ; i++ {\n\tv[i%len(v)]++\n}", use: "len(v)", want: "65536"},
		{name: "a wait for input and output", code: "x = 3\nl, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\nfmt.Println(\"go\")\nl.Accept()", use: "x", want: "3"},
		{name: "a wait for another goroutine", code: "x = 4\ndone := make(chan bool)\ngo func() {\n\ttime.Sleep(time.Hour)\n\tdone <- true\n}()\nfmt.Println(\"go\")\n<-done", use: "x", want: "4"},
		{name: "a wait for a tick", code: "ticks := 0\nfor range time.Tick(100 * time.Millisecond) {\n\tif ticks++; ticks == 3 {\n\t\tfmt.Println(\"go\")\n\t}\n}", use: "ticks > 2", want: "true"},
		{name: "a wait for a ticker or else", code: "turns, never := 0, make(chan int)\nticker := time.NewTicker(100 * time.Millisecond)\nfor {\n\tselect {\n\tcase <-ticker.C:\n\t\tif turns++; turns == 3 {\n\t\t\tfmt.Println(\"go\")\n\t\t}\n\tcase <-never:\n\t}\n}", use: "turns > 2", want: "true"},
		{name: "a wait in a function", code: "func rest() { <-time.After(150 * time.Millisecond) }\nrests := 0\nfor {\n\trest()\n\tif rests++; rests == 2 {\n\t\tfmt.Println(\"go\")\n\t}\n}", use: "rests > 1", want: "true"},
		{name: "a wait for a deadline", code: "ends := 0\nfor {\n\tctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)\n\t<-ctx.Done()\n\tcancel()\n\tif ends++; ends == 2 {\n\t\tfmt.Println(\"go\")\n\t}\n}", use: "ends > 1", want: "true"},
		{name: "functions that timers call", code: "x = 9\nvar again func()\nagain = func() { time.AfterFunc(150*time.Millisecond, again); x++; fmt.Println(map[bool]string{x == 11: \"go\"}[true]) }\nagain()\nselect {}", use: "x > 10", want: "true"},
		{name: "what cannot be kept", code: "file, err := os.Create(\"f\")\nfmt.Println(\"go\")\nfor {\n}", use: "file.Name()", fails: "the value of file could not be kept"},
		{name: "what was there", code: "x = 5\nfmt.Println(\"go\", f())\nfor {\n}", use: "x + f()", want: "6"},
		{name: "a cell that sees to it by itself", code: "c := make(chan os.Signal, 1)\nsignal.Notify(c, os.Interrupt)\nfmt.Println(\"go\")\n<-c\nx = 6", use: "x", want: "6"},
		{name: "the cell's context", code: "fmt.Println(\"go\")\n<-ctx.Done()\nx = 10", use: "x", want: "10"},
		{name: "what the library has by a name", code: "fmt.Println(\"go\", named.Name())\nfor {\n}", use: "named.Name()", want: "a"},
		{name: "what the library is at work with", code: "fmt.Println(\"go\", work.Done())\nfor {\n}", use: "work.Done()", want: "7"},
		{name: "one that the cell has found", code: "found := handle.Find(\"b\")\nfmt.Println(\"go\")\nfor {\n}\n_ = found", use: "found.Name()", want: "b"},
		{name: "a call of the library", code: "fmt.Println(\"go\")\nif waiting.Wait() != nil {\n\tx = 8\n}", use: "x", want: "8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			ctx, stop := context.WithCancel(t.Context())
			out := &stopper{began: make(chan struct{})}
			done := make(chan *jupyter.Error)
			go func() {
				r.count++
				done <- r.n.Execute(ctx, request(tt.code, r.count), out).Err
			}()
			<-out.began
			began := time.Now()
			stop()
			if err := <-done; err == nil || err.Name != nameInterrupt {
				t.Fatalf("got error %v, want %s", err, nameInterrupt)
			}
			most := 20 * time.Second // the machine may stall
			if os.Getenv("GAIDEN_TIMING") != "" {
				most = time.Second
			}
			if took := time.Since(began); took > most {
				t.Errorf("it took %v to stop", took)
			}
			got, err := r.run(tt.use)
			switch {
			case tt.fails == "" && (err != nil || got.result() != tt.want):
				t.Errorf("got %q, error %v; want %s", got.result(), err, tt.want)
			case tt.fails != "" && (err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), tt.fails)):
				t.Errorf("got error %v, want %s", err, tt.fails)
			}
		})
	}
	r.t = t
	for i := range 5 { // a map that changes: what it is now or what it was before the cell
		ctx, stop := context.WithCancel(t.Context())
		out := &stopper{began: make(chan struct{})}
		time.AfterFunc(time.Minute, stop)
		go func() { <-out.began; time.Sleep(time.Duration(i) * time.Millisecond); stop() }()
		r.count++
		r.n.Execute(ctx, request("x = 7\nfmt.Println(\"go\")\nfor i := 0; ; i++ {\n\tm[strconv.Itoa(i%1000)]++\n}", r.count), out)
		if got, err := r.run("x"); err != nil || got.result() != "7" && got.result() != "6" {
			t.Errorf("got %q, %v; want 7, or 6 if nothing was kept", got.result(), err)
		}
		if got := r.must(`m["a"] + m["b"]`).result(); got != "3" {
			t.Errorf("got %s of the map, want 3", got)
		}
	}
}

// TestUnreadValue: a value that cannot be read now is not lost: the cell fails, and says so,
// and the next one has it.
func TestUnreadValue(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	r.must("x := 1")
	r.must("x++")
	files, _ := filepath.Glob(filepath.Join(r.n.temp.Path, "values", "value-*"))
	if len(files) != 1 {
		t.Fatalf("got files %q, want the value's", files)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(files[0], aside); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(files[0], 0o700); err != nil { // no file: reading it fails
		t.Fatal(err)
	}
	out, err := r.run("x++")
	if err == nil || !strings.Contains(out.stream("stderr"), "cannot be read") || !strings.Contains(out.stream("stderr"), "they are kept: run the cell again") {
		t.Errorf("got %v, %q; want an error that says that the values are kept", err, out.stream("stderr"))
	}
	os.Remove(files[0])
	if err := os.Rename(aside, files[0]); err != nil {
		t.Fatal(err)
	}
	if got := r.must("x").result(); got != "2" {
		t.Errorf("afterwards x is %s, want 2", got)
	}
}

// TestLargeValue: 100 MB cost those cells that use them little, and others
// nothing; and there is one copy of them.
func TestLargeValue(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	r.must("data := make([]float32, 25<<20)\ndata[1<<20] = 1")
	r.must("other := 2")
	r.must("other++")
	began := time.Now()
	r.must("other++")
	without := time.Since(began)
	r.must("data[1<<20]")
	began = time.Now()
	if got := r.must("data[1<<20]").result(); got != "1" {
		t.Errorf("got %s, want 1", got)
	}
	t.Logf("a cell without it takes %v, one that reads it %v", without.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	var size int64
	files, _ := filepath.Glob(filepath.Join(r.n.temp.Path, "values", "value-*"))
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	if len(files) != 2 || size > 101<<20 {
		t.Errorf("got %d files of %d bytes, want the two values once", len(files), size)
	}
	if left, _ := filepath.Glob(filepath.Join(r.n.temp.Path, "values", "run-*")); len(left) > 0 {
		t.Errorf("got directories %q, want none", left)
	}
}

// TestSubshell: cells of subshells run at the same time, each with its own
// output, and what they leave is there for later cells: of one variable, the value
// of the cell that ended last.
func TestSubshell(t *testing.T) {
	n := newNotebook(t)
	r := &runner{t: t, n: n}
	r.must("x, y := 1, 1\ntotal := 0")
	count := 10
	start := func(code string) (*recorder, chan *jupyter.Error) {
		count++
		out := &recorder{}
		done := make(chan *jupyter.Error, 1)
		number := count
		go func() {
			done <- n.Execute(t.Context(), jupyter.ExecuteRequest{Code: code, Count: number}, out).Err
		}()
		return out, done
	}
	file := filepath.Join(n.Dir, "go")
	long, longDone := start("fmt.Println(\"go\", x)\nfor {\n\tif _, err := os.Stat(\"go\"); err == nil {\n\t\tbreak\n\t}\n\ttime.Sleep(time.Millisecond)\n}\nx += 100\ntotal += 1\nfmt.Println(\"ends\")")
	wait(t, time.Minute, "the long cell to begin", func() bool { return long.stream("stdout") != "" })
	// What another cell replaces meanwhile, and its files, are its own business.
	for i := range 3 {
		short, done := start(fmt.Sprintf("y += %d\ntotal = 50\nz%d := x\nfmt.Print(y, z%d)", i, i, i))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got, want := short.stream("stdout"), fmt.Sprint([]int{1, 2, 4}[i], " 1"); got != want {
			t.Errorf("beside another cell got %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-longDone; err != nil {
		t.Fatal(err)
	}
	if got := long.stream("stdout"); got != "go 1\nends\n" {
		t.Errorf("the long cell got %q", got)
	}
	r.count = count
	if got := r.must("fmt.Sprint(x, y, total, z2)").result(); got != "101 4 1 1" {
		t.Errorf("got %q, want 101 4 1 1", got)
	}

	// Many at once: none is lost, and the kernel goes on.
	var all []chan *jupyter.Error
	for i := range 12 {
		_, done := start(fmt.Sprintf("w%d := x + %d\nif w%d %% 5 == 0 {\n\tpanic(\"five\")\n}\nfmt.Println(w%d)", i, i, i, i))
		all = append(all, done)
	}
	for i, done := range all {
		err := <-done
		if panics := (101+i)%5 == 0; panics != (err != nil) {
			t.Errorf("cell %d of many: got %v", i, err)
		}
	}
	r.count = count
	if got := r.must("w0 + w11").result(); got != "213" {
		t.Errorf("after many got %q, want 213", got)
	}
}
