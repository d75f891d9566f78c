package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// looks is a context that does something when it is looked at for the n-th time.
type looks struct {
	context.Context
	left atomic.Int32
	do   func()
}

func (l *looks) look() {
	if l.left.Add(-1) == 0 {
		l.do()
	}
}

func (l *looks) Done() <-chan struct{} { l.look(); return l.Context.Done() }
func (l *looks) Err() error            { l.look(); return l.Context.Err() }

// chatRoom is a session with a net that has chats.
type chatRoom struct {
	t      *testing.T
	socket string
	model  models.Net
}

func (room *chatRoom) connect() *session.Session {
	room.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s, err := session.Config{Socket: room.socket, Space: "interrupted", NoStart: true}.Open()
		if err == nil {
			room.t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(end) {
			room.t.Fatal(err)
		}
	}
}

// enter is the net as another process sees it.
func (room *chatRoom) enter() *Net {
	room.t.Helper()
	n := attach(room.t, room.connect(), room.model.Name, room.model, Config{Tokenizer: letters, FirstLook: true})
	n.drawn = 3
	return n
}

func (room *chatRoom) say(n *Net, prompts []string, s Sampling) (texts []string) {
	room.t.Helper()
	g, err := n.WithContext(context.Background()).Generate(prompts, s)
	if err != nil {
		room.t.Fatal(err)
	}
	for _, q := range g.Sequences {
		texts = append(texts, q.Text)
	}
	return texts
}

// stored is what the session has of a chat, by sequence; nil: nothing.
func (room *chatRoom) stored(n *Net, chat string) (texts []string) {
	room.t.Helper()
	prefix := "chat/" + n.name + "/" + chat + "/"
	l, err := n.session.Arrays(prefix+"tokens", prefix+"last")
	if errors.Is(err, wire.NotFound) {
		return nil
	}
	if err != nil {
		room.t.Fatal(err)
	}
	shape, _ := l[0].Shape()
	tokens, last := make([]int32, shape.Size()), make([]int32, shape.Dimensions[0])
	if err := errors.Join(l[0].Values(tokens), l[1].Values(last)); err != nil {
		room.t.Fatal(err)
	}
	for r := range last {
		row := slices.DeleteFunc(slices.Clone(tokens[r*shape.Dimensions[1]:(r+1)*shape.Dimensions[1]]), func(t int32) bool { return t < 0 })
		texts = append(texts, letters.Decode(append(row, last[r])))
	}
	return texts
}

// TestChatInterrupted holds that a chat whose call is interrupted, at each place where the call
// can be, is as it was before or as far as its text was shown, and that it continues with the
// text that an undisturbed one has.
func TestChatInterrupted(t *testing.T) {
	was := grace
	t.Cleanup(func() { grace = was })
	grace = 0
	first, second := []string{"abcabc", "fghijkl"}, []string{"debcel", "kljibac"}
	const before, during, after = 5, 10, 6
	for _, name := range []string{"gpt", "mixed", "window"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := &chatRoom{t, devicetest.Start(t), tell(name)}
			room.model.Name += "-interrupted" // its text varies
			n := talker(t, room.model.Name, room.model, Config{Session: room.connect(), Tokenizer: letters, FirstLook: true})
			n.drawn = 3
			if _, err := n.session.Snapshot(""); err != nil {
				t.Fatal(err)
			}
			plain := room.say(n, first, Sampling{Length: before, Chat: "plain"})
			start := join(first, plain)
			plain = room.say(n, second, Sampling{Length: during + after, Chat: "plain"})
			want := join(start, second, plain)
			restarted := join(second, room.say(n, second, Sampling{Length: during + after}))

			kills := []int{9}
			if name == "mixed" {
				kills = []int{3, 9, 14}
			}
			for _, tt := range []struct {
				name    string
				restart bool
				do      func(n *Net, cancel func())
				at      []int // looks; nil: each one
				lost    bool  // the connection ends
				behind  bool  // what is stored may not have been shown yet
			}{
				{name: "Stop", do: func(_ *Net, cancel func()) { cancel() }},
				{name: "Stop with Restart", restart: true, do: func(_ *Net, cancel func()) { cancel() }},
				{name: "a closed connection", do: func(n *Net, _ func()) { go n.session.Close() }, at: []int{2, 5, 8, 11, 14}, lost: true, behind: true},
				{name: "a killed worker", do: func(n *Net, _ func()) {
					if st, err := n.session.Status(); err == nil {
						syscall.Kill(st.WorkerPID, syscall.SIGKILL)
					}
				}, at: kills, lost: true},
				{name: "a killed worker with Restart", restart: true, do: func(n *Net, _ func()) {
					if st, err := n.session.Status(); err == nil {
						syscall.Kill(st.WorkerPID, syscall.SIGKILL)
					}
				}, at: []int{9}, lost: true},
			} {
				for at := 1; at < 200; at++ {
					if tt.at != nil && !slices.Contains(tt.at, at) {
						continue
					}
					what := fmt.Sprintf("%s at look %d", tt.name, at)
					room.say(n, first, Sampling{Length: before, Chat: "tea", Restart: true})
					ctx, cancel := context.WithCancel(context.Background())
					l := &looks{Context: ctx}
					l.left.Store(int32(at))
					l.do = func() { tt.do(n, cancel) }
					shown := ""
					g, err := n.WithContext(l).Generate(second, Sampling{Length: during, Chat: "tea", Restart: tt.restart, Stream: func(s string) { shown += s }})
					cancel()
					if tt.lost {
						n = room.enter()
					}
					got := room.stored(n, "tea")
					begin, whole := start, want
					if tt.restart {
						begin, whole = []string{"", ""}, restarted
					}
					texts := []string{shown, ""}
					if err == nil {
						texts[1] = g.Sequences[1].Text
					} else if len(got) == 2 && len(shown) > 0 {
						texts[1] = strings.TrimPrefix(got[1], begin[1]+second[1])
					}
					said := "is as it was before"
					if shown != "" {
						said = "an empty prompt continues it"
					}
					if errors.Is(err, wire.Lost) && !strings.Contains(err.Error(), said) {
						t.Errorf("%s: got %v, want %q", what, err, said)
					}
					asShown := join(begin, second, texts)
					switch {
					case shown == "" && slices.Equal(got, start):
						begin, whole = start, want
					case shown != "" && slices.Equal(got, asShown) && len(texts[1]) == len(shown):
					case tt.behind && len(got) == 2 && strings.HasPrefix(got[0], asShown[0]) && len(got[0]) <= len(asShown[0])+n.drawn:
					default:
						t.Fatalf("%s (%v): the chat is %q, %q was shown: want %q or %q", what, err, got, shown, start, asShown)
					}
					prompts := []string{"", ""}
					if slices.Equal(got, start) {
						prompts = second
					}
					rest := room.say(n, prompts, Sampling{Length: len(whole[0]) - len(join(got, prompts)[0]), Chat: "tea"})
					if end := join(got, prompts, rest); !slices.Equal(end, whole) {
						t.Fatalf("%s (%v): after %q the chat continues to\n%q, want\n%q", what, err, shown, end, whole)
					}
					if err == nil && tt.at == nil {
						if at < 8 {
							t.Errorf("%s: the call has looked only %d times", tt.name, at)
						}
						break
					}
				}
			}
		})
	}
}

// TestChatShared holds what two notebooks do with one chat while one of them generates: neither
// the other's prompt nor its rollback changes it. A rollback or other weights change the chat's
// next call, and not the one that is running.
func TestChatShared(t *testing.T) {
	defer func(was time.Duration) { creationTime = was }(creationTime)
	creationTime = 10 * time.Millisecond
	room := &chatRoom{t, devicetest.Start(t), tell("mixed")}
	n := talker(t, "mixed", room.model, Config{Session: room.connect(), Tokenizer: letters, FirstLook: true})
	other := room.enter()
	n.drawn = 3
	long := Sampling{Length: 9, Chat: "tea"}
	first := room.say(n, []string{"abc"}, long)[0]
	if _, err := n.session.Snapshot("here"); err != nil {
		t.Fatal(err)
	}
	want := room.say(n, []string{"abc" + first + "de"}, Sampling{Length: 9})[0]
	w, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range w {
		slices.Reverse(x.Data)
	}
	before := "abc" + first
	for _, tt := range []struct {
		name string
		do   func() error
		want string // error
	}{
		{"another prompt", func() error {
			_, err := other.WithContext(context.Background()).Generate("k", long)
			return err
		}, "generates in it since"},
		{"another's rollback", func() error { _, err := other.session.Rollback("here", ""); return err }, "generates in it since"},
		{"an own rollback", func() error { _, err := n.session.Rollback("here", ""); return err }, ""},
		{"other weights", func() error { return other.SetWeights(w) }, ""},
	} {
		if _, err := n.session.Rollback("here", ""); err != nil {
			t.Fatal(err)
		}
		pieces := 0
		long.Stream = func(string) {
			if pieces++; pieces == 2 {
				if err := tt.do(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
				}
			}
		}
		if got := room.say(n, []string{"de"}, long)[0]; got != want || pieces != 3 {
			t.Errorf("%s: got %q in %d pieces, want %q in 3", tt.name, got, pieces, want)
		}
		long.Stream = nil
		if got := room.stored(n, "tea")[0]; got != before+"de"+want {
			t.Errorf("%s: the chat is %q, want %q", tt.name, got, before+"de"+want)
		}
		next, plain := room.say(other, []string{"g"}, long)[0], room.say(other, []string{before + "de" + want + "g"}, Sampling{Length: 9})[0]
		if next != plain {
			t.Errorf("%s: then the chat continues with %q, want %q", tt.name, next, plain)
		}
	}
}

// join puts texts behind each other, by sequence.
func join(parts ...[]string) []string {
	all := slices.Clone(parts[0])
	for _, p := range parts[1:] {
		for r := range all {
			all[r] += p[r]
		}
	}
	return all
}

// TestChatAnswerLost: tokens that the session stored, while the answer was lost with the worker,
// were shown to nobody: the chat is as far as its text was shown.
func TestChatAnswerLost(t *testing.T) {
	t.Parallel()
	n := talker(t, "answers", tell("mixed"), Config{Tokenizer: letters, FirstLook: true}).WithContext(context.Background())
	c := &conversation{writing: &writing{Sampling: Sampling{Chat: "tea"}, net: n, ctx: context.Background()}}
	say := func() *transcript {
		if _, err := n.Generate("abc", Sampling{Length: 5, Chat: "tea"}); err != nil {
			t.Fatal(err)
		}
		k, err := readTranscript(n.session, c.prefix())
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	check := func(what string, others bool, want *transcript) {
		t.Helper()
		if got, err := c.restored(); got != others || err != nil {
			t.Errorf("%s: got others %t, %v, want %t", what, got, err, others)
		}
		if now, err := readTranscript(n.session, c.prefix()); err != nil || !now.equal(want) {
			t.Errorf("%s: got %v, %v, want %v", what, now.texts(), err, want.texts())
		}
	}
	first, second := say(), say()
	c.kept, c.found = first, first
	check("of another call", true, second)
	c.sent = second
	check("its own", false, first)
	c.kept, c.found, c.sent = nil, nil, first
	check("its own, and the first", false, nil)
}

// TestChatOlderSnapshot holds that a chat which was restarted after the newest snapshot is as it was shown
// when its worker has died, and that one which another call has continued since is that call's.
func TestChatOlderSnapshot(t *testing.T) {
	t.Parallel()
	room := &chatRoom{t, devicetest.Start(t), tell("mixed")}
	room.model.Name += "-older"
	n := talker(t, room.model.Name, room.model, Config{Session: room.connect(), Tokenizer: letters, FirstLook: true})
	for _, continued := range []bool{false, true} {
		room.say(n, []string{"abc"}, Sampling{Length: 9, Chat: "tea", Restart: true})
		if _, err := n.session.Snapshot(""); err != nil {
			t.Fatal(err)
		}
		room.say(n, []string{"kkl"}, Sampling{Length: 5, Chat: "tea", Restart: true})
		c := &conversation{writing: &writing{Sampling: Sampling{Chat: "tea"}, net: n, ctx: context.Background()}}
		shown, err := readTranscript(n.session, c.prefix())
		if err != nil {
			t.Fatal(err)
		}
		st, err := n.session.Status()
		if err == nil {
			err = syscall.Kill(st.WorkerPID, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		for err == nil { // until the connection has ended, too
			_, err = n.session.Status()
		}
		n = room.enter()
		if continued {
			room.say(n, []string{"abc"}, Sampling{Length: 3, Chat: "tea"})
		}
		before := room.stored(n, "tea")
		c.net, c.kept, c.found = n, shown, shown
		others, err := c.restored()
		want := letters.Decode(shown.texts()[0])
		if continued {
			want = before[0]
		}
		if got := room.stored(n, "tea"); err != nil || others != continued || got[0] != want {
			t.Errorf("continued %t: got %q of others %t, %v, want %q", continued, got, others, err, want)
		}
	}
}
