package pjrt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
)

// The CPU plugin has no profiler, so this one is made of C callbacks.
type fakeProfiler struct {
	mem     arena
	log     []string
	refuses string // the call that fails
	asks    bool   // wants the caller's memory for the recording
	data    []byte
	table   uintptr
}

func newFakeProfiler(t *testing.T) (*fakeProfiler, *Plugin) {
	t.Helper()
	if err := openLibc(); err != nil {
		t.Fatal(err)
	}
	f := &fakeProfiler{data: []byte("a recording\x00")}
	t.Cleanup(f.mem.free)
	api, ext := f.mem.alloc(64), f.mem.alloc(32)
	f.table = f.mem.alloc(profilerTable)
	*at[uintptr](f.table) = profilerTable
	message, data := f.mem.bytes([]byte("too busy")), f.mem.bytes(f.data)
	f.set(profilerErrorDestroy, "error", nil)
	f.set(profilerErrorMessage, "", func(a []uintptr) { a[3], a[4] = message, 8 })
	f.set(profilerCreate, "create", func(a []uintptr) { a[3] = 77 })
	f.set(profilerDestroy, "destroy", nil)
	f.set(profilerStart, "start", nil)
	f.set(profilerStop, "stop", nil)
	f.set(profilerCollect, "collect", func(a []uintptr) {
		switch {
		case a[2] != 0:
			copy(array[byte](a[2], a[3]), f.data)
		case f.asks:
			a[3] = uintptr(len(f.data))
		default:
			a[2], a[3] = data, uintptr(len(f.data))
		}
	})
	*at[uintptr](ext), *at[int32](ext + 8), *at[uintptr](ext + 24) = 40, extensionProfiler, f.table
	*at[uintptr](api + 8) = ext
	return f, &Plugin{api: api}
}

func (f *fakeProfiler) set(place uintptr, name string, fill func(args []uintptr)) {
	*at[uintptr](f.table + place) = purego.NewCallback(func(a uintptr) uintptr {
		args := array[uintptr](a, *at[uintptr](a)/8)
		if name != "" {
			entry := name
			if place > profilerCreate {
				entry += fmt.Sprint(args[1])
			}
			f.log = append(f.log, entry)
		}
		if name != "" && name == f.refuses {
			return 99
		}
		if fill != nil {
			fill(args)
		}
		return 0
	})
}

func TestProfile(t *testing.T) {
	tests := []struct {
		name, refuses string
		asks          bool
		log           string
		err           string
	}{
		{"its memory", "", false, "create start77 stop77 collect77 destroy77", ""},
		{"our memory", "", true, "create start77 stop77 collect77 collect77 destroy77", ""},
		{"create fails", "create", false, "create error", "profile: UNKNOWN: too busy"},
		{"start fails", "start", false, "create start77 error destroy77", "profile: UNKNOWN: too busy"},
		{"stop fails", "stop", false, "create start77 stop77 error destroy77", "profile: UNKNOWN: too busy"},
		{"collect fails", "collect", false, "create start77 stop77 collect77 error destroy77", "profile: UNKNOWN: too busy"},
	}
	f, p := newFakeProfiler(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.log, f.refuses, f.asks = nil, tt.refuses, tt.asks
			var data []byte
			pr, err := p.StartProfile()
			if err == nil {
				data, err = pr.Stop()
				if _, again := pr.Stop(); !errors.Is(again, ErrClosed) {
					t.Errorf("second stop: got %v, want ErrClosed", again)
				}
			}
			if got := strings.Join(f.log, " "); got != tt.log {
				t.Errorf("got calls %q, want %q", got, tt.log)
			}
			if tt.err == "" && (err != nil || !slices.Equal(data, f.data)) {
				t.Errorf("got %q, %v, want %q", data, err, f.data)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got error %v, want one with %q", err, tt.err)
			}
		})
	}
	*at[uintptr](f.table) = 40
	if _, err := p.StartProfile(); !errors.Is(err, ErrUnimplemented) {
		t.Errorf("short table: got %v, want ErrUnimplemented", err)
	}
}

// A plugin with a profiler records, twice in one process; one without says so.
func TestProfilePlugin(t *testing.T) {
	c := client(t)
	p := compile(t, c, increments(2, 1024, false))
	in, out := vectors(t, c, 2, 1024), make([]Buffer, 2)
	for range 2 {
		pr, err := c.Plugin.StartProfile()
		if errors.Is(err, ErrUnimplemented) && c.Platform() == "cpu" {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Execute(in, out, nil, nil, Wait, nil); err != nil {
			t.Fatal(err)
		}
		free(t, c, out...)
		if b, err := pr.Stop(); err != nil || len(b) == 0 {
			t.Errorf("got %d bytes, %v, want a recording", len(b), err)
		}
	}
	free(t, c, in...)
}
