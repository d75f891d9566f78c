package toolserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/webpage"
	"gaiden/lib/runs"
	"gaiden/lib/timing/units"
)

const undoWords = " To undo: undo with the number of the action, which the result has."

type cellIn struct {
	Code    string  `json:"code" jsonschema:"the cell: Go statements and declarations, magics such as %phases net, or !commands"`
	Timeout float64 `json:"timeout_seconds,omitempty" jsonschema:"stop the cell after so long; default: never"`
}

type trainIn struct {
	Net        string  `json:"net" jsonschema:"a variable or expression of type *fit.Net, such as net"`
	Data       string  `json:"data" jsonschema:"a variable or expression of type *fit.Set, such as train, or the name of a data set in the session, such as mnist/train"`
	Epochs     int     `json:"epochs,omitempty" jsonschema:"default: 1"`
	Batch      int     `json:"batch,omitempty" jsonschema:"examples a step; default: 32"`
	Rate       float64 `json:"learning_rate,omitempty" jsonschema:"default: the optimizer's"`
	Validation string  `json:"validation,omitempty" jsonschema:"a data set, as for data, that is tested after each epoch"`
	Log        string  `json:"log,omitempty" jsonschema:"folder in which the run is logged, such as runs/first, for list_runs; default: it is not"`
	Timeout    float64 `json:"timeout_seconds,omitempty" jsonschema:"stop training after so long, with the weights that it has then; default: never"`
}

type profileIn struct {
	Net   string `json:"net" jsonschema:"the variable of the net, such as net"`
	Data  string `json:"data,omitempty" jsonschema:"name of a data set in the session; default: the net's last"`
	Kind  string `json:"kind,omitempty" jsonschema:"phases (default): times of phases, layers and operations; bottleneck: the slowest part in a sentence; roofline: share of the device's peaks"`
	Batch int    `json:"batch,omitempty" jsonschema:"examples a step"`
}

type describeIn struct {
	Name string `json:"name" jsonschema:"a package (fit, models, …), a name of one (fit.Train, fit.Net.Fit), a name of the notebook, or a magic (%phases)"`
}

func (s *Server) addCells(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{Name: "run_cell", Annotations: changes(), Description: "Runs a cell of Go in the notebook and returns its output, images included. Variables and declarations stay for later cells. Cancelling the call stops the cell." + undoWords},
		func(ctx context.Context, req *mcp.CallToolRequest, in cellIn) (*mcp.CallToolResult, any, error) {
			if strings.TrimSpace(in.Code) == "" {
				return nil, nil, errors.New("run_cell: got an empty code, want a cell")
			}
			r, err := s.run(ctx, req, "run_cell", in.Code, in.Timeout)
			return r, nil, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "train", Annotations: changes(), Description: "Trains a net that cells have declared, and returns its history of losses and metrics. Training continues from the current weights. Cancelling the call stops it and keeps the weights so far." + undoWords},
		func(ctx context.Context, req *mcp.CallToolRequest, in trainIn) (*mcp.CallToolResult, any, error) {
			code, err := trainCell(in)
			if err != nil {
				return nil, nil, err
			}
			r, err := s.run(ctx, req, "train", code, in.Timeout)
			return r, nil, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "profile", Annotations: changes(), Description: "Measures where the time of a net's training step goes. Weights stay as they are." + undoWords},
		func(ctx context.Context, req *mcp.CallToolRequest, in profileIn) (*mcp.CallToolResult, any, error) {
			code, err := profileCell(in)
			if err != nil {
				return nil, nil, err
			}
			r, err := s.run(ctx, req, "profile", code, 0)
			return r, nil, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "list_runs", Annotations: reads(), Description: "Lists trainings that were logged: net, settings, state and results. Changes nothing."},
		func(_ context.Context, _ *mcp.CallToolRequest, in runsIn) (*mcp.CallToolResult, runsOut, error) {
			out, err := s.listRuns(in.Folder)
			return nil, out, err
		})
	addTool(server, "describe", reads(), "Shows the documentation of a package, a name or a magic. Changes nothing.", func(ctx context.Context, in describeIn) (string, error) {
		text, err := s.describe(ctx, in.Name)
		return cut(text, 3*maxText), err
	})
}

type runsIn struct {
	Folder string `json:"folder,omitempty" jsonschema:"runs below this folder; default: runs"`
}

type runsOut struct {
	Folder string     `json:"folder"`
	Runs   []runs.Run `json:"runs"`
	Cut    string     `json:"cut,omitempty"`
}

// maxRuns is how many runs a list has.
const maxRuns = 100

// listRuns lists the newest runs below a folder, without code and layers.
func (s *Server) listRuns(folder string) (out runsOut, err error) {
	if out.Folder = cmp.Or(folder, "runs"); !filepath.IsAbs(out.Folder) {
		out.Folder = filepath.Join(s.Notebook.Directory(), out.Folder)
	}
	out.Runs = []runs.Run{}
	if _, err := os.Stat(out.Folder); errors.Is(err, fs.ErrNotExist) && folder == "" {
		out.Cut = "no training has been logged: train with log=runs/NAME logs one"
		return out, nil
	}
	all, err := runs.List(out.Folder)
	if more := len(all) - maxRuns; more > 0 {
		out.Cut = fmt.Sprintf("%s left out: the newest %d are listed", units.Plural(more, "run"), maxRuns)
		all = all[more:]
	}
	for _, r := range all {
		short := *r
		short.Code, short.Layers = "", nil
		out.Runs = append(out.Runs, short)
	}
	if err != nil && len(all) > 0 { // of those that could not be read
		out.Cut, err = strings.TrimPrefix(out.Cut+"; "+err.Error(), "; "), nil
	}
	return out, err
}

// expression checks that a text is an expression of Go.
func expression(tool, argument, text string) error {
	if _, err := parser.ParseExpr(text); err != nil {
		return fmt.Errorf("%s: %s: got %.200q, want an expression of Go, such as a variable: %v", tool, argument, text, err)
	}
	return nil
}

// dataSet is the expression of a data set, which may be given by the name that it has in the
// session, too: mnist/train, read as Go, would divide, and no data set is a quotient or a string.
func dataSet(net, text string) string {
	e, _ := parser.ParseExpr(text)
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return fmt.Sprintf("must((%s).Data(%q))", net, text)
	case *ast.BasicLit:
		return fmt.Sprintf("must((%s).Data(%s))", net, e.Value)
	}
	return text
}

// trainCell is the cell that trains.
func trainCell(in trainIn) (string, error) {
	err := errors.Join(expression("train", "net", in.Net), expression("train", "data", in.Data))
	in.Data = dataSet(in.Net, in.Data)
	fields := ""
	set := func(given bool, format string, v any) {
		if given {
			fields += fmt.Sprintf(format+", ", v)
		}
	}
	set(in.Epochs != 0, "Epochs: %d", in.Epochs)
	set(in.Batch != 0, "Batch: %d", in.Batch)
	set(in.Rate != 0, "LearningRate: %v", in.Rate)
	set(in.Log != "", "Log: %q", in.Log)
	if in.Validation != "" {
		err = errors.Join(err, expression("train", "validation", in.Validation))
		set(true, "Validation: %s", dataSet(in.Net, in.Validation))
	}
	for _, v := range []struct {
		name string
		bad  bool
		got  any
	}{{"epochs", in.Epochs < 0, in.Epochs}, {"batch", in.Batch < 0, in.Batch}, {"learning_rate", in.Rate < 0, in.Rate}} {
		if v.bad {
			err = errors.Join(err, fmt.Errorf("train: %s: got %v, want a positive number", v.name, v.got))
		}
	}
	return fmt.Sprintf("must((%s).Fit(%s, fit.Train{%s}))", in.Net, in.Data, strings.TrimSuffix(fields, ", ")), err
}

// word is what a magic takes as one argument.
var word = regexp.MustCompile(`^[\pL\pN_./-]+$`)

// profileCell is the magic that measures.
func profileCell(in profileIn) (string, error) {
	kinds := []string{"phases", "bottleneck", "roofline"}
	in.Kind = cmp.Or(in.Kind, kinds[0])
	switch {
	case !slices.Contains(kinds, in.Kind):
		return "", fmt.Errorf("profile: kind: got %q, want one of %s", in.Kind, strings.Join(kinds, ", "))
	case !word.MatchString(in.Net):
		return "", fmt.Errorf("profile: net: got %q, want the name of a variable", in.Net)
	case in.Data != "" && !word.MatchString(in.Data):
		return "", fmt.Errorf("profile: data: got %q, want the name of a data set", in.Data)
	case in.Batch < 0:
		return "", fmt.Errorf("profile: batch: got %d, want a positive number", in.Batch)
	}
	code := "%" + in.Kind
	if in.Batch > 0 {
		code += fmt.Sprintf(" -b %d", in.Batch)
	}
	return strings.TrimSpace(code + " " + in.Net + " " + in.Data), nil
}

// run runs a cell as an action.
func (s *Server) run(ctx context.Context, req *mcp.CallToolRequest, tool, code string, timeout float64) (r *mcp.CallToolResult, err error) {
	if timeout < 0 || timeout > 1e6 {
		return nil, fmt.Errorf("%s: timeout_seconds: got %v, want a positive number, at most 1e6", tool, timeout)
	}
	err = s.exclusive(ctx, func() error {
		a, err := s.history.begin(tool + " " + brief(strings.Join(strings.Fields(code), " "), 40))
		if err != nil {
			return err
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(timeout*float64(time.Second)))
			defer cancel()
		}
		out := newOutput()
		done := make(chan struct{})
		reported := make(chan struct{})
		go func() {
			defer close(reported)
			report(ctx, req, out, done)
		}()
		payload, failed := s.execute(ctx, a.number, code, out)
		close(done)
		<-reported
		for _, p := range payload {
			if data, is := p["data"].(map[string]any); is {
				out.Display(jupyter.MimeBundle{Data: data})
			} else if next, is := p["text"].(string); is { // of %fmt
				out.Display(jupyter.MimeBundle{Data: map[string]any{"text/plain": next}})
			}
		}
		said := ""
		if failed != nil {
			said = webpage.Plain(strings.Join(failed.Traceback, "\n"))
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				said += fmt.Sprintf("\nstopped after timeout_seconds=%v", timeout)
			}
		}
		r = &mcp.CallToolResult{Content: out.content(said, a.note()), IsError: failed != nil}
		return nil
	})
	return r, err
}

// execute runs a cell; a panic of the kernel is the cell's error.
func (s *Server) execute(ctx context.Context, count int, code string, out *output) (payload []map[string]any, failed *jupyter.Error) {
	defer func() {
		if v := recover(); v != nil {
			failed = &jupyter.Error{Name: "KernelPanic", Value: fmt.Sprint(v), Traceback: []string{fmt.Sprint("KernelPanic: ", v), string(debug.Stack())}}
		}
	}()
	r := s.Notebook.Execute(ctx, jupyter.ExecuteRequest{Code: code, Count: count, StopOnError: true}, out)
	return r.Payload, r.Err
}

// pause is how often progress is reported.
const pause = 500 * time.Millisecond

// report sends the last line of the output, until done, to a client that wants
// progress; at first at once.
func report(ctx context.Context, req *mcp.CallToolRequest, out *output, done <-chan struct{}) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-out.news:
		}
		if req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: out.lastLine()}) != nil {
			return
		}
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
	}
}

// named is what may be described.
var named = regexp.MustCompile(`^%{0,2}[\pL\pN_./()*]+$`)

// describe is the documentation of a name: the library's from its source, other
// names as ? in a cell has them.
func (s *Server) describe(ctx context.Context, name string) (string, error) {
	if !named.MatchString(name) {
		return "", fmt.Errorf("describe: got %.80q, want a name such as fit, fit.Train, net or %%phases", name)
	}
	if path, rest, _ := strings.Cut(name, "."); !strings.HasPrefix(name, "%") && !strings.Contains(path, "..") {
		path = strings.TrimPrefix(path, "gaiden/lib/")
		if info, err := os.Stat(filepath.Join(s.Library, "lib", path)); err == nil && info.IsDir() {
			args := []string{"doc", "-all", "gaiden/lib/" + path}
			if rest != "" {
				args = []string{"doc", "gaiden/lib/" + path + "." + rest}
			}
			cmd := exec.CommandContext(ctx, "go", args...)
			cmd.Dir = s.Library
			out, err := cmd.CombinedOutput()
			if err != nil {
				return "", fmt.Errorf("describe: %s: %s", name, strings.TrimSpace(string(out)))
			}
			return string(out), nil
		}
	}
	said := ""
	err := s.exclusive(ctx, func() error {
		out := newOutput()
		payload, failed := s.execute(ctx, 0, name+"?", out)
		if failed != nil {
			return fmt.Errorf("describe: %s", webpage.Plain(strings.Join(failed.Traceback, "\n")))
		}
		for _, p := range payload {
			if data, is := p["data"].(map[string]any); is {
				said += textOf(data)
			}
		}
		return nil
	})
	return said, err
}
