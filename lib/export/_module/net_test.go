package NAME

import (
	_ "embed"
	"math"
	"reflect"
	"testing"

	"MODULE/internal/portable"
)

// tolerance is how far a number may be from what Gaiden's session computed, as a part of the
// largest one.
const tolerance = TOLERANCE

//go:embed testdata/answers.safetensors
var answers []byte

// TestAnswers holds the net to three known answers, one by one and all together.
func TestAnswers(t *testing.T) {
	net, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	const count = 3
	var want []portable.Array
	for _, a := range append(append([]portable.Array{}, net.Program.Inputs...), net.Program.Output) {
		a.Dims = append([]int{count}, a.Dims...)
		want = append(want, a)
	}
	flats, err := portable.ReadArrays(answers, want)
	if err != nil {
		t.Fatal(err)
	}
	inputs, output := flats[:len(flats)-1], flats[len(flats)-1].([]float32)
	largest := 0.0
	for _, y := range output {
		largest = max(largest, math.Abs(float64(y)))
	}
	check := func(from, to int) {
		part := make([]any, len(inputs))
		for i, all := range inputs {
			v := reflect.ValueOf(all)
			part[i] = v.Slice(from*v.Len()/count, to*v.Len()/count).Interface()
		}
		got, err := net.Predict(part...)
		if err != nil {
			t.Fatal(err)
		}
		want := output[from*len(output)/count : to*len(output)/count]
		if len(got) != len(want) {
			t.Fatalf("examples %d to %d: got %d numbers, want %d", from, to, len(got), len(want))
		}
		for i := range want {
			if !(math.Abs(float64(got[i]-want[i])) <= tolerance*largest) {
				t.Fatalf("examples %d to %d: number %d is %g, want %g", from, to, i, got[i], want[i])
			}
		}
	}
	check(0, 1)
	check(1, 2)
	check(2, 3)
	check(0, 3)
}
