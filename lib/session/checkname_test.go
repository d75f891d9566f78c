package session

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestNamesThatCannotBeKept: a name that a snapshot, a file, a list or a magic could not
// take is refused in each of the ways in which arrays get names, and what has a name can be
// saved, exported, imported and brought back.
func TestNamesThatCannotBeKept(t *testing.T) {
	p := serve(t)
	s := p.open("names")
	names := []string{"w", "Gewicht ö 雪 \"x\" <b>&amp;", "a*b", strings.Repeat("n", 512), "net/__metadata__"}
	var arrays []*Array
	for range names {
		arrays = append(arrays, put(t, s, 1))
	}
	if err := s.Bind(names, arrays); err != nil {
		t.Fatal(err)
	}
	x := addOne(t, s, Options{}, f32(1))
	file := filepath.Join(p.dir, "one.safetensors")
	if _, err := s.Export(file, "", "w", nil); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"__metadata__", "", strings.Repeat("n", 513), "two\nlines", "\xff", "w*"} {
		for way, bind := range map[string]func() error{
			"bind": func() error { return s.Bind([]string{bad}, []*Array{put(t, s, 1)}) },
			"execute": func() error {
				if bad == "" {
					return wire.Errorf(wire.Invalid, "none is no name here")
				}
				if _, err := x.Run(Call{Inputs: []*Array{put(t, s, 1)}, Names: []string{bad}}); err != nil {
					return err
				}
				return s.Wait()
			},
			"job": func() error {
				if bad == "" {
					return wire.Errorf(wire.Invalid, "none is no name here")
				}
				_, err := s.StartJob(Job{Name: "j", Steps: []JobStep{{Program: x, Inputs: Named("w"), Names: []string{bad}}}})
				return err
			},
			"import": func() error {
				prefix, ok := strings.CutSuffix(bad, "w")
				if !ok {
					return wire.Errorf(wire.Invalid, "no import gives this name")
				}
				_, err := s.Import(file, prefix)
				return err
			},
		} {
			if err := bind(); !errors.Is(err, wire.Invalid) {
				t.Errorf("%s of %.20q: got %v, want that it is refused", way, bad, err)
			}
		}
	}
	if err := s.Bind([]string{"twice", "twice"}, []*Array{put(t, s, 1), put(t, s, 2)}); !errors.Is(err, wire.Invalid) {
		t.Errorf("one name for two arrays: got %v, want that it is refused", err)
	}
	want := look(t, s)
	if _, err := s.Snapshot("all"); err != nil {
		t.Fatal(err)
	}
	p.kill()
	p.again()
	if got := look(t, p.reopen("names")); got != want {
		t.Errorf("after a crash: got %s, want %s", got, want)
	}
}
