package lib

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// picture is which package may import which of ours, and why. It is a
// statement of policy: a new edge is a decision. Test files are free.
//
//	package: imported, imported…   reason
const picture = `
lib/sysinfo:                                                      plain data
lib/data: lib/portable/tabular                                    plain data, from files; an encoder's rows are those of exported nets
lib/data/arrow: lib/data                                          another format of files: a table comes out
lib/data/parquet: lib/data                                        another format of files: a table comes out
lib/data/datatest: lib/data                                       files of tests
lib/datasets: lib/data, lib/engine/files, lib/engine/typo, lib/timing/units                                    data is there without a device
lib/elementwise:                                                  functions of single numbers as expressions, for every target
lib/elementwise/gomlx: lib/elementwise                            computes them with GoMLX's operations
lib/gradient:                                                     gradients that GoMLX lacks; a graph and nothing else
lib/activations: lib/elementwise                                  each activation once, as an expression
lib/optim: lib/elementwise, lib/elementwise/gomlx                 each optimizer once, as expressions
lib/models: lib/activations, lib/elementwise/gomlx, lib/gradient                a model is GoMLX and nothing else
lib/timing/stats:                                                 numbers in, numbers out
lib/timing/units:                                                 numbers in, text out
lib/timing: lib/timing/stats, lib/timing/units, lib/sysinfo       a measurement has samples, a unit and a machine
lib/engine/hlo:                                                   text is made without a device
lib/engine/typo:                                                  words in, the word that was meant out
lib/engine/files:                                                 writes files that a user has named
lib/engine/interrupt:                                             Stop in a cell, for every call that waits
lib/engine/sealed: lib/engine/wire                                files of a cache: damage is found before they are used
lib/engine/fieldtest:                                             tries every number of settings, in tests
lib/engine/golden:                                                holds texts to files, in tests
lib/engine/triton: lib/engine/hlo                                 kernels are text inside a program's text
lib/engine/triton/emulate: lib/engine/triton                      runs a kernel's text on the host, for tests
lib/engine/triton/kernels: lib/activations, lib/elementwise, lib/engine/triton                      each is a page that writes one kernel
lib/fused: lib/activations, lib/elementwise, lib/elementwise/gomlx, lib/engine/hlo, lib/engine/triton, lib/engine/triton/kernels, lib/gradient, lib/lower, lib/lower/xla, lib/models  where graphs call kernels, with their plain forms
lib/fused/tiling: lib/optim, lib/models, lib/fused, lib/gradient, lib/engine/hlo, lib/engine/sealed, lib/engine/triton/kernels, lib/engine/wire, lib/lower, lib/lower/xla, lib/session  tries kernels where they will run, and keeps what is best
lib/engine/wire: lib/sysinfo                                      both ends import it, it imports neither
lib/engine/pjrt:                                                  stands on the C API alone
lib/engine/pjrt/nodetest: lib/engine/pjrt                         makes a plugin that has several nodes, in tests
lib/engine/pjrt/xspace:                                           reads a message of the profiler
lib/engine/safetensors: lib/engine/files                   a file format, no device; array by array and with checksums
lib/engine/hosts: lib/engine/pjrt, lib/engine/wire                the devices of several processes as one client's
lib/engine/device: lib/engine/hosts, lib/engine/typo, lib/engine/wire, lib/engine/files, lib/engine/pjrt, lib/engine/safetensors, lib/sysinfo  the server
lib/engine/device/devicetest: lib/engine/device                    starts the server, in tests
lib/session: lib/engine/wire, lib/engine/hlo, lib/engine/interrupt, lib/sysinfo  the client
lib/session/gomlxdefault: lib/session                             GoMLX's name for its default backend means the session
lib/weights:                                                      names in, names out
lib/lower: lib/engine/wire                                        decides the form of layers for a target
lib/lower/plan: lib/engine/hlo, lib/engine/triton/kernels, lib/fused, lib/lower, lib/models  decides how a net is trained
lib/lower/xla: lib/gradient, lib/lower, lib/models                              writes layers as it was decided
lib/losses: lib/gradient                                          a loss is GoMLX
lib/metrics:                                                      a metric is GoMLX
lib/sampling:                                                     the choice of a token is GoMLX
lib/fit/result: lib/timing/units                                  what training returns: values and their text
lib/tensorboard:                                                  values in, event files out
lib/runs: lib/engine/files, lib/fit/result, lib/tensorboard       histories in, folders of files out
lib/fit/step: lib/models, lib/session                            steps of your own, as they are written
lib/fit/statedict: lib/models, lib/weights, lib/fit/result, lib/engine/safetensors  files of weights, with PyTorch's names and layouts or a map's
lib/fit/phases: lib/engine/hlo, lib/session                      runs the programs of a step one by one
lib/portable: lib/portable/tabular                                runs exported nets, which carry its source with them
lib/portable/tabular:                                             rows of values in, numbers out and back; exported nets carry its source
lib/portable/record: lib/engine/hlo, lib/models, lib/portable     writes a net's calls down; hlo infers the shapes
lib/export: lib/engine/files, lib/engine/safetensors, lib/models, lib/portable, lib/portable/record, lib/portable/tabular  writes nets for use without Gaiden
lib/fit: lib/fit/statedict, lib/portable/tabular, lib/runs, lib/sysinfo, lib/export, lib/weights, lib/data, lib/gradient, lib/fit/phases, lib/fit/step, lib/fit/result, lib/timing/units, lib/elementwise, lib/elementwise/gomlx, lib/optim, lib/session, lib/losses, lib/metrics, lib/sampling, lib/lower, lib/lower/plan, lib/lower/xla, lib/engine/files, lib/engine/sealed, lib/models, lib/engine/safetensors, lib/engine/hlo, lib/engine/wire, lib/engine/triton/kernels, lib/fused, lib/fused/tiling  training: nets become programs of the session; on a GPU an epoch's steps are written with fused kernels
lib/hub: lib/data, lib/engine/safetensors, lib/models, lib/weights          reads pretrained models: nets and names of arrays come out
lib/onnx: lib/models                                              reads another format of models: a net comes out
lib/search: lib/engine/interrupt, lib/fit, lib/fit/result, lib/optim, lib/session, lib/timing/units       trains with many settings and parts of a set; on top of fit
lib/profile: lib/fit, lib/fit/phases, lib/session, lib/timing, lib/timing/stats, lib/timing/units, lib/sysinfo, lib/engine/hlo, lib/engine/sealed, lib/engine/wire, lib/engine/pjrt/xspace  measures the programs of a net, and reads what the profiler recorded
kernels/internal/cell:                                            source that programs are made of besides cells
kernels/internal/cell/gaidenkeep:                                 is part of cells' programs: the standard library only
kernels/internal/cell/gaidenstack:                                is part of cells' programs: the standard library only
kernels/internal/cell/parse:                                      text in, declarations and statements out
kernels/internal/cell/process: kernels/internal/cell/parse, lib/engine/wire, lib/sysinfo  runs programs; a panic's frames are lines of cells
kernels/internal/cell/repeat: kernels/internal/cell/parse         judges checked syntax
kernels/internal/linker: lib/engine/sealed, lib/engine/wire       a file of a cache
kernels/internal/cell/build: kernels/internal/cell, kernels/internal/cell/parse, kernels/internal/linker, lib/engine/sealed, lib/engine/wire, lib/timing/units  compiles and links; errors are at lines of cells
kernels/internal/cell/keep: kernels/internal/cell, kernels/internal/cell/build, kernels/internal/cell/gaidenkeep, kernels/internal/cell/parse, kernels/internal/cell/repeat, lib/engine/typo  makes programs: of cells, kept declarations and the packages that build knows
kernels/internal/cell/complete: kernels/internal/cell, kernels/internal/cell/build, kernels/internal/cell/keep, kernels/internal/cell/parse, lib/engine/wire  knows what cells and packages declare
kernels/internal/jupyter/zmtp:                                    a protocol on sockets; those of go-zeromq/zmq4 lose what is queued at Close, and let one slow peer hold up the others
kernels/internal/jupyter: kernels/internal/jupyter/zmtp, lib/engine/wire, lib/sysinfo  the kernel's protocol, whatever its language
kernels/internal/jupyter/frontend: kernels/internal/jupyter       the other end, for benchmarks and tests
kernels/internal/jupyter/jupytertest: kernels/internal/jupyter, kernels/internal/jupyter/frontend  a kernel and its front end in one process, for tests
kernels/internal/debugger: kernels/internal/cell/build, kernels/internal/cell/parse, lib/session  Delve at work on the programs of cells, by two protocols
kernels/internal/magic: lib/engine/typo                           text in, commands out
kernels/internal/raster:                                         SVG in, PNG out
kernels/internal/widget: kernels/internal/jupyter                 GoNB's widgets by messages of comms; its own code for that is internal
kernels/internal/notebook: kernels/internal/cell, kernels/internal/cell/build, kernels/internal/debugger, kernels/internal/cell/gaidenkeep, kernels/internal/cell/complete, kernels/internal/cell/keep, kernels/internal/cell/parse, kernels/internal/cell/process, kernels/internal/jupyter, kernels/internal/magic, kernels/internal/raster, kernels/internal/widget, lib/engine/files, lib/engine/typo, lib/engine/wire, lib/timing/units  Go as Jupyter's language: joins the others
kernels/internal/runner: kernels/internal/jupyter                 runs a notebook file in any interpreter
kernels/internal/toolserver: kernels/internal/jupyter, kernels/internal/notebook, kernels/internal/webpage, lib/engine/wire, lib/runs, lib/session, lib/timing/units, notebooks/pages  a notebook and its arrays for programs
kernels/internal/webpage: lib/timing/units                        text in, HTML out
kernels/internal/serve: lib/portable                              HTTP; the net is one that was exported
kernels/internal/faults:                                          makes system calls fail, in tests
lib/report: lib/profile, lib/runs, lib/engine/files, lib/timing, lib/timing/stats, lib/timing/units, lib/fit, lib/fit/result, lib/search, lib/session, lib/sysinfo  shows what the others return; a clock in a cell must wait for its devices; SVG is written here, as gonum/plot would link 125 packages into a cell
`

// outside is which of the large outside modules a package may import, where
// that matters: a cell that links less is built faster, and only report knows
// GoNB.
var outside = []struct {
	module  string
	allowed []string
	reason  string
}{
	{"github.com/janpfeifer/gonb", []string{"lib/report", "kernels/"}, "only report shows things in a notebook"},
	{"github.com/ebitengine/purego", []string{"lib/engine/pjrt"}, "C is called from one place"},
	{"github.com/go-zeromq/zmq4", []string{"kernels/internal/jupyter"}, "front ends of tests and benchmarks; the kernel has sockets of its own"},
	{"github.com/yuin/goldmark", []string{"kernels/internal/webpage"}, "Markdown is only on the page of a notebook"},
	{"github.com/microcosm-cc/bluemonday", []string{"kernels/internal/webpage"}, "one package decides what a page may hold"},
	{"golang.org/x/image", []string{"kernels/internal/raster", "lib/data"}, "pictures become PNG in the kernel: a cell links only what resizes images"},
	{"github.com/gomlx/go-huggingface", []string{"lib/hub"}, "downloads are hub's; its tokenizers lack byte fallback and what several files of a model want"},
	{"github.com/dlclark/regexp2", []string{"lib/hub"}, "cells without a tokenizer do not link it"},
	{"github.com/rivo/uniseg", []string{"lib/hub"}, "cells without a tokenizer do not link it"},
	{"github.com/gomlx/onnx-gomlx", []string{"lib/onnx"}, "cells without ONNX do not link it"},
	{"github.com/apache/arrow-go/v18", []string{"lib/data/arrow"}, "cells without Arrow do not link it"},
	{"github.com/parquet-go/parquet-go", []string{"lib/data/parquet"}, "cells without Parquet do not link it"},
	{"google.golang.org/protobuf", []string{"lib/tensorboard"}, "its wire format alone: a cell links none of the rest"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"kernels/internal/toolserver", "kernels/gaiden"}, "the protocol is for the program gaiden: a cell links none of it"},
	{"golang.org/x/net", []string{"kernels/internal/webpage"}, "HTML is read where a page is made"},
	{"github.com/gomlx/gomlx", []string{"lib/elementwise/gomlx", "lib/gradient", "lib/optim", "lib/losses", "lib/metrics", "lib/sampling", "lib/models", "lib/lower/xla", "lib/fused", "lib/fit", "lib/search", "lib/datasets", "lib/hub", "lib/onnx", "lib/portable/record", "kernels/bench"}, "graphs are built above the session"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

// packages lists our packages with their imports, tests apart.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "gaiden/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var l []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		l = append(l, p)
	}
	return l
}

// inPicture reports whether the picture has to have the package: programs, which
// nobody imports, may import what they like.
func inPicture(name string) bool {
	return strings.HasPrefix(name, "lib/") || strings.HasPrefix(name, "kernels/internal/")
}

func TestImports(t *testing.T) {
	allowed := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(picture), "\n") {
		name, rest, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("picture: %q has no colon", line)
		}
		edges, reason, _ := strings.Cut(strings.TrimSpace(rest)+"   ", "  ")
		if rest = strings.TrimSpace(rest); !inPicture(rest) {
			edges, reason = "", rest
		}
		if strings.TrimSpace(reason) == "" {
			t.Errorf("picture: %s has no reason", name)
		}
		allowed[name] = nil
		for _, e := range strings.Split(edges, ",") {
			if e = strings.TrimSpace(e); e != "" {
				allowed[name] = append(allowed[name], e)
			}
		}
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, "gaiden/")
		edges, known := allowed[name]
		const server = "lib/engine/device" // gaiden install does not copy it for cells
		for _, e := range p.Imports {
			if strings.HasPrefix(name, "lib/") && !strings.HasPrefix(name, server) && strings.HasPrefix(e, "gaiden/"+server) {
				t.Errorf("%s imports %s, which cells do not have", name, e)
			}
		}
		lib := inPicture(name)
		if lib && !known {
			t.Errorf("%s is not in the picture: add it with its edges and a reason", name)
		}
		for _, imp := range p.Imports {
			ours, is := strings.CutPrefix(imp, "gaiden/")
			if is && lib && !contains(edges, ours) {
				t.Errorf("%s imports %s: the picture has no such edge", name, ours)
			}
			for _, o := range outside {
				if (imp == o.module || strings.HasPrefix(imp, o.module+"/")) && !prefixed(o.allowed, name) {
					t.Errorf("%s imports %s, which only %s may: %s", name, imp, strings.Join(o.allowed, ", "), o.reason)
				}
			}
			if imp == "C" {
				t.Errorf("%s uses cgo: a user's machine has no C compiler", name)
			}
		}
	}
}

// TestPrograms holds that gaiden does not contain the benchmarks, nor what only they
// and tests use.
func TestPrograms(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "gaiden/kernels/gaiden").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, p := range strings.Fields(string(out)) {
		if prefixed([]string{"gaiden/kernels/bench", "gaiden/kernels/internal/jupyter/frontend", "gaiden/kernels/internal/faults", "github.com/go-zeromq"}, p) {
			t.Errorf("gaiden links %s, which is for benchmarks and tests", p)
		}
	}
}

// large is which packages may have more than 3,000 lines, tests apart, and why.
var large = map[string]string{
	"kernels/bench":              "each benchmark is a file of its own",
	"kernels/gaiden":             "the program: each command and magic is a file of its own",
	"lib/engine/device":          "the server of the session: its state is shared by all that it does",
	"lib/engine/hlo":             "reads and writes programs as text",
	"lib/engine/triton/kernels":  "each kernel is a page of its own",
	"lib/fit":                    "training: its parts share the state of a run",
	"kernels/internal/cell/keep": "what a name means from cell to cell is decided in one place: kept, run again, imported or built in",
	"lib/models":                 "each layer is a page of its own",
	"lib/data":                   "each format of files is a file of its own",
	"lib/report":                 "each kind of plot and table is a file of its own",
}

// TestSizes holds that a package can be read in a sitting.
func TestSizes(t *testing.T) {
	const limit = 3000
	for _, p := range packages(t) {
		lines := 0
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
		}
		if name := strings.TrimPrefix(p.ImportPath, "gaiden/"); lines > limit && large[name] == "" {
			t.Errorf("%s has %d lines, want at most %d: split it, or say here why not", name, lines, limit)
		}
	}
}

// processNumbers is who may ask for its own process number, and what for. A name
// made of it is not unique: two containers that share a directory both have a
// process 7, and each took the other's files for its own. Names are random.
var processNumbers = map[string]string{
	"kernels/bench/cputime.go":                "counts the CPU time of its own processes",
	"kernels/gaiden/agent.go":                 "tells in a lock who holds it",
	"kernels/gaiden/ssh.go":                   "tells in a lock who holds it",
	"kernels/internal/cell/complete/gopls.go": "gopls ends when that process does",
	"kernels/internal/cell/process/marks.go":  "does not kill itself",
	"kernels/internal/jupyter/usage.go":       "reads how much memory and time it takes",
	"lib/engine/device/ask.go":                "is shown to the user",
	"lib/engine/device/supervisor.go":         "tells in a lock who holds it",
	"lib/fit/tuner.go":                        "tells in a lock who holds it",
	"lib/session/cost.go":                     "the system's name of an open file, for child processes",
	"lib/session/session.go":                  "tells the session which process speaks",
}

// TestProcessNumbers holds that no file, socket or other name is made of a process
// number.
func TestProcessNumbers(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			file := strings.TrimPrefix(p.ImportPath, "gaiden/") + "/" + name
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "Getpid()") {
				continue
			}
			used[file] = true
			if processNumbers[file] == "" {
				t.Errorf("%s asks for its process number: if a name is made of it, use rand.Text or os.CreateTemp; else say here what for", file)
			}
		}
	}
	for file := range processNumbers {
		if !used[file] {
			t.Errorf("%s does not ask for its process number: it need not be listed", file)
		}
	}
}

// TestComments holds that each package says what it is for.
func TestComments(t *testing.T) {
	for _, p := range packages(t) {
		comments := 0
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil && len(strings.Fields(file.Doc.Text())) >= 10 {
				comments++
			}
		}
		if len(p.GoFiles) > 0 && comments != 1 {
			t.Errorf("%s has %d package comments of ten words or more: want 1", p.ImportPath, comments)
		}
	}
}

// sharedNames are names that a package of ours has in common with another one: what they
// export differs, and a cell's import is found by what the cell uses of it.
var sharedNames = map[string]string{"metrics": "runtime/metrics", "onnx": "github.com/gomlx/gomlx/ml/model/onnx"}

// TestNames holds that a cell's import can be found by the package's name
// alone: unique among ours, GoMLX's public packages and the standard library's.
func TestNames(t *testing.T) {
	out, err := exec.Command("go", "list", "-e", "-f", "{{.ImportPath}} {{.Name}}", "std", "github.com/gomlx/gomlx/core/...", "github.com/gomlx/gomlx/ml/...").Output()
	if err != nil {
		t.Fatalf("go list of std and GoMLX: %v", err)
	}
	taken := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, name, _ := strings.Cut(line, " ")
		if !strings.Contains(path, "internal") && !strings.Contains(path, "vendor/") {
			taken[name] = path
		}
	}
	for _, p := range packages(t) {
		name := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		if !strings.HasPrefix(p.ImportPath, "gaiden/lib/") || strings.Contains(p.ImportPath, "/engine/") {
			continue
		}
		if other := taken[name]; other != "" && sharedNames[name] != other {
			t.Errorf("package name %s is also that of %s", p.ImportPath, other)
		}
		taken[name] = p.ImportPath
	}
}

// TestTop holds that the top level has the agreed names only.
func TestTop(t *testing.T) {
	agreed := map[string]bool{"notebooks": true, "lib": true, "kernels": true, "scripts": true, "docker": true, "go.mod": true, "go.sum": true, "README.md": true, "LICENSE": true}
	out, err := exec.Command("git", "-C", "..", "ls-files").Output()
	if err != nil {
		t.Skipf("git ls-files: %v: the check needs a git checkout; git clone the repository and run it there", err)
	}
	odd := map[string]bool{}
	for _, f := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		top, _, _ := strings.Cut(f, "/")
		if !agreed[top] && !strings.HasPrefix(top, ".") {
			odd[top] = true
		}
	}
	var l []string
	for f := range odd {
		l = append(l, f)
	}
	sort.Strings(l)
	if len(l) > 0 {
		t.Errorf("at the top level but not agreed: %v", l)
	}
}

// usual are methods whose meaning every Go programmer knows, or that the interface describes
// for all that have them.
var usual = map[string]bool{"Error": true, "Unwrap": true, "String": true, "Close": true, "Hint": true, "HTML": true,
	"Title": true, "Rate": true, "Rule": true, "Update": true, "Name": true, "Description": true}

// TestExported holds that what a cell can name has a comment.
func TestExported(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, "gaiden/lib/") || strings.HasPrefix(p.ImportPath, "gaiden/lib/engine/") && p.ImportPath != "gaiden/lib/engine/triton" {
			continue
		}
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && fn.Doc == nil && receiverExported(fn) && !usual[fn.Name.Name] {
					t.Errorf("%s: %s has no comment", fset.Position(fn.Pos()), fn.Name.Name)
				}
			}
		}
	}
}

func receiverExported(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	x := fn.Recv.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	if i, ok := x.(*ast.IndexExpr); ok {
		x = i.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.IsExported()
}

func contains(l []string, s string) bool {
	for _, x := range l {
		if x == s {
			return true
		}
	}
	return false
}

func prefixed(l []string, s string) bool {
	for _, x := range l {
		if s == x || strings.HasPrefix(s, strings.TrimSuffix(x, "/")+"/") {
			return true
		}
	}
	return false
}

// TestDocOfFit holds that the documentation of package fit can be read in one sitting: no
// timings, and no nets of benchmarks.
func TestDocOfFit(t *testing.T) {
	out, err := exec.Command("go", "doc", "-all", "gaiden/lib/fit").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(out), "\n"); got > 300 {
		t.Errorf("go doc -all gaiden/lib/fit: got %d lines, want 300 at most", got)
	}
	if found := regexp.MustCompile(`\d ?(ms|µs)\b|MLP|LeNet|ResNet|SeedCNN|KerasCNN|Peaks|SineLSTM|FCN`).FindAllString(string(out), -1); found != nil {
		t.Errorf("go doc -all gaiden/lib/fit: got %q, want no timings and no nets of benchmarks", found)
	}
}
