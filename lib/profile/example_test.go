package profile_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// hunt measures the phases of a net and says what its step is made of.
func hunt(s *session.Session, w io.Writer) error {
	net := fit.New("hunt", models.MLP(32), fit.Config{Session: s, Seed: 1})
	data, err := profile.Synthetic(net, 64)
	if err != nil {
		return err
	}
	p, err := profile.Measure(context.Background(), net, data, profile.Options{Batch: 16, Shallow: true, NoErrors: true, NoEpoch: true, Budget: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	for _, l := range p.Phases {
		fmt.Fprintln(w, l.Path(), l.Calls, "times an epoch, measured:", l.Seconds() > 0)
	}
	_, err = p.Find("backwards")
	fmt.Fprintln(w, err)
	return net.Reset()
}

// TestExample runs this and looks at what it prints.
func Example() {
	s, err := session.Open()
	if err == nil {
		err = hunt(s, os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
	}
}

func TestExample(t *testing.T) {
	var b strings.Builder
	if err := hunt(profile.Open(t), &b); err != nil {
		t.Fatal(err)
	}
	want := `next 4 times an epoch, measured: true
forward 4 times an epoch, measured: true
loss 4 times an epoch, measured: true
backward 4 times an epoch, measured: true
update 4 times an epoch, measured: true
profile: hunt: got "backwards", want one of next, forward, loss, backward, update, step
`
	if got := b.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDevicesAreNoted: what is measured on one device of several says so, and which line is
// that of all.
func TestDevicesAreNoted(t *testing.T) {
	net, err := fit.Attach(profile.Open(t), "shared", models.MLP(4), fit.Config{Seed: 1, Devices: 2, AllDevices: true, FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := profile.Synthetic(net, 16)
	if err != nil {
		t.Fatal(err)
	}
	for noEpoch, want := range map[bool]string{true: "may share it among 2", false: "the epoch's step is that of 2"} {
		p, err := profile.Measure(t.Context(), net, data, profile.Options{Batch: 16, Shallow: true, NoErrors: true, NoEpoch: noEpoch, Budget: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(p.Warnings); !strings.Contains(text, "on one device") || !strings.Contains(text, want) {
			t.Errorf("got warnings %s, want one with %q", text, want)
		}
	}
}
