package notebook

import (
	"cmp"
	"context"
	"io"
	"strings"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/typo"
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
	gaveUp  *widgetError // why the program that ran last was ended; nil = it was not, or by Stop
	late    error        // what Ended said of the program that ran last
	cost    build.Cost   // of the program that ran last
	spent   string       // what Ended said that it has cost elsewhere
}

// Execute runs a cell.
func (n *Notebook) Execute(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
	x := &execution{n: n, req: req, out: out}
	x.spend(build.Cost{})
	err := x.run(ctx)
	if x.capture != nil {
		err = cmp.Or(err, x.capture.Close())
	}
	n.mu.Lock()
	show, cost := n.showCost && x.cost.Road != "", x.cost
	if cost.Road != "" {
		n.lastCost = cost.String()
		if x.spent != "" {
			n.lastCost += "\nsession: " + x.spent
		}
	}
	said := n.lastCost
	n.mu.Unlock()
	if show {
		out.Stream("stderr", []byte(said+"\n"))
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
func (x *execution) spend(cost build.Cost) {
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
	if err := x.n.libraryGone(); err != nil {
		return err
	}
	if x.n.Welcome != "" {
		x.n.welcomed.Do(func() { x.say([]string{x.n.Welcome}) })
	}
	x.n.building.Lock()
	removed, err := x.n.temp.Again()
	x.n.building.Unlock()
	if removed {
		x.say([]string{"the kernel's temporary directory " + x.n.temp.Path + " was removed, and is made again: the values of variables are gone, and so are modules that this notebook has added"})
	}
	if err != nil {
		return err
	}
	plan, err := x.n.table().Parse(x.req.Code)
	if err != nil {
		return err
	}
	x.n.debugger.Cell(x.req.Code, x.req.Count)
	if plan.Format > 0 {
		return x.format(plan.Format)
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
	return x.goCode(ctx, parse.Source{ID: x.req.Count, Text: plan.Go, Main: plan.Main, Call: plan.Call, Args: plan.Args, Test: plan.Test}, true)
}

func (x *execution) command(ctx context.Context, c magic.Command) error {
	switch c.Kind {
	case magic.Shell:
		return x.shell(ctx, x.n.Directory(), c.Text)
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
	patient, cancel := context.WithTimeout(ctx, goplsPatience)
	defer cancel()
	describe := func(name string) jupyter.Inspection { return x.n.describe(patient, name, len([]rune(name))) }
	found := describe(c.Name)
	if at := strings.LastIndexByte(c.Name, '.'); !found.Found && strings.Count(c.Name, ".") == 2 { // package.Type.Method, as go doc has it
		found = describe("(*" + c.Name[:at] + ")" + c.Name[at:])
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !found.Found {
		if strings.HasPrefix(c.Name, "%") {
			return &magic.UnknownError{Name: c.Name, Line: c.Line, Nearest: typo.Nearest(c.Name, x.n.table().Complete("%"))}
		}
		return &nameError{c.Name, x.n.gopls.Installed()}
	}
	x.Page(found.Data)
	return nil
}

// A nameError reports a question about something that nobody knows.
type nameError struct {
	name  string
	gopls bool // it was asked, too
}

func (e *nameError) Error() string { return e.name + ": nothing of this name is known" }

func (e *nameError) Hint() string {
	if e.gopls {
		return ""
	}
	return "without gopls only the names of cells are known: run go install golang.org/x/tools/gopls@v0.21.1 in a terminal"
}

// Comm takes what the pages that show the notebook send to its widgets.
func (n *Notebook) Comm(_ context.Context, kind string, c jupyter.Comm, out jupyter.Output) error {
	return n.line.Comm(kind, c, out)
}
