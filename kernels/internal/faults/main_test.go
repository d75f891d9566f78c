package faults

import (
	"os"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/session"
)

// TestMain lets the test program play the tracer and the session's processes.
func TestMain(m *testing.M) {
	Main()
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}
