package pjrt

import (
	"errors"
	"testing"

	"github.com/ebitengine/purego"
)

// TestRegister holds what a plugin is asked, and that it is told where one takes no
// handlers.
func TestRegister(t *testing.T) {
	if err := openLibc(); err != nil {
		t.Fatal(err)
	}
	var mem arena
	defer mem.free()
	api, extension := mem.alloc(64), mem.alloc(ffiTable)
	p := &Plugin{api: api}
	if err := p.Register("mine", "Host", 77); !errors.Is(err, ErrUnimplemented) {
		t.Errorf("without the extension: got %v, want that it is not implemented", err)
	}
	var asked []string
	var handler uintptr
	*at[uintptr](extension), *at[int32](extension + 8) = ffiTable, extensionFFI
	*at[uintptr](extension + ffiRegister) = purego.NewCallback(func(a uintptr) uintptr {
		args := array[uintptr](a, 7)
		if args[0] != 52 {
			t.Errorf("got %d bytes, want 52", args[0])
		}
		asked, handler = append(asked, text(args[1], args[2]), text(args[4], args[5])), args[3]
		return 0
	})
	*at[uintptr](api + 8) = extension
	if err := p.Register("mine", "Host", 77); err != nil || len(asked) != 2 || asked[0] != "mine" || asked[1] != "Host" || handler != 77 {
		t.Errorf("got %q, handler %d, error %v", asked, handler, err)
	}
}
