// Package export writes nets in forms that do without Gaiden: a Go module, or an ONNX file.
// fit.Net.Export is how a cell calls it:
//
//	must(net.Export("cnn"))      // a directory: a Go module
//	must(net.Export("cnn.onnx")) // a file
//
// Both are made of one record of the net's forward pass, a portable.Program, so a net's own
// function is exported like any layer. The module has the program, the weights, package portable,
// which runs the program on GoMLX's pure-Go backend or XLA, and a test of three answers that the
// session computed. What such a form cannot hold is an error that names it, and nothing is written.
//
// A directory must be new, empty, or hold an export of the same net. Then the files of the module
// are replaced; go.mod, go.sum and files of other names stay.
package export

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/files"
	"gaiden/lib/engine/safetensors"
	"gaiden/lib/models"
	"gaiden/lib/portable"
	"gaiden/lib/portable/record"
	"gaiden/lib/portable/tabular"
)

// Variable is one of a net's variables.
type Variable = record.Variable

// Net is what is exported.
type Net struct {
	Name      string // in the session
	Space     string // the session's name space
	Model     models.Net
	Variables []Variable
	Steps     int  // training steps done
	Narrow    bool // the session computes in 16 bits, so its answers are rounded
	// Value is the value of a variable, a flat slice of its type.
	Value    func(v Variable) (any, error)
	Examples []any // of the function Examples, or Rows encoded
	// Encoder is that of the training data, nil where they had none; Reading is how it reads the
	// output, Rows are what the function Rows made of it.
	Encoder *tabular.Encoder
	Reading tabular.Reading
	Rows    []tabular.Row
	// Predict is what the session computes for them.
	Predict func() ([]float32, error)
}

// Write writes an ONNX file where the path ends in .onnx, and else a module to a directory.
func Write(path string, n Net) error {
	if path == "" {
		return errors.New("got no path: want a directory for a Go module, or a file that ends in .onnx")
	}
	onnx := strings.EqualFold(filepath.Ext(path), ".onnx")
	if err := n.fits(path, onnx); err != nil {
		return err
	}
	if n.Model.Parts() != nil {
		return fmt.Errorf("%s is made of parts, %s: want net.Part(name).Export for one of them", n.Name, strings.Join(n.Model.Names(), ", "))
	}
	p, err := record.Net(n.Model, n.Variables)
	if err != nil {
		return err
	}
	p.Net, p.Space, p.Steps = n.Name, n.Space, n.Steps
	p.Encoder, p.Reading = n.Encoder, n.Reading
	weights, err := n.weights(p)
	if err != nil {
		return err
	}
	if onnx {
		b, err := ONNX(p, weights)
		if err != nil {
			return err
		}
		return files.Write(path, b)
	}
	return n.module(path, p, weights)
}

// fits says whether something can be written there, before the work is done.
func (n Net) fits(path string, onnx bool) error {
	if onnx {
		return files.Check(path)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: want a directory that is new, empty, or holds an earlier export of %s", err, n.Name)
	}
	if len(entries) == 0 {
		return nil
	}
	mod, err := os.ReadFile(filepath.Join(path, "go.mod"))
	first, rest, _ := strings.Cut(string(mod), "\n")
	switch of, is := strings.CutPrefix(first, mark); {
	case err != nil || !is:
		return fmt.Errorf("%s holds %s and no export of a net: want a directory that is new or empty", path, entries[0].Name())
	case of != n.Name+".":
		return fmt.Errorf("%s holds the export of another net, %s want a directory for %s alone", path, of, n.Name)
	}
	for _, line := range strings.Split(n.fill("go.mod.txt", nil), "\n") {
		if module, version, is := strings.Cut(strings.TrimPrefix(line, "require "), " v"); is && module == "github.com/gomlx/compute" && !strings.Contains(rest, module+" v"+version) {
			return fmt.Errorf("%s/go.mod wants another version than %s v%s: remove go.mod and go.sum, or set that version", path, module, version)
		}
	}
	return nil
}

const mark = "// Exported by Gaiden from net "

// weights are the arrays of a program, of finite numbers.
func (n Net) weights(p *portable.Program) (flats []any, err error) {
	at := map[string]Variable{}
	for _, v := range n.Variables {
		at[v.Name] = v
	}
	for _, w := range p.Weights {
		flat, err := n.Value(at[w.Name])
		if err != nil {
			return nil, err
		}
		if l, is := flat.([]float32); is {
			for i, x := range l {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					return nil, fmt.Errorf("number %d of %s is %g: want finite weights", i, w.Name, x)
				}
			}
		}
		flats = append(flats, flat)
	}
	return flats, nil
}

// Names of the files end in .txt where Go, or gaiden install, would take them for Gaiden's own.
//
//go:embed _module
var template embed.FS

// module writes the Go module.
func (n Net) module(dir string, p *portable.Program, weights []any) error {
	out := map[string][]byte{}
	names := n.names(p)
	err := fs.WalkDir(template, "_module", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(path, "_module/")
		if strings.HasPrefix(rel, "rows") && !p.TakesRows() || rel == "answers.go" && p.Encoder == nil {
			return nil
		}
		text := []byte(n.fill(rel, names))
		if rel = strings.TrimSuffix(rel, ".txt"); strings.HasSuffix(rel, ".go") {
			if text, err = format.Source(text); err != nil {
				return err
			}
		}
		out[rel] = text
		return nil
	})
	if err != nil {
		return err
	}
	err = fs.WalkDir(portable.Source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := portable.Source.ReadFile(path)
		out["internal/portable/"+path] = bytes.ReplaceAll(text, []byte(`"gaiden/lib/portable`), []byte(`"`+names["MODULE"]+"/internal/portable"))
		return err
	})
	if err != nil {
		return err
	}
	if out[portable.ProgramFile], err = json.Marshal(p); err != nil {
		return err
	}
	answers, answerOf, err := n.answers(p)
	if err != nil {
		return err
	}
	if p.TakesRows() {
		known := map[string]any{"rows": n.Rows}
		if p.Reading != "" {
			known["answers"] = n.Encoder.Answers(n.Reading, answerOf[len(answerOf)-1].([]float32), count)
		}
		if out["testdata/rows.json"], err = json.MarshalIndent(known, "", "\t"); err != nil {
			return err
		}
	}
	return place(dir, func(staged string) error {
		for name, b := range out {
			path := filepath.Join(staged, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(path, b, 0o666); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Join(staged, "testdata"), 0o777); err != nil {
			return err
		}
		if err := writeArrays(filepath.Join(staged, "testdata", "answers.safetensors"), answers, answerOf); err != nil {
			return err
		}
		return writeArrays(filepath.Join(staged, portable.WeightsFile), p.Weights, weights)
	})
}

// optional are the files of nets whose training data had an encoder.
var optional = []string{"answers.go", "rows.go", "rows_test.go", "testdata/rows.json"}

// place makes a directory by write, or replaces files of one. Until everything is written, the
// directory is as it was.
func place(dir string, write func(staged string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	parent := dir
	_, err = os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		parent = filepath.Dir(dir)
	}
	staged, err := os.MkdirTemp(parent, ".export-")
	if err != nil {
		return fmt.Errorf("nothing can be written to %s: %w", parent, errors.Unwrap(err))
	}
	defer os.RemoveAll(staged)
	if err := write(staged); err != nil {
		return err
	}
	if fresh {
		return errors.Join(os.Chmod(staged, 0o755), os.Rename(staged, dir))
	}
	for _, name := range optional { // of an earlier export
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return filepath.WalkDir(staged, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(staged, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o777)
		}
		if _, err := os.Stat(to); err == nil && (rel == "go.mod" || rel == "go.sum") {
			return nil // a user may have added modules
		}
		return os.Rename(path, to)
	})
}

// writeArrays writes a safetensors file.
func writeArrays(path string, arrays []portable.Array, flats []any) error {
	h, at := &safetensors.Header{}, map[string]any{}
	for i, a := range arrays {
		kind, err := dtypes.DTypeString(a.Type)
		if err != nil {
			return err
		}
		name, err := portable.FileType(kind)
		if err != nil {
			return err
		}
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: a.Name, DType: name, Shape: a.Dims})
		at[a.Name] = flats[i]
	}
	w, err := safetensors.Create(path, h)
	if err != nil {
		return err
	}
	for i, t := range w.Tensors {
		if err := w.Write(i, dtypes.UnsafeByteSliceFromAny(at[t.Name])); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Close()
}

// count is how many known answers a module has.
const count = 3

// Examples are random ones for the known answers: an array for each input.
func Examples(m models.Net) (flats []any) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, in := range m.AllInputs() {
		size := in.Batch(count).Size()
		if !in.Integers {
			l := make([]float32, size)
			for i := range l {
				l[i] = float32(random.NormFloat64())
			}
			flats = append(flats, l)
			continue
		}
		l := make([]int32, size)
		for i := range l {
			l[i] = random.Int32N(int32(max(2, in.Vocab)))
		}
		flats = append(flats, l)
	}
	return flats
}

// Rows are random ones for the known answers of a net that takes rows, the last with values that
// are not known.
func Rows(e *tabular.Encoder) (rows []tabular.Row) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range count {
		row := tabular.Row{}
		for k, c := range e.Numbers {
			x := c.Mean + c.Deviation*random.NormFloat64()
			switch {
			case i == count-1 && k == 0:
				row[c.Name] = nil
			case c.Times:
				row[c.Name] = time.Unix(int64(x*86400), 0).UTC().Format(time.DateTime)
			default:
				row[c.Name], _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
			}
		}
		for k, c := range e.Categories {
			if row[c.Name] = nil; len(c.Values) > 0 && (i < count-1 || k > 0) {
				row[c.Name] = c.Values[random.IntN(len(c.Values))]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// answers are the examples and what the session computes for them.
func (n Net) answers(p *portable.Program) (arrays []portable.Array, flats []any, err error) {
	y, err := n.Predict()
	if err != nil {
		return nil, nil, err
	}
	for _, a := range append(slices.Clone(p.Inputs), p.Output) {
		a.Dims = append([]int{count}, a.Dims...)
		arrays = append(arrays, a)
	}
	return arrays, append(slices.Clone(n.Examples), y), nil
}

// names are what stands for the words in capitals of the module's files.
func (n Net) names(p *portable.Program) map[string]string {
	name := identifier(n.Name)
	if token.IsKeyword(name) || name == "main" || name == "internal" {
		name += "net"
	}
	var params, inputs, about, example []string
	taken := map[string]bool{"net": true, "err": true, "nil": true}
	size := 1
	for _, d := range p.Output.Dims {
		size *= d
	}
	for _, a := range p.Inputs {
		id := identifier(a.Name)
		for taken[id] || token.IsKeyword(id) {
			id += "_"
		}
		taken[id] = true
		kind, width := "[]float32", 1
		if a.Type != dtypes.Float32.String() {
			kind = "[]int32"
		}
		for _, d := range a.Dims {
			width *= d
		}
		params, inputs = append(params, id+" "+kind), append(inputs, id)
		about = append(about, fmt.Sprintf("%s is %s: %d numbers for each example, shape %v.", id, kind, width, a.Dims))
		example = append(example, fmt.Sprintf(`"%s": [[…%d numbers…]]`, a.Name, width))
	}
	tolerance := "1e-4"
	if n.Narrow {
		tolerance = "5e-2 // Gaiden's session computed in 16 bits"
	}
	call, note, files, columns := fmt.Sprintf("out, err := %s.Predict(%s)", name, strings.Join(inputs, ", ")), "", "", ""
	if p.Encoder != nil {
		files = "| answers.go | `Answers` reads what `Predict` returns |\n"
	}
	if p.TakesRows() {
		row := map[string]any{}
		for column, value := range n.Rows[0] {
			row[column] = value
		}
		text, _ := json.Marshal(row) // of texts and finite numbers
		call = fmt.Sprintf("answers, err := %s.PredictRows(%[1]s.Row%s)", name, text)
		example = []string{strings.ReplaceAll(fmt.Sprintf(`"rows": [%s]`, text), "'", `\u0027`)}
		note = "A row has a value for each column of the table that the net was trained on, `nil` where it is not known. It is encoded as the training data were. `Predict` takes rows that are encoded already.\n\n"
		files = "| rows.go | `PredictRows` |\n" + files
		columns = strings.Join(columnsText(p.Encoder), "\n//")
	}
	answer := map[tabular.Reading]string{tabular.Softmax: "its Class, and the Probabilities of all classes", tabular.Sigmoid: "its Class, and the Probabilities of both classes",
		tabular.Largest: "its Class", tabular.Scaled: "its Value, in the unit of the training data", "": "its Output"}[p.Reading]
	return map[string]string{"CALL": call, "NOTE": note, "FILES": files, "COLUMNS": columns, "ANSWERTEXT": answer, "PARAMETERS": strings.Join(params, ", "), "INPUTSTEXT": strings.Join(about, "\n// "),
		"INPUTS": strings.Join(inputs, ", "), "OUTPUTDIMS": fmt.Sprint(p.Output.Dims), "OUTPUT": fmt.Sprint(size), "STEPS": fmt.Sprint(n.Steps),
		"TOLERANCE": tolerance, "NAME": name, "MODULE": "example.com/" + name, // without a dot it could be a package of Go's own
		"NET": n.Name, "EXAMPLE": "{" + strings.Join(example, ", ") + "}"}
}

// columnsText says what each column of a row is, a line each.
func columnsText(e *tabular.Encoder) (l []string) {
	for _, c := range e.Numbers {
		kind := "a number"
		if c.Times {
			kind = "a time, such as 2024-12-31"
		}
		l = append(l, fmt.Sprintf("\t%q\t%s", c.Name, kind))
	}
	for _, c := range e.Categories {
		l = append(l, fmt.Sprintf("\t%q\t%s", c.Name, c.List()))
	}
	return l
}

// order has the words, those that have others in them first.
var order = []string{"CALL", "NOTE", "FILES", "COLUMNS", "ANSWERTEXT", "PARAMETERS", "INPUTSTEXT", "INPUTS", "OUTPUTDIMS", "OUTPUT", "STEPS", "TOLERANCE", "MODULE", "EXAMPLE", "NAME", "NET"}

// fill is a file of the module.
func (n Net) fill(file string, names map[string]string) string {
	b, err := template.ReadFile("_module/" + file)
	if err != nil {
		panic(err) // it is part of the program
	}
	var pairs []string
	for _, word := range order {
		if value, is := names[word]; is {
			pairs = append(pairs, word, value)
		}
	}
	return strings.NewReplacer(pairs...).Replace(string(b))
}

// identifier is a name as Go has it: in lower case, of letters and digits.
func identifier(name string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, name)
	if id == "" || id[0] <= '9' {
		id = "net" + id
	}
	return id
}
