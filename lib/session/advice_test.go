package session

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestOtherNotebook: who asks for arrays of a notebook that has none hears which
// one may be meant, also when that is only on disk.
func TestOtherNotebook(t *testing.T) {
	p := serve(t)
	first := p.open("/home/ada/nets/mlp")
	bindAll(t, first, map[string][]float32{"w": {1}})
	if _, err := first.Snapshot("kept"); err != nil {
		t.Fatal(err)
	}
	askAll(t, first, wire.AskBody{Verb: wire.Stop})
	p.Wait()
	p.again()
	s := p.open("other")
	tests := []struct{ space, name, text, hint string }{
		{"mlp.ipynb", "w", `notebook "mlp.ipynb" has no arrays; did you mean notebook "/home/ada/nets/mlp"?`, "%device lists"},
		{"/home/ada/nets/mlp.ipynb", "w", `has no arrays; did you mean notebook "/home/ada/nets/mlp"?`, "%device lists"},
		{"/home/ada/nets/mpl", "w", `has no arrays; did you mean notebook "/home/ada/nets/mlp"?`, "%device lists"},
		{"unheard of", "w", "has no arrays", "%device lists"},
		{"/home/ada/nets/mlp", "v", `no array "v" in notebook "/home/ada/nets/mlp"; did you mean "w"?`, "%arrays lists"},
		{"other", "v", `no array "v" in notebook "other"`, "%arrays lists"},
	}
	for _, tt := range tests {
		_, err := s.ArraysOf(tt.space, tt.name)
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.NotFound || !strings.Contains(e.Text, tt.text) || !strings.Contains(e.Next, tt.hint) {
			t.Errorf("%s of %s: got %v, hint %q; want %q, hint %q", tt.name, tt.space, err, e.Next, tt.text, tt.hint)
		}
	}
	l, err := s.ArraysOf("/home/ada/nets/mlp", "w")
	if err != nil || values(t, l[0])[0] != 1 {
		t.Errorf("by its name: got %v", err)
	}
}

// TestAdvice: the kernel hears the hint of what a program has died of, and an
// error that the program was told is not told again.
func TestAdvice(t *testing.T) {
	p := serve(t)
	kernel := p.open("cell")
	s := p.open("cell")
	if err := s.Quota(1000); err != nil {
		t.Fatal(err)
	}
	big := put(t, s, make([]float32, 1000)...)
	err := s.Bind([]string{"big"}, []*Array{big})
	if !errors.Is(err, wire.OutOfMemory) {
		t.Fatalf("got %v, want that the quota is too small", err)
	}
	s.Close()
	ans := askAll(t, kernel, wire.AskBody{Verb: wire.Drain, PID: os.Getpid()})
	if len(ans.Errors) != 0 {
		t.Errorf("got %v as errors that nobody has read, want none", ans.Errors)
	}
	if len(ans.Told) != 1 || ans.Told[0].Error() != err.Error() || !strings.Contains(ans.Told[0].Hint(), "%arrays") {
		t.Errorf("got %v as errors that were told, want %v with its hint", ans.Told, err)
	}
	if ans := askAll(t, kernel, wire.AskBody{Verb: wire.Drain, PID: os.Getpid()}); len(ans.Told) != 0 {
		t.Errorf("got %v a second time", ans.Told)
	}
}

// TestOrigin: lists say which cell a program is of.
func TestOrigin(t *testing.T) {
	p := serve(t)
	s := p.open("/home/ada/mlp")
	t.Setenv(CellEnv, "7")
	addOne(t, s, Options{}, f32(3))
	addOne(t, s, Options{Origin: "elsewhere"}, f32(4))
	got := map[string]string{}
	for _, i := range askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs {
		got[i.Shapes] = i.Origin
	}
	for shapes, want := range map[string]string{"float32[3] → float32[3]": "cell 7 of mlp", "float32[4] → float32[4]": "elsewhere"} {
		if got[shapes] != want {
			t.Errorf("program %s is of %q, want %q", shapes, got[shapes], want)
		}
	}
}

// TestEvictMisses: evict says why it evicts nothing.
func TestEvictMisses(t *testing.T) {
	s := serve(t).open("evict")
	x := addOne(t, s, Options{}, f32(3))
	hash := askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs[0].Hash
	tests := []struct {
		ask  wire.AskBody
		want wire.Code
		text string
	}{
		{wire.AskBody{Verb: wire.Evict, Names: []string{hash}}, wire.Invalid, "in use"},
		{wire.AskBody{Verb: wire.Evict, Names: []string{"zz"}}, wire.NotFound, `no program "zz" in memory`},
		{wire.AskBody{Verb: wire.Pin, Start: true}, wire.Invalid, "no program was named"},
	}
	for _, tt := range tests {
		if _, err := s.Ask(tt.ask); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s %q: got %v, want %s: %s", tt.ask.Verb, tt.ask.Names, err, tt.want, tt.text)
		}
	}
	if _, err := x.Run(Call{Inputs: []*Array{put(t, s, 1, 2, 3)}}); err != nil {
		t.Errorf("a program that was not evicted: %v", err)
	}
}
