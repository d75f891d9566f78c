package hlo_test

import (
	"testing"

	"github.com/gomlx/compute/support/backendtest"
)

// TestCompliance runs GoMLX's own tests of a backend.
func TestCompliance(t *testing.T) {
	backendtest.RunAll(t, newBackend(t), nil)
}
