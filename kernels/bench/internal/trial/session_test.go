package trial

import (
	"os"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/session"
)

// TestMain lets the test program play the session's processes too.
func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}

// serve starts a session for the test, and opens a desk on it.
func serve(t *testing.T) *desk {
	t.Helper()
	t.Setenv("GAIDEN_SOCKET", devicetest.Start(t))
	d := &desk{}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.s.Close() })
	return d
}
