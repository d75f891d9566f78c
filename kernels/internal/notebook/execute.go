package notebook

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/magic"
)

// An execution is one cell on its way through the notebook. It is the Host of
// the cell's magics.
type execution struct {
	n       *Notebook
	req     jupyter.ExecuteRequest
	out     jupyter.Output
	payload []map[string]any
	capture io.WriteCloser // %capture
	prompt  prompt
	late    error     // what Ended said of the program that ran last
	cost    cell.Cost // of the program that ran last
}

// Execute runs a cell.
func (n *Notebook) Execute(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
	x := &execution{n: n, req: req, out: out}
	x.spend(cell.Cost{})
	err := x.run(ctx)
	if x.capture != nil {
		if e := x.capture.Close(); err == nil {
			err = e
		}
	}
	n.mu.Lock()
	show, cost := n.showCost, x.cost
	if cost.Road != "" {
		n.lastCost = cost
	}
	n.mu.Unlock()
	if show && cost.Road != "" {
		out.Stream("stderr", []byte(cost.String()+"\n"))
	}
	if cost.Road == "direct" {
		go n.builder.Ahead() // while the user reads and types
	}
	result := jupyter.ExecuteResult{Payload: x.payload}
	if err != nil {
		result.Err = n.failure(err)
		return result
	}
	if len(req.UserExpressions) > 0 {
		result.UserExpressions = x.expressions(ctx)
	}
	return result
}

// spend notes what the cell has cost so far.
func (x *execution) spend(cost cell.Cost) {
	x.cost = cost
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	x.n.cost = cost
}

// run runs the cell's commands, then its Go code.
func (x *execution) run(ctx context.Context) error {
	if err := x.n.open(); err != nil {
		return err
	}
	plan, err := x.n.table().Parse(x.req.Code)
	if err != nil {
		return err
	}
	for _, c := range plan.Commands {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := x.command(ctx, c); err != nil {
			return &commandError{c, err}
		}
	}
	if !plan.HasGo() {
		return nil
	}
	return x.goCode(ctx, cell.Source{ID: x.req.Count, Text: plan.Go, Main: plan.Main, Call: plan.Call, Args: plan.Args, Test: plan.Test}, true)
}

func (x *execution) command(ctx context.Context, c magic.Command) error {
	switch c.Kind {
	case magic.Shell:
		return x.shell(ctx, x.n.directory(), c.Text)
	case magic.ModuleShell:
		if err := x.n.module.Refresh(ctx); err != nil {
			return err
		}
		return x.shell(ctx, x.n.module.Dir, c.Text)
	case magic.Question:
		return x.question(ctx, c)
	}
	if c.Row.Run == nil {
		return nil
	}
	return c.Row.Run(ctx, x, c)
}

// question answers name? and ?name.
func (x *execution) question(ctx context.Context, c magic.Command) error {
	if c.Row != nil {
		x.Page(map[string]any{"text/plain": c.Row.String()})
		return nil
	}
	found := x.n.Inspect(ctx, c.Name, len([]rune(c.Name)), 1)
	if !found.Found {
		if strings.HasPrefix(c.Name, "%") {
			return &magic.UnknownError{Name: c.Name, Line: c.Line, Nearest: magic.Nearest(c.Name, x.n.table().Complete("%"))}
		}
		return &nameError{c.Name}
	}
	x.Page(found.Data)
	return nil
}

// A nameError reports a question about something that nobody knows.
type nameError struct{ name string }

func (e *nameError) Error() string { return e.name + ": nothing of this name is known" }

// goCode builds and runs Go code. With remember its declarations are there for
// later cells.
func (x *execution) goCode(ctx context.Context, src cell.Source, remember bool) error {
	src.Keep = remember
	for {
		program, binary, err := x.build(ctx, src)
		if err != nil {
			return err
		}
		x.say(program.Notes)
		if remember {
			x.n.composer.Remember(program)
		}
		if !program.Run {
			return nil
		}
		exit, err := x.start(ctx, program, binary, func(data map[string][]byte) {
			x.out.Result(bundle(data))
		})
		if errors.Is(err, errStale) {
			continue // a value is forgotten each time, so this ends
		}
		if err != nil {
			return err
		}
		return x.judge(program, binary, exit)
	}
}

// say shows notes about the cell.
func (x *execution) say(notes []string) {
	for _, note := range notes {
		x.stream("stderr")([]byte(note + "\n"))
	}
}

// errStale says that the program has not run, because a value that it wanted
// is not of its type any more: the cell has to be built again.
var errStale = errors.New("a kept value is stale")

// build makes a binary of Go code; it is nil when there is nothing to run.
func (x *execution) build(ctx context.Context, src cell.Source) (*cell.Program, *cell.Binary, error) {
	n := x.n
	n.building.Lock()
	defer n.building.Unlock()
	began := time.Now()
	program, err := n.composer.Compose(ctx, src)
	for tries := 0; err != nil && tries < 8 && x.fetch(ctx, err); tries++ {
		program, err = n.composer.Compose(ctx, src)
	}
	cost := cell.Cost{Compose: time.Since(began), Road: "checked"}
	defer func() { x.spend(cost) }()
	if err != nil || !program.Run {
		return program, nil, err
	}
	binary, built, err := n.builder.Build(ctx, program)
	cost.Compile, cost.Link, cost.Road = built.Compile, built.Link, built.Road
	return program, binary, err
}

// fetch adds the module that err says is missing, if that is what it says and
// %autoget is on.
func (x *execution) fetch(ctx context.Context, err error) bool {
	var missing *cell.ImportError
	x.n.mu.Lock()
	allowed := x.n.autoget
	x.n.mu.Unlock()
	if !allowed || !errors.As(err, &missing) || !missing.Needs {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	changes, err := x.n.module.Get(ctx, missing.Path)
	for _, line := range changes {
		x.out.Stream("stderr", []byte("go get: "+line+"\n"))
	}
	return err == nil && len(changes) > 0
}

// start runs a program; result is given the value of its last expression.
func (x *execution) start(ctx context.Context, program *cell.Program, binary *cell.Binary, result func(map[string][]byte)) (cell.Exit, error) {
	n := x.n
	args := program.Args
	if program.Test && len(args) == 0 {
		args = program.TestArgs()
	}
	bridge := &bridge{x: x}
	carry, err := n.composer.Carry(program, n.values())
	if errors.Is(err, cell.ErrReplaced) {
		return cell.Exit{}, errStale
	}
	if err != nil {
		return cell.Exit{}, err
	}
	command := cell.Command{
		Path:     binary.Path,
		Args:     args,
		Env:      append(n.environ(), carry.Environ()...),
		Dir:      n.directory(),
		Mark:     n.nextMark(),
		Stdout:   x.stream("stdout"),
		Stderr:   x.stream("stderr"),
		Go:       true,
		Result:   program.Result,
		Channels: bridge.channels(),
		Temp:     n.temp.Path,
		Linger:   lingering,
	}
	if x.req.AllowStdin {
		command.Ask = x.ask
	}
	exit, err := command.Run(ctx)
	cost := x.cost
	cost.Start, cost.Run = exit.Start, exit.Run
	x.spend(cost)
	if exit.Panic != nil && carry.Torn() && strings.Contains(exit.Panic.Message, "concurrent map") {
		x.say([]string{"the cell's variables are not kept: its goroutines went on changing them when it had ended"})
		exit = cell.Exit{PID: exit.PID, Result: exit.Result, Left: exit.Left}
	}
	stale, notes := carry.Take(err == nil && !exit.Interrupted && exit.Signal == 0)
	x.say(notes)
	if err != nil {
		return exit, err
	}
	if stale {
		return exit, errStale
	}
	if exit.Result != nil {
		result(exit.Result)
	}
	x.afterwards(ctx, program, exit)
	if len(exit.Left) > 0 && !exit.Interrupted {
		x.out.Stream("stderr", []byte("the cell left processes that held its output; they were killed: "+strings.Join(exit.Left, ", ")+"\n"))
	}
	return exit, nil
}

// afterwards lets the program's owner look after what it left.
func (x *execution) afterwards(ctx context.Context, program *cell.Program, exit cell.Exit) {
	if x.n.Ended == nil {
		return
	}
	// A stopped cell's context has ended; what follows has not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aftermath)
	defer cancel()
	began := time.Now()
	x.n.mu.Lock()
	costs := x.n.showCost
	x.n.mu.Unlock()
	notes, err := x.n.Ended(ctx, Ending{exit.PID, exit.Interrupted, program.Imports, costs})
	cost := x.cost
	cost.After = time.Since(began)
	x.spend(cost)
	x.say(notes)
	x.late = err
}

// aftermath is how long Ended may take.
const aftermath = 5 * time.Second

// lingering is how long what a cell leaves behind may hold its output open.
const lingering = 2 * time.Second

// judge turns a program's end into the cell's error, nil if all went well.
func (x *execution) judge(program *cell.Program, binary *cell.Binary, exit cell.Exit) error {
	err := x.verdict(program, binary, exit)
	switch {
	case x.late == nil:
	case err == nil:
		err = &lateError{x.late}
	default:
		x.stream("stderr")([]byte(x.late.Error() + "\n"))
	}
	x.late = nil
	return err
}

func (x *execution) verdict(program *cell.Program, binary *cell.Binary, exit cell.Exit) error {
	switch {
	case exit.Interrupted:
		return context.Canceled
	case exit.Panic != nil:
		for i, f := range exit.Panic.Frames {
			exit.Panic.Frames[i].Cell = binary.Cell(f.Cell)
		}
		x.n.mu.Lock()
		x.n.traceback = exit.Panic.Text
		x.n.mu.Unlock()
		return &panicError{exit.Panic, program}
	case exit.Code != 0:
		return &exitError{exit}
	}
	return nil
}

// expressions evaluates what the front end asked for together with the cell.
func (x *execution) expressions(ctx context.Context) map[string]any {
	out := map[string]any{}
	for name, text := range x.req.UserExpressions {
		data, err := x.evaluate(ctx, text)
		if err != nil {
			e := x.n.failure(err)
			out[name] = map[string]any{"status": "error", "ename": e.Name, "evalue": e.Value, "traceback": e.Traceback}
			continue
		}
		b := bundle(data)
		out[name] = map[string]any{"status": "ok", "data": b.Data, "metadata": map[string]any{}}
	}
	return out
}

// evaluate returns the value of an expression. It counts as no cell.
func (x *execution) evaluate(ctx context.Context, text string) (data map[string][]byte, err error) {
	for {
		program, binary, err := x.build(ctx, cell.Source{Text: text})
		if err != nil || !program.Run {
			return nil, err
		}
		exit, err := x.start(ctx, program, binary, func(d map[string][]byte) { data = d })
		if errors.Is(err, errStale) {
			continue
		}
		if err == nil {
			err = x.judge(program, binary, exit)
		}
		return data, err
	}
}

// Stdout implements magic.Host.
func (x *execution) Stdout() io.Writer { return streamWriter{x.stream("stdout")} }

// Stderr implements magic.Host.
func (x *execution) Stderr() io.Writer { return streamWriter{x.stream("stderr")} }

// Show implements magic.Host.
func (x *execution) Show(data map[string]any) { x.out.Display(jupyter.MimeBundle{Data: data}) }

// Page implements magic.Host.
func (x *execution) Page(data map[string]any) {
	x.payload = append(x.payload, map[string]any{"source": "page", "data": data, "start": 0})
}

// Next implements magic.Host.
func (x *execution) Next(text string) {
	x.payload = append(x.payload, map[string]any{"source": "set_next_input", "text": text, "replace": false})
}

// Go implements magic.Host.
func (x *execution) Go(ctx context.Context, text string) error {
	return x.goCode(ctx, cell.Source{Text: text}, false)
}

type streamWriter struct{ write func([]byte) }

func (w streamWriter) Write(p []byte) (int, error) {
	w.write(p)
	return len(p), nil
}

// stream returns what passes on the bytes of a stream.
func (x *execution) stream(name string) func([]byte) {
	return func(p []byte) {
		if x.capture != nil {
			x.capture.Write(p) // an error shows when the file is closed
		}
		x.out.Stream(name, p)
	}
}

// openCapture begins to copy the cell's output to a file.
func (x *execution) openCapture(name string, more bool) error {
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if more {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(x.n.expand(name), mode, 0o644)
	if err != nil {
		return err
	}
	if x.capture != nil {
		x.capture.Close()
	}
	x.capture = f
	return nil
}
