package fit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/data"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// tell is a small net whose tokens are letters, with positions to 40.
func tell(name string) models.Net {
	const vocab = 12
	layers := []models.Layer{models.Embedding{Name: "tokens", Vocab: vocab, Units: 8}}
	switch name {
	case "gpt":
		layers = append(layers, models.Positions{Name: "positions", Length: 40}, models.TransformerBlock{Name: "block", Heads: 2, Causal: true})
	case "window": // it has no cache
		return models.Net{Name: name, Input: []int{6}, Layers: append(layers, models.Flatten{}, models.Dense{Name: "head", Units: vocab})}
	case "mixed": // keys grow, a state does not
		layers = append(layers, models.LSTM{Name: "lstm", Units: 8}, models.TransformerBlock{Name: "block", Heads: 2, Causal: true, RoPE: 100})
	}
	return models.Net{Name: name, Input: []int{40}, Layers: append(layers, models.Dense{Name: "head", Units: vocab})}
}

var letters = data.TextOf("abcdefghijkl")

// TestChat holds that a conversation goes on where it was: what is generated in several calls,
// by programs that come and go, is what one call generates; also past the length that the net
// takes, and after a rollback, a crash of the worker, or changed weights what the net would
// say then.
func TestChat(t *testing.T) {
	socket := devicetest.Start(t)
	connect := func() *session.Session {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			s, err := session.Config{Socket: socket, Space: "chat", NoStart: true}.Open()
			if err == nil {
				t.Cleanup(func() { s.Close() })
				return s
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"gpt", "mixed"} {
		t.Run(name, func(t *testing.T) {
			s := connect()
			config := Config{Session: s, Tokenizer: letters, FirstLook: true}
			net := talker(t, name, tell(name), config)
			say := func(prompt any, sampling Sampling) string {
				t.Helper()
				g, err := net.WithContext(context.Background()).Generate(prompt, sampling)
				if err != nil {
					t.Fatal(err)
				}
				return g.Text()
			}
			again := func() { // as in another process
				s = connect()
				config.Session = s
				net = attach(t, s, name, tell(name), config)
			}
			const seed = 5
			whole := say("abc", Sampling{Length: 30, Temperature: 1, Seed: seed})
			if len(whole) != 30 {
				t.Fatalf("got %q, want 30 letters", whole)
			}
			chat := Sampling{Temperature: 1, Seed: seed, Chat: "tea"}
			next := func(prompt string, length int) string {
				t.Helper()
				chat.Length = length
				return say(prompt, chat)
			}
			got := next("abc", 7)
			again()
			got += next("", 5)
			if _, err := s.Snapshot("here"); err != nil {
				t.Fatal(err)
			}
			lost := next("", 9)
			if _, err := s.Rollback("here", ""); err != nil {
				t.Fatal(err)
			}
			if l := next("", 9); l != lost {
				t.Errorf("after the rollback: %q, want %q", l, lost)
			}
			if _, err := s.Rollback("here", ""); err != nil {
				t.Fatal(err)
			}
			st, err := s.Status()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Snapshot(""); err != nil {
				t.Fatal(err)
			}
			syscall.Kill(st.WorkerPID, syscall.SIGKILL)
			for {
				again()
				if now, err := s.Status(); err == nil && now.WorkerPID != st.WorkerPID {
					break
				}
			}
			got += next("", 18)
			if got != whole {
				t.Errorf("in parts: %q\nat once:  %q", got, whole)
			}
			if more, want := next("de", 20), say("abc"+whole+"de", Sampling{Length: 20, Temperature: 1, Seed: seed}); more != want {
				t.Errorf("past the length: %q, want %q", more, want)
			}

			// A stop text is the end of the chat, too.
			plain := say("fgh", Sampling{Length: 12})
			stop := plain[3:5]
			end := strings.Index(plain, stop) + 2
			first := say("fgh", Sampling{Length: 12, Chat: "stop", Stop: []string{stop}})
			if rest := say("", Sampling{Length: 12 - end, Chat: "stop"}); first != plain[:end] || first+rest != plain {
				t.Errorf("stopped at %q: %q, then %q; want %q", stop, first, rest, plain)
			}

			// With other weights the net reads all of it again.
			w, err := net.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range w {
				slices.Reverse(x.Data)
			}
			if err := net.SetWeights(w); err != nil {
				t.Fatal(err)
			}
			if got, want := say("a", Sampling{Length: 9, Chat: "stop"}), say("fgh"+plain+"a", Sampling{Length: 9}); got != want {
				t.Errorf("with other weights: %q, want %q", got, want)
			}
			if got, want := say("a", Sampling{Length: 9, Chat: "stop", Restart: true}), say("a", Sampling{Length: 9}); got != want {
				t.Errorf("after Restart: %q, want %q", got, want)
			}
		})
	}
}

// TestGenerateChunks holds that texts do not depend on how many tokens a program draws at a time,
// that several prompts are written as each by itself is when greedy, and that text arrives in
// pieces.
func TestGenerateChunks(t *testing.T) {
	t.Parallel()
	n := talker(t, "chunks", tell("mixed"), Config{Tokenizer: letters, FirstLook: true}).WithContext(context.Background())
	want := ""
	for _, size := range []int{1, 7, 200} {
		n.drawn = size
		var pieces []string
		g, err := n.Generate("abcabc", Sampling{Length: 50, Temperature: 0.9, TopK: 8, TopP: 0.9, Seed: 3, Stream: func(s string) { pieces = append(pieces, s) }})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = g.Text()
		}
		if g.Text() != want || strings.Join(pieces, "") != want || len(want) != 50 {
			t.Errorf("chunks of %d: %q in %q\nwant %q", size, g.Text(), pieces, want)
		}
		if size > 1 && g.Compile != 0 {
			t.Errorf("got %v of compiling, want none: the programs are there, and chunks grow by what a token takes", g.Compile)
		}
		if size == 1 && len(pieces) < 40 {
			t.Errorf("%d pieces: want one for each token", len(pieces))
		}
	}
	// As on a GPU, where the host looks after several tokens only: those that are too many change
	// nothing, in this text and in what a chat keeps.
	want = ""
	var first []float32
	for i, turns := range []int{1, 8, 8, 8} {
		m := talker(t, fmt.Sprint("looking", i), tell("mixed"), Config{Tokenizer: letters, FirstLook: true}).WithContext(context.Background())
		m.drawn, m.turns = []int{200, 5, 8, 200}[i], turns
		got := ""
		for _, length := range []int{27, 23} { // with the prompt, 27 fill all slots
			g, err := m.Generate([]string{"abcabc", ""}[min(1, len(got))], Sampling{Length: length, Temperature: 4, Seed: 3, Chat: "looks"})
			if err != nil {
				t.Fatal(err)
			}
			got += g.Text()
		}
		if want == "" {
			want = got
		}
		if got != want || len(got) != 50 {
			t.Errorf("looks after %d tokens, chunks of %d: got %q, want %q", turns, m.drawn, got, want)
		}
		// The keys of all tokens but the last one, which the net has not had.
		l, err := m.session.Arrays("chat/" + m.name + "/looks/cache/block/attention/keys")
		if err != nil {
			t.Fatal(err)
		}
		shape, _ := l[0].Shape()
		all := make([]float32, shape.Size())
		if err := l[0].Values(all); err != nil {
			t.Fatal(err)
		}
		var keys []float32
		slots, size := shape.Dimensions[2], shape.Dimensions[3]
		for head := range shape.Dimensions[1] {
			keys = append(keys, all[head*slots*size:][:(len("abcabc")+50-1)*size]...)
		}
		if first == nil {
			first = keys
		}
		if !slices.Equal(keys, first) {
			t.Errorf("looks after %d tokens, chunks of %d: the cache has other keys", turns, m.drawn)
		}
	}
	g, err := n.Generate([]string{"a", "bcdefgh", "kkl"}, Sampling{Length: 20, StopTokens: []int32{4}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range g.Sequences {
		one, err := n.Generate(q.Prompt, Sampling{Length: 20, StopTokens: []int32{4}})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one.Sequences[0].Tokens, q.Tokens) || one.Sequences[0].End != q.End {
			t.Errorf("%q: %q with others, %q by itself", q.Prompt, q.Text, one.Text())
		}
	}
}
