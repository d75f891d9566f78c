package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A cell that waits for packages says so, and one that waits for something else does not.
func TestExplainWait(t *testing.T) {
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	ended, end := context.WithCancel(context.Background())
	end()
	tests := []struct {
		name  string
		ctx   context.Context
		ready chan struct{}
		after time.Duration
		want  string
	}{
		{"packages are compiled", context.Background(), open, 0, "takes up to three minutes"},
		{"packages are ready", context.Background(), closed, time.Hour, ""},
		{"the cell is built", ended, open, time.Hour, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said string
			explainWait(tt.ctx, tt.ready, tt.after, func(note string) { said += note })
			if !strings.Contains(said, tt.want) || (said == "") != (tt.want == "") {
				t.Errorf("got %q, want %q in it", said, tt.want)
			}
		})
	}
}
