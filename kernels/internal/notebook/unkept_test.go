package notebook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoroutines: what ends with its cell is said.
func TestGoroutines(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	const one, two = "1 goroutine of the cell was still running when the cell ended, and ended with it\n    a server or a loop", "2 goroutines of the cell were still running"
	tests := []struct{ name, code, said string }{
		{"server", "l, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\ngo http.Serve(l, nil)\n_ = err", one},
		{"two loops", "for range 2 {\n\tgo func() {\n\t\tfor {\n\t\t\ttime.Sleep(time.Second)\n\t\t}\n\t}()\n}", two},
		{"very many", "for range 20_000 {\n\tgo func() { select {} }()\n}", "more than "},
		{"in a program of its own", "%%\ngo func() { select {} }()", one},
		{"done", "var wg sync.WaitGroup\nfor range 100 {\n\twg.Add(1)\n\tgo wg.Done()\n}\nwg.Wait()", ""},
		{"done, in a wait group", "var wg sync.WaitGroup\nfor range 100 {\n\twg.Go(func() {})\n}\nwg.Wait()", ""},
		{"server in a wait group", "var wg sync.WaitGroup\nwg.Go(func() { http.ListenAndServe(\"127.0.0.1:0\", nil) })", one},
		{"method in a wait group", "var wg sync.WaitGroup\nl, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n_ = err\nwg.Go((&serving{l}).serve)\ntype serving struct{ net.Listener }\nfunc (s *serving) serve() { s.Accept() }", one},
		{"method of a package", "var wg sync.WaitGroup\nvar m sync.Mutex\nm.Lock()\nwg.Go(m.Lock)", one},
		{"server for tests", "s := httptest.NewServer(http.NotFoundHandler())\n_ = s", one},
		{"function that a timer called", "running := make(chan bool)\ntime.AfterFunc(1, func() { close(running); select {} })\n<-running", one},
		{"about to be done", "c := make(chan int)\ngo func() { c <- 1; time.Sleep(time.Millisecond) }()\nfmt.Print(<-c)", ""},
		{"of a package", "time.AfterFunc(time.Hour, func() {})\nctx, cancel := context.WithCancel(context.Background())\n_, _ = ctx, cancel", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			got := r.must(tt.code).stream("stderr")
			if !strings.Contains(got, tt.said) || tt.said == "" && got != "" {
				t.Errorf("it says %q, want %q", got, tt.said)
			}
		})
	}
}

// TestUnkept: a variable whose value cannot be kept is defined again only where
// that makes the same value and has no effect; else a use of it is an error at the
// line of the use. All rows are cells of one notebook.
func TestUnkept(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	file := filepath.Join(r.n.Dir, "notes.txt")
	const changed = ", and it has changed since its definition"
	tests := []struct {
		name  string
		code  string
		want  string // the value
		fails string // part of the traceback
		stay  string // what the file holds afterwards
	}{
		{name: "struct with a function", code: "type S struct {\n\tn int\n\tf func() int\n}\ns := S{1, func() int { return 7 }}\np := &S{n: 1, f: s.f}"},
		{name: "unchanged", code: "s.n + s.f() + p.n", want: "9"},
		{name: "changed", code: "s.n = 20\np.n = 30"},
		{name: "used", code: "fmt.Println(1)\ns.n", fails: ", line 2: the value of s could not be kept after cell 3: it holds a function" + changed + "\n    2 | s.n\n      | ^\n    define s in the cell"},
		{name: "pointer used", code: "p.n", fails: "the value of p could not be kept after cell 3"},
		{name: "given a value", code: "s = S{n: 5}", fails: "the value of s could not be kept"},
		{name: "defined again", code: "s := S{n: 6}\ns.n", want: "6"},
		{name: "without a function it is kept", code: "s.n++\ns.n", want: "7"},
		{name: "used by a function", code: "func np() int { return p.n }", fails: "line 1: the value of p could not be kept after cell 3"},
		{name: "whose cell is earlier", code: "q := &S{f: s.f, n: 1}\nfunc nq() int { return q.n }", fails: "q := … is a statement of this cell"},

		{name: "random numbers", code: "rng := rand.New(rand.NewSource(1))\nfirst := rng.Intn(100)"},
		{name: "the next", code: "rng.Intn(100)", fails: "rand.rngSource in an interface, which only its own package can make" + changed},
		{name: "those of the name of a package", code: "rand := rand.New(rand.NewSource(1))\nrand.Intn(100)", want: "81"},
		{name: "are not that package", code: "rand.Intn(100)", fails: "the value of rand could not be kept"},
		{name: "unless it is imported", code: "import \"math/rand\"\nrand.Intn(1)", want: "0"},
		{name: "others are kept", code: "pcg := rand2.New(rand2.NewPCG(1, 2))\nimport rand2 \"math/rand/v2\"\na, b := pcg.IntN(1000), rand2.New(rand2.NewPCG(1, 2))\nb.IntN(1000)"},
		{name: "and go on", code: "pcg.IntN(1000) == b.IntN(1000) && a != pcg.IntN(1000)", want: "true"},

		{name: "file made", code: "out, err := os.Create(\"notes.txt\")\nout.WriteString(\"kept\")", stay: "kept"},
		{name: "not made again", code: "out.WriteString(\"more\")", fails: "the value of out could not be kept after cell 18: it holds an os.File\n", stay: "kept"},
		{name: "its error is there", code: "err == nil", want: "true", stay: "kept"},
		{name: "file of a var", code: "var log2, logErr = os.OpenFile(\"notes.txt\", os.O_RDWR|os.O_TRUNC, 0o600)\nlog2.WriteString(\"var\")", stay: "var"},
		{name: "not made again either", code: "log2.Name()", fails: "the value of log2 could not be kept", stay: "var"},
		{name: "in a cell that only declares", code: "var name = log2.Name()", fails: "the value of log2 could not be kept", stay: "var"},
		{name: "in the open", code: "fd := int(must(os.Open(\"notes.txt\")).Fd())\ntype handle struct{ FD int }\nh := handle{fd}\nfunc must[T any](v T, err error) T {\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\treturn v\n}", stay: "var"},
		{name: "a descriptor", code: "fd", fails: "it is the number of an open file"},
		{name: "one in a struct", code: "h.FD", fails: "it holds FD, the number of an open file"},
		{name: "a number of that name", code: "fd := 5000\nh := handle{0}"},
		{name: "is a number", code: "fd + h.FD", want: "5000"},
		{name: "effect for nothing", code: "var _ = os.WriteFile(\"notes.txt\", append(must(os.ReadFile(\"notes.txt\")), '+'), 0o600)", stay: "var+"},
		{name: "only once", code: "1", want: "1", stay: "var+"},
		{name: "effect of a function", code: "func side() func() {\n\tos.Remove(\"notes.txt\")\n\treturn func() {}\n}\nvar after = side()"},
		{name: "not again", code: "os.WriteFile(\"notes.txt\", []byte(\"back\"), 0o600)", stay: "back"},
		{name: "not by its name", code: "after()", fails: "the value of after could not be kept", stay: "back"},
		{name: "in a program of its own, as GoNB has it", code: "%%\nafter()\n_, err := os.Stat(\"notes.txt\")\nfmt.Print(err != nil)"},

		{name: "counter", code: "func counter() func() int {\n\tn := 0\n\treturn func() int { n++; return n }\n}\nnext := counter()\nnext()", want: "1"},
		{name: "does not begin again", code: "next()", fails: "the value of next could not be kept"},
		{name: "counter in place", code: "next2 := func() func() int { n := 0; return func() int { n++; return n } }()\nnext2()", want: "1"},
		{name: "does not either", code: "next2()", fails: "the value of next2 could not be kept"},
		{name: "function that is replaced", code: "var op = func(i int) int { return i }\nop = func(i int) int { return -i }\nop(1)", want: "-1"},
		{name: "is not the first", code: "op(1)", fails: "the value of op could not be kept after cell 39: it holds a function" + changed},
		{name: "function that hides one of Go's", code: "max := func(a, b int) int { return 7 }\nmax = func(a, b int) int { return 8 }\nmax(1, 2)", want: "8"},
		{name: "is not Go's", code: "max(1, 2)", fails: "the value of max could not be kept"},
		{name: "what is made of others", code: "size := 3\nmk := func() S { return S{n: size, f: nil} }\nbox := S{n: size, f: func() int { return 1 }}\nbox.n", want: "3"},
		{name: "is there", code: "box.n", want: "3"},
		{name: "which change", code: "size = 4"},
		{name: "is not what it was", code: "box.n", fails: "it holds a function, and its definition uses size, changed since"},
		{name: "until they are what they were", code: "size = 3"},
		{name: "again", code: "box.n", want: "3"},
		{name: "map with functions", code: "table := map[string]func() int{\"a\": func() int { return 1 }}\nlen(table)", want: "1"},
		{name: "unchanged map", code: "table[\"a\"]()", want: "1"},
		{name: "changed map", code: "table[\"b\"] = nil"},
		{name: "map that is lost", code: "len(table)", fails: changed},
		{name: "channel", code: "ch, closed := make(chan int, 3), make(chan bool)"},
		{name: "empty channel", code: "cap(ch) + len(ch)", want: "3"},
		{name: "filled and closed", code: "ch <- 1\nclose(closed)"},
		{name: "full channel", code: "<-ch", fails: changed},
		{name: "closed channel", code: "<-closed", fails: changed},
		{name: "too large", code: "huge := make([]byte, 1<<30+1)\nlen(huge) > 1", want: "true"},
		{name: "not made again, empty", code: "len(huge)", fails: "it takes 1.0 GiB, and at most 1 GiB are kept\n    1 | len(huge)\n      |     ^\n    make it in the cell that uses it"},
		{name: "killed", code: "var key = must(os.ReadFile(\"/proc/self/stat\"))\nsyscall.Kill(os.Getpid(), syscall.SIGKILL)", fails: "killed"},
		{name: "not run again", code: "key", fails: "cell 60 was ended before the value of key was kept, and its definition is not run again by itself\n    1 | key\n      | ^\n    run cell 60 again"},
		{name: "lists", code: "%whos", stay: ""},
		{name: "mutex", code: "type guarded struct {\n\tmu sync.Mutex\n\trw sync.RWMutex\n\tn  int\n}\ng := &guarded{n: 4}\ng.mu.Lock()\ng.rw.RLock()"},
		{name: "is open in the next cell", code: "g.mu.TryLock() && g.rw.TryLock() && g.n == 4", want: "true"},
		{name: "wait group", code: "type crew struct{ wg sync.WaitGroup }\nc := &crew{}\nc.wg.Add(1)"},
		{name: "with somebody in it", code: "c.wg.Wait()", fails: "it holds a sync.WaitGroup" + changed},
		{name: "wait group that is done", code: "var wg sync.WaitGroup\nwg.Add(1)\ngo wg.Done()\nwg.Wait()"},
		{name: "is kept", code: "wg.Wait()"},
		{name: "library's", code: "guest := &greeting.Guest{Greet: func() string { return \"hi\" }}"},
		{name: "unchanged guest", code: "guest.Greet()", want: "hi"},
		{name: "changed guest", code: "guest.Greet = func() string { return \"ho\" }"},
		{name: "no old guest", code: "guest.Greet()", fails: changed},
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
				t.Fatalf("cell %d: got error %q, want %q", r.count, trace, tt.fails)
			}
			if got := out.result(); tt.want != "" && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got, _ := os.ReadFile(file); tt.stay != "" && string(got) != tt.stay {
				t.Errorf("the file holds %q, want %q", got, tt.stay)
			}
		})
	}
}
