package device

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"gaiden/lib/engine/pjrt"
)

// optionalFlags turns flags whose names end in "?" into flags, or leaves them out where
// the plugin does not know them or their value: options that come and go with
// XLA's versions, without which a program is as right.
func (w *Worker) optionalFlags(flags map[string]any) {
	for wish, value := range maps.Clone(flags) {
		name, is := strings.CutSuffix(wish, "?")
		if !is {
			continue
		}
		delete(flags, wish)
		if _, set := flags[name]; !set && w.takes(name, value) {
			flags[name] = value
		}
	}
}

// flags are those that the plugin has been given, and whether it takes them.
type flags struct {
	sync.Mutex
	taken map[string]bool
}

// nothing is the smallest program.
const nothing = `module { func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }`

// takes says whether the plugin takes a flag, by compiling with it.
func (w *Worker) takes(name string, value any) bool {
	key := fmt.Sprint(name, "=", value)
	w.flags.Lock()
	defer w.flags.Unlock()
	if taken, asked := w.flags.taken[key]; asked {
		return taken
	}
	exe, err := w.client.Client.Compile([]byte(nothing), pjrt.CompileOptions{Flags: map[string]any{name: value}})
	if err != nil {
		w.Logf("programs are compiled without %s: %v", key, err)
	} else {
		exe.Close()
	}
	if w.flags.taken == nil {
		w.flags.taken = map[string]bool{}
	}
	w.flags.taken[key] = err == nil
	return err == nil
}
