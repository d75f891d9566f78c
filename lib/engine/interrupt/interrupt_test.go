package interrupt

import (
	"context"
	"errors"
	"syscall"
	"testing"
)

// TestContext: a program that is no cell has a context that never ends, and Stop, which
// is the signal SIGINT, and the end of the cell end a cell's.
func TestContext(t *testing.T) {
	tests := []struct {
		name string
		end  func()
		why  string
	}{
		{"Stop", func() { syscall.Kill(syscall.Getpid(), syscall.SIGINT) }, "the cell was stopped"},
		{"end of the cell", End, "context canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cell, ctx, cancel = false, nil, nil
			if got := Context(); got != context.Background() {
				t.Errorf("got %v in a program that is no cell, want context.Background()", got)
			}
			End() // has nothing to end
			Cell()
			got := Context()
			if Context() != got {
				t.Error("got two contexts in one cell")
			}
			if err := got.Err(); err != nil {
				t.Errorf("got %v before the end, want nil", err)
			}
			tt.end()
			<-got.Done()
			if why := context.Cause(got); why.Error() != tt.why || !errors.Is(why, context.Canceled) {
				t.Errorf("got the cause %v, want %s, which is context.Canceled", why, tt.why)
			}
			End()
			if Context() != got {
				t.Error("got another context after the end, want the one that has ended")
			}
		})
	}
}
