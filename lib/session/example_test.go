package session_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/session"
)

// keep puts numbers on the device under a name, and finds them there.
func keep(s *session.Session, w io.Writer) error {
	x, err := s.Put([]float32{1, 2, 3}, shapes.Make(dtypes.Float32, 3), 0)
	if err != nil {
		return err
	}
	if err := s.Bind([]string{"x"}, []*session.Array{x}); err != nil {
		return err
	}
	again, err := s.Array("x") // as any later program does
	if err != nil {
		return err
	}
	v := make([]float32, 3)
	if err := again.Values(v); err != nil {
		return err
	}
	fmt.Fprintln(w, v)
	_, err = s.Array("y")
	fmt.Fprintln(w, err)
	return nil
}

// TestExample runs this and looks at what it prints.
func Example() {
	s, err := session.Open() // starts the session where there is none
	if err == nil {
		err = keep(s, os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
	}
}

func TestExample(t *testing.T) {
	var b strings.Builder
	if err := keep(session.Serve(t), &b); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "[1 2 3]\nno array \"y\" in notebook \"example\"; did you mean \"x\"?\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
