package main

import (
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/session"
)

// TestSessionNames: what Tab offers in quotes is what the session holds.
func TestSessionNames(t *testing.T) {
	s := inSession(t)
	names := []string{"cnn/step", "cnn/conv/weights", "data/mnist/train/x", "data/mnist/train/y", "data/test/x"}
	for _, name := range names {
		a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
		if err == nil {
			err = s.Bind([]string{name}, []*session.Array{a})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Snapshot("good"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		call string
		want []string
	}{
		{"Array", names},
		{"%arrays", names},
		{"Data", []string{"mnist/train", "mnist/train", "test"}},
		{"New", []string{"cnn"}},
		{"%rollback", []string{"good"}},
		{"PauseJob", nil},
		{"%programs", nil},
		{"Println", nil},
	} {
		got := slices.DeleteFunc(sessionNames(t.Context(), tt.call), func(n string) bool { return n == "" })
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tt.want))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tt.call, got, want)
		}
	}
}
