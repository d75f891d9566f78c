package session

import (
	"errors"
	"slices"
	"testing"

	"gaiden/lib/engine/wire"
)

func listed(t *testing.T, s *Session) (l []string) {
	t.Helper()
	all, err := s.List("")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		l = append(l, a.Name)
	}
	return l
}

// TestReplace holds that a set of names takes the place of another one in one step, all of
// it or nothing, and that this can be undone.
func TestReplace(t *testing.T) {
	p := serve(t)
	for i, tt := range []struct {
		name          string
		names, remove []string
		want          []string // nil: refused
	}{
		{"another set", []string{"d/x", "d/y"}, []string{"d/*"}, []string{"d/x", "d/y", "dd", "e/v"}},
		{"one name", []string{"d/x"}, []string{"d/v"}, []string{"d/x", "d/y", "dd", "e/v"}},
		{"names that are not there", []string{"n"}, []string{"none", "none/*", ""}, []string{"d/v", "d/x", "d/y", "dd", "e/v", "n"}},
		{"a name that is given", []string{"d/v"}, []string{"d/v"}, []string{"d/v", "d/x", "d/y", "dd", "e/v"}},
		{"only removing", nil, []string{"d/*", "e/v"}, []string{"dd"}},
		{"all", []string{"new"}, []string{"*"}, []string{"new"}},
		{"no name", []string{"new", "a\nb"}, []string{"*"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := p.open(string(rune('a' + i)))
			old := []string{"d/v", "d/x", "d/y", "dd", "e/v"}
			for k, name := range old {
				if err := s.Bind([]string{name}, []*Array{put(t, s, float32(k))}); err != nil {
					t.Fatal(err)
				}
			}
			askAll(t, s, wire.AskBody{Verb: wire.Mark, Names: []string{"cell"}})
			var arrays []*Array
			for range tt.names {
				arrays = append(arrays, put(t, s, 9))
			}
			err := s.Replace(tt.names, arrays, tt.remove...)
			if tt.want == nil {
				if !errors.Is(err, wire.Invalid) || !slices.Equal(listed(t, s), old) {
					t.Errorf("got error %v and %q, want a refusal and %q", err, listed(t, s), old)
				}
				return
			}
			if got := listed(t, s); err != nil || !slices.Equal(got, tt.want) {
				t.Fatalf("got %q, %v, want %q", got, err, tt.want)
			}
			for _, name := range tt.names {
				a, err := s.Array(name)
				if err != nil {
					t.Fatal(err)
				}
				if v := values(t, a); v[0] != 9 {
					t.Errorf("%s: got %v, want the new array", name, v)
				}
			}
			askAll(t, s, wire.AskBody{Verb: wire.Undo})
			if got := listed(t, s); !slices.Equal(got, old) {
				t.Errorf("undone: got %q, want %q", got, old)
			}
		})
	}
}

// TestReplaceAtOnce holds that nobody sees a moment between two sets.
func TestReplaceAtOnce(t *testing.T) {
	p := serve(t)
	s, other := p.open("space"), p.open("space")
	with, without := []string{"d/v", "d/x"}, []string{"d/x"}
	load := func(names []string, remove ...string) error {
		arrays := make([]*Array, len(names))
		for i := range names {
			arrays[i] = put(t, s, 1)
		}
		return s.Replace(names, arrays, remove...)
	}
	if err := load(with); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 300 && err == nil; i++ {
			err = errors.Join(load(without, "d/*"), load(with, "d/*"))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
			if got := listed(t, other); !slices.Equal(got, with) && !slices.Equal(got, without) {
				t.Errorf("got %q, want %q or %q", got, with, without)
			}
		}
	}
}
