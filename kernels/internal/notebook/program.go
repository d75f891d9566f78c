package notebook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/cell/process"
)

// goCode builds and runs Go code. With remember its declarations are there for
// later cells.
func (x *execution) goCode(ctx context.Context, src parse.Source, remember bool) error {
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
func (x *execution) build(ctx context.Context, src parse.Source) (program *keep.Program, binary *build.Binary, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // in place of what a step that was stopped says
		}
	}()
	n := x.n
	if n.Waiting != nil {
		waiting, built := context.WithCancel(ctx)
		said := make(chan struct{})
		go func() {
			defer close(said)
			n.Waiting(waiting, func(note string) { x.say([]string{note}) })
		}()
		defer func() { built(); <-said }()
	}
	n.building.Lock()
	defer n.building.Unlock()
	began := time.Now()
	program, err = n.composer.Compose(ctx, src)
	for tries := 0; err != nil && tries < maxFetches; tries++ {
		fetched, failed := x.fetch(ctx, err)
		if !fetched {
			err = build.NotFetched(err, failed)
			break
		}
		program, err = n.composer.Compose(ctx, src)
	}
	var missing *build.ImportError
	if err != nil && errors.As(err, &missing) { // goimports would drop it, if that is not all that the cell is about
		src.Loose = true
		if loose, e := n.composer.Compose(ctx, src); e == nil {
			program, err = loose, nil
		}
	}
	cost := build.Cost{Compose: time.Since(began), Road: "checked"}
	defer func() { x.spend(cost) }()
	if err != nil || !program.Run {
		return program, nil, err
	}
	n.builder.Debug = n.debugger.Wants(program.Cells)
	binary, built, err := n.builder.Build(ctx, &program.Program)
	for tries := 0; err != nil && tries < maxFetches; tries++ { // what was compiled once, and its module is gone since
		fetched, failed := x.fetch(ctx, err)
		if !fetched {
			err = build.NotFetched(err, failed)
			break
		}
		binary, built, err = n.builder.Build(ctx, &program.Program)
	}
	cost.Compile, cost.Link, cost.Road = built.Compile, built.Link, built.Road
	return program, binary, err
}

// maxFetches is how many modules are fetched for one cell: a module that was not on
// this machine may need others that are not.
const maxFetches = 16

// fetch adds the module that err says is missing, if that is what it says and
// %autoget is on. failed says why it could not.
func (x *execution) fetch(ctx context.Context, err error) (fetched bool, failed error) {
	var missing *build.ImportError
	x.n.mu.Lock()
	allowed := x.n.autoget
	x.n.mu.Unlock()
	if !allowed || !errors.As(err, &missing) || !missing.Needs {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	changes, err := x.n.module.Get(ctx, missing.Path)
	for _, line := range changes {
		x.out.Stream("stderr", []byte("go get: "+line+"\n"))
	}
	return err == nil && len(changes) > 0, err
}

// start runs a program; result is given the value of its last expression.
func (x *execution) start(ctx context.Context, program *keep.Program, binary *build.Binary, result func(map[string][]byte)) (process.Exit, error) {
	n := x.n
	carry, err := n.composer.Carry(program, n.values())
	if errors.Is(err, keep.ErrReplaced) {
		return process.Exit{}, errStale
	}
	if err != nil {
		return process.Exit{}, err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	bridge := x.open(ctx, giveUp)
	defer bridge.close()
	command := x.process(program, binary, carry)
	command.Channels = bridge.channels()
	left := filepath.Join(n.temp.Path, command.Mark+".left")
	if program.Leaves {
		command.Env = append(command.Env, cell.LeaveEnv+"="+left)
	}
	if n.Code != "" {
		code := filepath.Join(n.temp.Path, command.Mark+".code")
		if err := os.WriteFile(code, []byte(x.req.Code), 0o600); err == nil { // else the program does without
			defer os.Remove(code)
			command.Env = append(command.Env, n.Code+"="+code)
		}
	}
	if run := n.debugger.Begin(program.Cells); run != nil {
		defer run.End()
		command.Env = append(command.Env, run.Environ()...)
		command.Started = func(pid int) {
			run.Attach(pid, func(err error) { x.say([]string{err.Error()}) })
		}
		command.Stopping = func(ended <-chan struct{}) {
			run.Abandon()
			carry.Stop(ended)
		}
	}
	exit, err := command.Run(ctx)
	n.adopt(left)
	x.gaveUp = nil
	if exit.Interrupted {
		errors.As(context.Cause(ctx), &x.gaveUp)
	}
	cost := x.cost
	cost.Start, cost.Run = exit.Start, exit.Run
	x.spend(cost)
	if exit.Panic != nil && !exit.Interrupted && carry.Torn() && strings.Contains(exit.Panic.Message, "concurrent map") {
		x.say([]string{"the cell's variables are not kept: its goroutines went on changing them when it had ended"})
		exit = process.Exit{PID: exit.PID, Result: exit.Result, Left: exit.Left}
	}
	stale, notes := carry.Collect(err == nil && !exit.Interrupted && exit.Signal == 0)
	if exit.PID != 0 { // else nothing has run
		x.say(notes)
	}
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
		x.say([]string{"the cell left processes behind; they were killed: " + strings.Join(exit.Left, ", "),
			"    one that must survive its cell needs a session of its own (SysProcAttr: &syscall.SysProcAttr{Setsid: true}) and its output elsewhere"})
	}
	return exit, nil
}

// process is how a program is run.
func (x *execution) process(program *keep.Program, binary *build.Binary, carry *keep.Carry) process.Command {
	n, args := x.n, program.Args
	if program.Test && len(args) == 0 {
		args = program.TestArgs()
	}
	command := process.Command{
		Path:     binary.Path,
		Args:     args,
		Env:      append(x.environ(), carry.Environ()...),
		Dir:      n.Directory(),
		Mark:     n.nextMark(),
		Stdout:   x.stream("stdout"),
		Stderr:   x.stream("stderr"),
		Go:       true,
		Result:   program.Result,
		Temp:     n.temp.Path,
		Linger:   lingering,
		Stopping: carry.Stop,
	}
	if x.req.AllowStdin {
		command.Ask, command.Wants = x.ask, x.prompt.waiting
	}
	return command
}

// afterwards lets the program's owner look after what it left.
func (x *execution) afterwards(ctx context.Context, program *keep.Program, exit process.Exit) {
	if x.n.Ended == nil {
		return
	}
	// A stopped cell's context has ended; what follows has not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aftermath)
	defer cancel()
	began := time.Now()
	ending := Ending{PID: exit.PID, Interrupted: exit.Interrupted, Imports: program.Imports, Spent: func(line string) { x.spent = line }}
	if exit.Panic != nil {
		ending.Panic = exit.Panic.Message
	}
	notes, err := x.n.Ended(ctx, ending)
	cost := x.cost
	cost.After = time.Since(began)
	x.spend(cost)
	x.say(notes)
	x.late = err
}

// environ is the notebook's environment, and the cell's number.
func (x *execution) environ() []string {
	env := x.n.environ()
	if x.n.Number != "" {
		env = append(env, x.n.Number+"="+strconv.Itoa(x.req.Count))
	}
	return env
}

// aftermath is how long Ended may take.
const aftermath = 5 * time.Second

// lingering is how long what a cell leaves behind may continue.
const lingering = 2 * time.Second

// judge turns a program's end into the cell's error, nil if all went well.
func (x *execution) judge(program *keep.Program, binary *build.Binary, exit process.Exit) error {
	err := x.verdict(program, binary, exit)
	var crash *panicError
	switch {
	case x.late == nil:
	case err == nil:
		err = &lateError{x.late}
	case errors.As(err, &crash) && strings.Contains(crash.Message, x.late.Error()):
		crash.cause = x.late
	default:
		x.stream("stderr")([]byte(x.late.Error() + "\n"))
		if hint := hintOf(x.late); hint != "" {
			x.stream("stderr")([]byte("    " + hint + "\n"))
		}
	}
	x.late = nil
	return err
}

func (x *execution) verdict(program *keep.Program, binary *build.Binary, exit process.Exit) error {
	switch {
	case exit.Interrupted && x.gaveUp != nil:
		return x.gaveUp
	case exit.Interrupted:
		return context.Canceled
	case exit.Panic != nil:
		for i, f := range exit.Panic.Frames {
			exit.Panic.Frames[i].Cell = binary.Cell(f.Cell)
			exit.Panic.Frames[i].Column = program.Column(binary.Cell(f.Cell), f.Line, f.Fails)
		}
		x.n.mu.Lock()
		x.n.traceback = exit.Panic.Text
		x.n.mu.Unlock()
		return &panicError{Panic: exit.Panic, program: program}
	case exit.Code != 0:
		return &exitError{exit}
	}
	return nil
}
