package hosts_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"path/filepath"
	"sync"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
)

// asked counts the frames to a follower that it must answer.
type asked struct {
	mu    sync.Mutex // protects following
	kinds map[wire.Kind]int
	told  int // those that it need not answer
}

// watch reads a connection: the call, and frames where it is not the store's.
func (a *asked) watch() func([]byte) {
	var rest []byte
	var call *hosts.Call
	return func(b []byte) {
		a.mu.Lock()
		defer a.mu.Unlock()
		rest = append(rest, b...)
		if call == nil {
			at := bytes.IndexByte(rest, '\n')
			if at < 0 {
				return
			}
			call = &hosts.Call{}
			_ = json.Unmarshal(rest[:at], call)
			rest = rest[at+1:]
		}
		for !call.Store && len(rest) >= wire.HeaderSize {
			size := wire.HeaderSize + int(binary.LittleEndian.Uint32(rest))
			if len(rest) < size {
				return
			}
			if id := binary.LittleEndian.Uint32(rest[8:]); id == 0 {
				a.told++
			} else {
				a.kinds[wire.Kind(rest[4])]++
			}
			rest = rest[size:]
		}
	}
}

func (a *asked) count() (kinds map[wire.Kind]int, told int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.kinds), a.told
}

// TestNothingAwaited: a training asks a follower when its state has come, and then sends it
// steps that need no answer, however many epochs there are.
func TestNothingAwaited(t *testing.T) {
	if onGPUs() {
		t.Skip("needs XLA's CPU plugin, since sessions of one test do not share GPUs: set GAIDEN_PLUGIN to the one that scripts/run fetches (pjrt_c_api_cpu_plugin.so)")
	}
	socket := devicetest.Start(t)
	dir := filepath.Join(t.TempDir(), "run")
	f := startFollower(t, filepath.Join(dir, "f"))
	r := startRelay(t, filepath.Join(dir, "r"), f.address, 0)
	a := &asked{kinds: map[wire.Kind]int{}}
	r.watch = a.watch
	f.address = r.address
	s := add(t, open(t, socket), socket, "", f)
	n, err := fit.Attach(s, "net", small, fit.Config{Seed: 1, Devices: 2, AllDevices: true, FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := n.Upload("data", fit.Data{X: make([]float32, 64*8), Y: make([]int32, 64)})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(epochs int) map[wire.Kind]int {
		t.Helper()
		before, told := a.count()
		if _, err := n.Fit(data, fit.Train{Epochs: epochs, Batch: 16}); err != nil {
			t.Fatal(err)
		}
		after, now := a.count()
		for k := range after {
			if after[k] -= before[k]; after[k] == 0 {
				delete(after, k)
			}
		}
		if now-told < epochs {
			t.Errorf("%d epochs: the follower was sent %d frames, want one or more for each", epochs, now-told)
		}
		return after
	}
	asks(40) // compiles
	few, many := asks(4), asks(40)
	t.Logf("asked in 4 epochs: %v, in 40: %v", few, many)
	for kind, count := range many {
		if count-few[kind] > 9 { // a longer training may be asked now and then whether it lives
			t.Errorf("a follower was asked %v in a training of 4 epochs, %v in one of 40, want no more for each epoch", few, many)
		}
	}
}
