package toolserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	"golang.org/x/sys/unix"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/session"
)

// TestArrays reads arrays of a session and takes back what was done to them.
func TestArrays(t *testing.T) {
	t.Setenv("GAIDEN_SOCKET", devicetest.Start(t))
	t.Setenv("GAIDEN_SPACE", "tools")
	s, err := session.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(name string, flat any, shape shapes.Shape) {
		t.Helper()
		a, err := s.Put(flat, shape, 0)
		if err == nil {
			err = s.Bind([]string{name}, []*session.Array{a})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Servers before this one: one was killed, one runs, one is on another machine.
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	os.MkdirAll(owners(), 0o700)
	for _, name := range []string{"KILLED", "RUNS"} {
		f, err := os.Create(filepath.Join(owners(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if name == "RUNS" {
			unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
	}
	for _, name := range []string{"KILLED-1", "KILLED-2", "RUNS-1", "ELSEWHERE-1"} {
		if _, err := s.Snapshot(prefix + name); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t)
	c.cell("before := 1") // action 1: no arrays
	var left []string
	all, err := s.Snapshots()
	for _, i := range all {
		if name := strings.TrimPrefix(i.Name, prefix); name != i.Name && !strings.HasPrefix(name, filepath.Base(c.server.history.owner.Name())) {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	if want := []string{"ELSEWHERE-1", "RUNS-1"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("snapshots of other servers: got %q, %v, want %q", left, err, want)
	}
	nan := float32(0)
	nan /= nan
	put("w", []float32{1, 2, nan, 4, 5, 0}, shapes.Make(dtypes.Float32, 2, 3))
	put("half", []bfloat16.BFloat16{bfloat16.FromFloat32(0.5)}, shapes.Make(dtypes.BFloat16))
	put("ids", []int32{3, -4}, shapes.Make(dtypes.Int32, 2))
	put("mask", []bool{true, false}, shapes.Make(dtypes.Bool, 2))
	put("z", []complex64{3 + 4i}, shapes.Make(dtypes.Complex64, 1))
	put("none", []float32{}, shapes.Make(dtypes.Float32, 0, 3))
	if said, _ := c.call("list_arrays", nil); !strings.Contains(said, `"notebook":"tools"`) || strings.Count(said, `"name"`) != 6 {
		t.Errorf("list_arrays: got %s, want six arrays of notebook tools", said)
	}
	for _, tt := range []struct {
		arguments map[string]any
		want      string // JSON; "" = an error with text
		text      string
	}{
		{map[string]any{"name": "w"}, `{"name":"w","type":"float32","shape":[2,3],"elements":6,"min":0,"max":5,"mean":2.4,"standard_deviation":1.8547236990991407,"nan":1,"infinite":0,"offset":0,"values":[1,2,"NaN",4,5,0]}`, ""},
		{map[string]any{"name": "w", "offset": 3, "count": 2}, `{"name":"w","type":"float32","shape":[2,3],"elements":6,"min":0,"max":5,"mean":2.4,"standard_deviation":1.8547236990991407,"nan":1,"infinite":0,"offset":3,"values":[4,5],"cut":"1 element left: offset 5 continues"}`, ""},
		{map[string]any{"name": "half"}, `{"name":"half","type":"bfloat16","shape":[],"elements":1,"min":0.5,"max":0.5,"mean":0.5,"standard_deviation":0,"nan":0,"infinite":0,"offset":0,"values":[0.5]}`, ""},
		{map[string]any{"name": "ids"}, `{"name":"ids","type":"int32","shape":[2],"elements":2,"min":-4,"max":3,"mean":-0.5,"standard_deviation":3.5,"nan":0,"infinite":0,"offset":0,"values":[3,-4]}`, ""},
		{map[string]any{"name": "mask"}, `{"name":"mask","type":"bool","shape":[2],"elements":2,"min":0,"max":1,"mean":0.5,"standard_deviation":0.5,"nan":0,"infinite":0,"offset":0,"values":[true,false]}`, ""},
		{map[string]any{"name": "z"}, `{"name":"z","type":"complex64","shape":[1],"elements":1,"min":5,"max":5,"mean":5,"standard_deviation":0,"nan":0,"infinite":0,"offset":0,"values":["(3+4i)"]}`, ""},
		{map[string]any{"name": "none"}, `{"name":"none","type":"float32","shape":[0,3],"elements":0,"nan":0,"infinite":0,"offset":0,"values":[]}`, ""},
		{map[string]any{"name": "v"}, "", `"v"`},
		{map[string]any{"name": "w", "offset": 6}, "", "want one below 6, the number of elements of w"},
		{map[string]any{"name": "w", "offset": -1}, "", "want an offset from 0"},
		{map[string]any{"name": "w", "count": maxValues + 1}, "", "a count from 1 to 2000"},
	} {
		said, r := c.call("read_array", tt.arguments)
		if r.IsError != (tt.want == "") {
			t.Errorf("read_array %v: got %s", tt.arguments, said)
			continue
		}
		want(t, fmt.Sprint("read_array", tt.arguments), said, tt.text)
		var got, wanted any
		if tt.want != "" && (json.Unmarshal([]byte(said), &got) != nil || json.Unmarshal([]byte(tt.want), &wanted) != nil || !reflect.DeepEqual(got, wanted)) {
			t.Errorf("read_array %v:\ngot  %s\nwant %s", tt.arguments, said, tt.want)
		}
	}

	said, r := c.call("snapshot", map[string]any{"name": "mine"})
	if want(t, "snapshot", said, `snapshot "mine": 6 arrays`); r.IsError {
		t.Errorf("snapshot: got the error %s", said)
	}
	for _, name := range []string{"mine", "", "last", prefix + "1-1"} {
		if said, r = c.call("snapshot", map[string]any{"name": name}); !r.IsError {
			t.Errorf("snapshot %q: got %s, want it refused", name, said)
		}
	}
	want(t, "a cell", c.cell("before = 2"), "undo with action=2 takes it back") // action 2
	put("w", []float32{7}, shapes.Make(dtypes.Float32, 1))
	put("new", []float32{8}, shapes.Make(dtypes.Float32, 1))
	names := func() string {
		l, err := s.List("")
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, a := range l {
			all = append(all, a.Name)
		}
		return strings.Join(all, " ")
	}
	said, _ = c.call("undo", nil)
	want(t, "undo", said, "variables and declarations and arrays: as they were before action 2")
	if got, want := names(), "half ids mask none w z"; got != want {
		t.Errorf("after undo: got arrays %s, want %s", got, want)
	}
	want(t, "the variable", c.cell("before"), "1\n") // action 4
	if said, _ = c.call("undo", map[string]any{"action": 1}); names() != "" {
		t.Errorf("before everything: got arrays %s, want none: %s", names(), said)
	}
	for _, back := range []string{"mine", "last"} {
		said, r = c.call("roll_back", map[string]any{"snapshot": back})
		want(t, "roll_back "+back, said, "undo with action=")
		if got, want := names(), "half ids mask none w z"; got != want || r.IsError {
			t.Errorf("roll_back to %s: got arrays %s, want %s: %s", back, got, want, said)
		}
	}
	for _, name := range []string{"", "yours"} {
		if said, r = c.call("roll_back", map[string]any{"snapshot": name}); !r.IsError {
			t.Errorf("roll_back to %q: got %s, want it refused", name, said)
		}
	}
	if said, _ = c.call("list_snapshots", nil); !strings.Contains(said, "mine") || strings.Contains(said, prefix) {
		t.Errorf("list_snapshots: got %s, want mine and none of undo's", said)
	}
	c.Close()
	c.notebook.Shutdown(false)
}
