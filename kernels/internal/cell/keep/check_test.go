package keep

import (
	"go/token"
	"go/types"
	"testing"
)

// TestIsArray holds for the values of which types a cell links what shows arrays.
func TestIsArray(t *testing.T) {
	named := func(path, name string) types.Type {
		return types.NewNamed(types.NewTypeName(token.NoPos, types.NewPackage(path, path), name, nil), types.NewStruct(nil, nil), nil)
	}
	tensor, array := named("github.com/gomlx/gomlx/core/tensors", "Tensor"), named("gaiden/lib/session", "Array")
	for _, tt := range []struct {
		of   types.Type
		want bool
	}{
		{tensor, true}, {types.NewPointer(tensor), true}, {types.NewSlice(types.NewPointer(tensor)), true},
		{types.NewPointer(array), true}, {types.NewSlice(types.NewPointer(array)), true},
		{named("other/tensors", "Tensor"), false}, {named("gaiden/lib/session", "Session"), false},
		{types.Typ[types.Int], false}, {types.Universe.Lookup("error").Type(), false}, {types.NewSlice(types.Typ[types.Float32]), false},
	} {
		if got := isArray(tt.of); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.of, got, tt.want)
		}
	}
}
