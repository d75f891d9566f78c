package main

import (
	"testing"
	"time"

	"gaiden/lib/session"
)

func TestCostLine(t *testing.T) {
	tests := []struct {
		cost session.Cost
		want string
	}{
		{session.Cost{}, ""},
		{session.Cost{Graph: 4 * time.Millisecond, Compile: 640 * time.Millisecond, Compiled: 1, Ready: 2, Upload: 12 * time.Millisecond, UploadBytes: 47e6,
			Device: 1200 * time.Millisecond, Download: 80 * time.Microsecond, DownloadBytes: 4},
			"graph 4.00 ms · compile 640 ms (1 compiled, 2 ready) · upload 47.0 MB in 12.0 ms · device 1.20 s · download 4 B in 80.0 µs"},
		{session.Cost{Loaded: 3}, "compile 0 s (3 from disk)"},
	}
	for _, tt := range tests {
		if got := costLine(tt.cost); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
