package portable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gomlx/compute/gobackend"
)

// program is y = x·w, of two numbers to one.
const program = `{"Format":1,"Net":"line","Inputs":[{"Name":"x","Type":"Float32","Dims":[2]}],"Output":{"Type":"Float32","Dims":[1]},
"Weights":[{"Name":"w","Type":"Float32","Dims":[2,1]}],"Ops":[{"op":"DotGeneral","in":[0,[1],[],1,[0],[],{}],"out":[2]}],"Result":2}`

// weights is a safetensors file with w = 2, 0.5.
func weights(header string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, 0, 0, 0, 0x40, 0, 0, 0, 0x3f)
}

const header = `{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}`

func open(t *testing.T, program string, weights []byte) (*Net, error) {
	t.Helper()
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{ProgramFile: {Data: []byte(program)}, WeightsFile: {Data: weights}}
	if program == "" {
		delete(files, ProgramFile)
	}
	return Open(files, backend)
}

func TestPredict(t *testing.T) {
	net, err := open(t, program, weights(header))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		x := make([]float32, 2*(n+1))
		for i := range x {
			x[i] = float32(i)
		}
		y, err := net.Predict(x)
		if err != nil || len(y) != n+1 {
			t.Fatalf("%d examples: got %d, %v", n+1, len(y), err)
		}
		for i := range y {
			if want := 2*x[2*i] + 0.5*x[2*i+1]; y[i] != want {
				t.Fatalf("example %d of %d: got %g, want %g", i, n+1, y[i], want)
			}
		}
	}
	if len(net.sizes) > 7 {
		t.Errorf("got %d programs for 200 numbers of examples, want 7 at most", len(net.sizes))
	}
	for _, c := range []struct {
		inputs []any
		want   string
	}{
		{nil, "got 0 inputs, want 1: x []float32 [2]"},
		{[]any{[]float64{1, 2}}, "input x is a []float64, want a []float32"},
		{[]any{nil}, "input x is a <nil>"},
		{[]any{[]float32{}}, "has 0 numbers, want 2 for each example"},
		{[]any{[]float32{1, 2, 3}}, "has 3 numbers, want 2 for each example"},
	} {
		_, err := net.Predict(c.inputs...)
		var wrong *InputError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "line: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.inputs, err, c.want)
		}
	}
}

func TestParseInputs(t *testing.T) {
	net, err := open(t, program, weights(header))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"x": [[1, 2.5], [3e1, -4]]}`: "[1 2.5 30 -4]",
		`{"x":[1,2,3,4]}`:              "[1 2 3 4]",
		`{"x": []}`:                    "[]",
		`[1, 2]`:                       "no JSON object",
		`{"x": [[1, 2]`:                "no JSON object",
		`{"y": [[1, 2]]}`:              "there is no input x: want x []float32 [2]",
		`{"x": [1, 2], "y": 3}`:        `there is no input "y"`,
		`{"x": 3}`:                     `got "3" in 0 lists`,
		`{"x": [[1, 2], 3]}`:           "all of one shape",
		`{"x": [3, [1, 2]]}`:           "several depths",
		`{"x": [[1, 2], [3]]}`:         "a list of 2 and one of 1",
		`{"x": [[1, 2, 3]]}`:           "has the shape [1 3], want [2] after",
		`{"x": [["a", 2]]}`:            `got "a": want numbers`,
		`{"x": [[null, 2]]}`:           "got null: want numbers",
		`{"x": [[1e99, 2]]}`:           "got 1e99: want numbers of float32",
		`{"x": [[[1], [2]]]}`:          "has the shape [1 2 1]",
	} {
		inputs, err := net.ParseInputs([]byte(text))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(inputs[0])
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestDamage holds that damaged files are errors, never wrong numbers or a panic.
func TestDamage(t *testing.T) {
	good := weights(header)
	replaced := func(old, now string) string { return strings.Replace(program, old, now, 1) }
	for name, c := range map[string]struct {
		program string
		weights []byte
		want    string
	}{
		"no program":           {"", good, "want the directory of an exported net"},
		"no JSON":              {"{", good, "program.json"},
		"another format":       {replaced(`"Format":1`, `"Format":9`), good, "format 9: want 1"},
		"an unknown type":      {replaced("Float32", "Float33"), good, `element type "Float33"`},
		"impossible":           {replaced("[2,1]", "[2,-1]"), good, "dimensions [2 -1] are impossible"},
		"no weights":           {program, nil, "0 bytes are too few"},
		"cut in the header":    {program, good[:20], "20 bytes are too few"},
		"cut in the data":      {program, good[:len(good)-3], "cut short"},
		"a header of rubbish":  {program, weights("rubbish"), "the header is not JSON"},
		"no such array":        {program, weights(strings.Replace(header, "w", "v", 1)), "there is no array w [2 1]"},
		"another shape":        {program, weights(strings.Replace(header, "[2,1]", "[1,2]", 1)), "w is F32 [1 2]: want F32 [2 1]"},
		"another type":         {program, weights(strings.Replace(header, "F32", "I32", 1)), "w is I32 [2 1]: want F32"},
		"another sum":          {program, weights(`{"__metadata__":{"crc32c":"00000000"},` + header[1:]), "another checksum"},
		"offsets out of order": {program, weights(strings.Replace(header, "[0,8]", "[8,0]", 1)), "its data is at [8 0]"},
	} {
		if _, err := open(t, c.program, c.weights); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for name, ops := range map[string]string{
		"there is no such operation": `"Name"`,
		"operation 0, Add of layer":  `"Add"`,
	} {
		net, err := open(t, replaced(`"DotGeneral"`, ops), good)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.Predict([]float32{1, 2}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want %q", ops, err, name)
		}
	}
	for _, in := range []string{`0,[1],[],9,[0],[],{}`, `0,[1],[],1,[0],[],{"None":1}`, `"a",[1],[],1,[0],[],{}`, `0,1,[],1,[0],[],{}`, `0,[1.5],[],1,[0],[],{}`} {
		net, err := open(t, replaced(`0,[1],[],1,[0],[],{}`, in), good)
		if err != nil {
			t.Fatal(err)
		}
		if y, err := net.Predict([]float32{1, 2}); err == nil {
			t.Errorf("%s: got %v, want an error", in, y)
		}
	}
}

func TestDims(t *testing.T) {
	for text, d := range map[string]Dim{"n": {1, 0}, "3n": {3, 0}, "2n+1": {2, 1}, "n-4": {1, -4}, "-2n+5": {-2, 5}} {
		got, err := ParseDim(text)
		if err != nil || got != d || d.String() != text {
			t.Errorf("%s: got %v, %v, and %s of %v", text, got, err, d, d)
		}
	}
	for _, bad := range []any{"", "7", "n+x", "m", 1.5, nil, true} {
		if d, err := ParseDim(bad); err == nil {
			t.Errorf("%v: got %v, want an error", bad, d)
		}
	}
	if got := runs(200, 0, 64); !slices.Equal(got, []int{64, 64, 64, 8}) {
		t.Errorf("runs of 200: got %v", got)
	}
	if got := runs(7, 0, 64); !slices.Equal(got, []int{8}) {
		t.Errorf("runs of 7: got %v", got)
	}
}

// TestRows holds what a net with an encoder takes and says.
func TestRows(t *testing.T) {
	with := func(more string) string { return strings.TrimSuffix(program, "}") + more + "}" }
	const encoder = `"Encoder":{"Target":"y","Scale":{"Mean":10,"Deviation":2},"Numbers":[{"Name":"rows","Mean":1,"Deviation":2},{"Name":"b","Deviation":1}]},"Reading":"scaled"`
	net, err := open(t, with(","+encoder), weights(header))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"rows": [{"rows": 3, "b": 4}, {"rows": null, "b": 1, "c": "more"}]}`: "[1 4 0 1]",
		`{"x": [[1, 2]]}`:                        "[1 2]",
		`{"rows": [{"rows": "3", "b": 4}]}`:      `line: row 1: rows is "3": want a number`,
		`{"rows": [{"rows": 3}]}`:                "row 1 has no b: want rows, b",
		`{"rows": []}`:                           "got no rows",
		`{"rows": {"rows": 3}}`:                  `rows are {"rows": 3}: want a list of objects, with rows, b`,
		`[1]`:                                    `no JSON object ([1]): want "rows"`,
		`{"rows": [[1, 2]]}`:                     "want a list of objects, with rows, b",
		`{"row": [{"rows": 3, "b": 1}]}`:         `there is no input x: want "rows", a list of objects with rows, b; or x []float32 [2]`,
		`{"rows": [{"rows": 3}], "x": [[1, 2]]}`: `rows are not alone in the request: want "rows", a list of objects with rows, b; or x`,
	} {
		inputs, err := net.ParseInputs([]byte(text))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(inputs[0])
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if a := net.Answers([]float32{4, -1}); len(a) != 2 || a[0].Value != 18 || a[1].Value != 8 {
		t.Errorf("got %v", a)
	}
	plain, err := open(t, program, weights(header))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Rows(nil); err == nil || !strings.Contains(err.Error(), "was not trained on rows") || plain.Answers([]float32{1}) != nil {
		t.Errorf("got %v", err)
	}
	for want, more := range map[string]string{
		"the encoder makes 1 numbers of input x, the net takes [2]": `,"Encoder":{"Numbers":[{"Name":"a"}]}`,
		"the encoder makes the input":                               `,"Encoder":{"Categories":[{"Name":"a"}]}`,
		`reading "scaled" without an encoder`:                       `,"Reading":"scaled"`,
		`reading "sigmoid" of outputs [1] with 0 classes`:           `,"Encoder":{},"Reading":"sigmoid"`,
	} {
		if _, err := open(t, with(more), weights(header)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", more, err, want)
		}
	}
}
