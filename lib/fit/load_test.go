package fit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestLoadReplacesAtOnce holds that a set that takes the place of another of its name is
// there whole at every moment, for a cell may be killed at any.
func TestLoadReplacesAtOnce(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.Peaks(), Config{Loss: losses.Visibility{}, FirstLook: true})
	v := []float32{1, 1}
	load(t, n, "d", Data{X: make([]float32, 4), Y: make([]float32, 2), V: v})
	other, err := session.Config{Socket: server.socket, Space: s.Space(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := float32(1); i < 200 && err == nil; i++ {
			_, err1 := n.Upload("d", Data{X: []float32{i, i, i, i}, Y: make([]float32, 2)})
			_, err2 := n.Upload("d", Data{X: []float32{i, i, i, i}, Y: make([]float32, 2), V: v})
			err = errors.Join(err1, err2)
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			l, err := other.List("data/d/")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range l {
				got = append(got, strings.TrimPrefix(a.Name, "data/d/"))
			}
			if !slices.Equal(got, []string{"sum", "x", "y"}) && !slices.Equal(got, []string{"sum", "v", "x", "y"}) {
				t.Fatalf("got %q, want a whole set", got)
			}
		}
	}
}

// TestLoadKeepsOthers holds that a set takes the place of its own name only.
func TestLoadKeepsOthers(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.Peaks(), Config{FirstLook: true})
	for _, name := range []string{"d/train", "d/v", "d", "d/v", "d"} {
		load(t, n, name, Data{X: []float32{float32(len(name)), 2, 3, 4}, Y: make([]float32, 2)})
	}
	for _, name := range []string{"d/train", "d/v", "d"} {
		if _, err := n.Data(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := attach(t, s, "net", models.Peaks(), Config{FirstLook: true}).Data(name); err != nil {
			t.Errorf("%s, found again: %v", name, err)
		}
	}
}
