package notebook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/files"
	"gaiden/lib/engine/typo"
)

// Magics returns the magics that every notebook has: GoNB's, and a few more.
func Magics(n *Notebook) magic.Table {
	return slices.Concat(n.programRows(), n.memoryRows(), n.moduleRows(), n.systemRows(), n.cellRows(), n.pageRows(), n.helpRows())
}

// programRows shape the cell's program.
func (n *Notebook) programRows() magic.Table {
	return magic.Table{
		{Name: "%%", Aliases: []string{"%main"}, Args: "[arguments]", Role: magic.Main,
			Help: "makes the rest of the cell the body of func main; the arguments go to the program",
			More: "Statements also run without %%. Declarations below %% are local to main, and later\ncells do not see them."},
		{Name: "%exec", Args: "function [arguments]", Role: magic.Exec, Help: "runs a program that calls the function; the arguments go to the program"},
		{Name: "%args", Args: "arguments", Role: magic.Arguments, Help: "sets the command-line arguments of the cell's program"},
		{Name: "%test", Args: "[flags]", Role: magic.Test,
			Help: "runs the cell's tests and benchmarks, or those of earlier cells; flags such as -test.v"},
		{Name: "%fmt", Role: magic.Format, Help: "formats the cell as gofmt does, removes this line, and runs nothing",
			More: "Magics, shell commands and comments stay as they are. A cell with a syntax\nerror is not changed, and the error is shown. Ctrl-Z in the cell brings its text back.\nFor all cells of a notebook file: gaiden fmt NOTEBOOK.ipynb in a terminal."},
		{Name: "%capture", Args: "[-a] file", Help: "copies the cell's output to a file; -a appends", Run: capture},
		{Name: "%clear", Args: "[-w]", Help: "clears the cell's output; -w waits until there is new output", Run: clearOutput},
		{Name: "%with_inputs", Help: "not needed: a command that waits for input shows an input field", Run: notNeeded},
		{Name: "%with_password", Help: "hides the input that you type for the next command", Run: withPassword},
	}
}

// notNeeded says what the help of one of GoNB's magics says: that it is not needed, and
// why.
func notNeeded(_ context.Context, host magic.Host, c magic.Command) error {
	fmt.Fprintf(host.Stderr(), "%s is %s\n", c.Name, c.Row.Help)
	return nil
}

func capture(ctx context.Context, host magic.Host, c magic.Command) error {
	args, more := c.Args, false
	if len(args) > 1 && args[0] == "-a" {
		args, more = args[1:], true
	}
	x, ok := host.(*execution)
	if len(args) != 1 || !ok {
		return magic.Usage(c)
	}
	return x.openCapture(args[0], more)
}

func clearOutput(ctx context.Context, host magic.Host, c magic.Command) error {
	x, ok := host.(*execution)
	if !ok || len(c.Args) > 0 && (c.Args[0] != "-w" || len(c.Args) > 1) {
		return magic.Usage(c)
	}
	x.out.Clear(len(c.Args) == 1)
	return nil
}

func withPassword(ctx context.Context, host magic.Host, c magic.Command) error {
	if x, ok := host.(*execution); ok {
		x.prompt.hide()
	}
	return nil
}

// moduleRows deal with the cells' module.
func (n *Notebook) moduleRows() magic.Table {
	return magic.Table{
		{Name: "%require", Args: "path[@version]", Help: "adds a module from the module proxy to the notebook's go.mod", Run: n.require},
		{Name: "%autoget", Help: "adds missing modules automatically (the default)", Run: n.setAutoget(true)},
		{Name: "%noautoget", Help: "does not add missing modules", Run: n.setAutoget(false)},
		{Name: "%goflags", Args: "[flags]", Help: "sets or shows flags for go build, which then builds every cell; \"\" removes them", Run: n.goflags},
		{Name: "%track", Aliases: []string{"%untrack"}, Args: "[path]", Help: "not needed: replaced modules are checked for changes before every cell", Run: notNeeded},
		{Name: "%goworkfix", Help: "not needed: a go.work file next to go.mod is used", Run: notNeeded},
		{Name: "%cost", Args: "[on|off]", Help: "shows where the time of the previous cell went; on: after every cell", Run: n.costs,
			More: costHelp},
	}
}

const costHelp = `The first line is the kernel's work: compose (parsing, imports, type checking),
compile and link (of the cell's program), start, run, and after (checks when it has
ended). The second line is the cell's use of the session: graph (building
programs), compile (and how many programs were compiled, loaded from disk, or ready
in memory), upload, device (waiting for it), download.`

func (n *Notebook) require(ctx context.Context, host magic.Host, c magic.Command) error {
	if len(c.Args) == 0 {
		return magic.Usage(c)
	}
	for _, path := range c.Args {
		changes, err := n.module.Get(ctx, path)
		if err != nil {
			return err
		}
		for _, line := range changes {
			fmt.Fprintln(host.Stdout(), line)
		}
	}
	return nil
}

func (n *Notebook) setAutoget(on bool) magic.Run {
	return func(context.Context, magic.Host, magic.Command) error {
		n.building.Lock()
		defer n.building.Unlock()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.autoget, n.builder.Network = on, on
		return nil
	}
}

func (n *Notebook) goflags(ctx context.Context, host magic.Host, c magic.Command) error {
	n.building.Lock()
	defer n.building.Unlock()
	if c.Text != "" {
		n.builder.Flags = slices.DeleteFunc(slices.Clone(c.Args), func(s string) bool { return s == "" })
	}
	fmt.Fprintf(host.Stdout(), "%%goflags=%q\n", n.builder.Flags)
	return nil
}

func (n *Notebook) costs(ctx context.Context, host magic.Host, c magic.Command) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch c.Text {
	case "":
		fmt.Fprintln(host.Stdout(), cmp.Or(n.lastCost, "no cell has run Go code yet"))
	case "on", "off":
		n.showCost = c.Text == "on"
	default:
		return magic.Usage(c)
	}
	return nil
}

// systemRows deal with what surrounds the cells.
func (n *Notebook) systemRows() magic.Table {
	return magic.Table{
		{Name: "%env", Args: "[NAME[=value] | NAME value]", Help: "sets an environment variable for cells and commands, or shows it", Run: n.setenv},
		{Name: "%cd", Args: "[directory]", Help: "changes the working directory of cells and commands, or shows it; - is the previous one", Run: n.chdir},
	}
}

func (n *Notebook) setenv(ctx context.Context, host magic.Host, c magic.Command) error {
	name, value, set := strings.Cut(c.Text, "=")
	if len(c.Args) == 2 && strings.ContainsAny(name, " \t") {
		name, value, set = c.Args[0], c.Args[1], true
	} else if len(c.Args) == 1 {
		name, value, set = strings.Cut(c.Args[0], "=")
	}
	if name == "" && c.Text != "" || strings.ContainsAny(name, " \t") {
		return magic.Usage(c)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case set:
		n.env[name] = &value
		n.follow()
		fmt.Fprintf(host.Stdout(), "Set: %s=%q\n", name, value)
	case name == "":
		set := n.settings()
		for _, v := range set {
			fmt.Fprintln(host.Stdout(), v)
		}
		if len(set) == 0 {
			fmt.Fprintln(host.Stdout(), "no variable was set here; !env shows those of the kernel")
		}
	default:
		value, ok := n.getenv(name)
		if !ok {
			return fmt.Errorf("%%env: %s is not set", name)
		}
		fmt.Fprintln(host.Stdout(), value)
	}
	return nil
}

func (n *Notebook) chdir(ctx context.Context, host magic.Host, c magic.Command) error {
	if len(c.Args) > 1 {
		return magic.Usage(c)
	}
	if len(c.Args) == 0 {
		fmt.Fprintf(host.Stdout(), "Current directory: %q\n", n.Directory())
		return nil
	}
	dir := filepath.Clean(n.expand(c.Args[0]))
	if c.Args[0] == "-" {
		n.mu.Lock()
		dir = cmp.Or(n.before, n.Dir)
		n.mu.Unlock()
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%%cd: %s: no such directory", dir)
	}
	if err != nil {
		return fmt.Errorf("%%cd: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%%cd: %s: got a file, want a directory", dir)
	}
	n.move(dir)
	fmt.Fprintf(host.Stdout(), "Changed directory to %q\n", dir)
	return nil
}

// cellRows take a whole cell as text.
func (n *Notebook) cellRows() magic.Table {
	rows := magic.Table{
		{Name: "%%writefile", Aliases: []string{"%%file"}, Args: "[-a] file", Role: magic.Body, Help: "writes the cell to a file; -a appends", Run: n.writefile},
		{Name: "%%script", Args: "command", Role: magic.Body, Help: "pipes the cell to the command's stdin", Run: n.script},
	}
	for _, shell := range []string{"bash", "sh"} {
		rows = append(rows, magic.Row{Name: "%%" + shell, Role: magic.Body, Help: "runs the cell with " + shell,
			Run: func(ctx context.Context, host magic.Host, c magic.Command) error {
				c.Args = append([]string{shell}, c.Args...)
				return n.script(ctx, host, c)
			}})
	}
	return rows
}

func (n *Notebook) writefile(ctx context.Context, host magic.Host, c magic.Command) error {
	args, verb := c.Args, "written"
	if len(args) > 1 && args[0] == "-a" {
		args, verb = args[1:], "appended"
	}
	if len(args) != 1 {
		return magic.Usage(c)
	}
	name := n.expand(args[0])
	var err error
	if verb == "written" {
		err = files.Write(name, []byte(c.Body+"\n"))
	} else {
		err = appendTo(name, c.Body+"\n")
	}
	if err == nil {
		fmt.Fprintf(host.Stderr(), "Cell contents %s to %q.\n", verb, name)
	}
	return err
}

func appendTo(name, text string) error {
	f, err := files.Open(name, true)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

func (n *Notebook) script(ctx context.Context, host magic.Host, c magic.Command) error {
	x, ok := host.(*execution)
	if len(c.Args) == 0 || !ok {
		return magic.Usage(c)
	}
	exit, err := x.program(ctx, n.Directory(), []byte(c.Body+"\n"), c.Args[0], c.Args[1:]...)
	if err == nil && exit.Code != 0 {
		return &exitError{exit}
	}
	return err
}

// pageRows deal with the pages that show the notebook.
func (n *Notebook) pageRows() magic.Table {
	return magic.Table{
		{Name: "%widgets", Aliases: []string{"%widgets_hb"}, Help: "opens the page's channel for gonbui's widgets; using a widget also opens it", Run: n.widgets},
		{Name: "%wasm", Help: "not supported: a magic of GoNB that compiles a cell to WebAssembly", Run: func(context.Context, magic.Host, magic.Command) error {
			return errors.New("%wasm: this kernel does not compile for the browser")
		}},
	}
}

func (n *Notebook) widgets(ctx context.Context, host magic.Host, c magic.Command) error {
	x, ok := host.(*execution)
	if !ok || len(c.Args) > 0 {
		return magic.Usage(c)
	}
	return n.line.Open(ctx, x.out)
}

// helpRows explain.
func (n *Notebook) helpRows() magic.Table {
	return magic.Table{
		{Name: "%help", Aliases: []string{"%lsmagic"}, Args: "[magic]", Help: "lists all magics, or describes one, like %name?", Run: n.help},
		{Name: "%version", Help: "shows the versions of the kernel and of Go", Run: n.versions},
		{Name: "%tb", Help: "shows the full traceback of the last panic", Run: n.tracebacks},
	}
}

func (n *Notebook) help(ctx context.Context, host magic.Host, c magic.Command) error {
	t := n.table()
	if len(c.Args) > 0 {
		return explain(host, t, c)
	}
	rest := "\n!command runs a shell command, !*command runs it in the directory of the cells' module.\nname? describes a magic or a Go name."
	host.Show(map[string]any{
		"text/plain": t.String() + rest,
		"text/html":  t.HTML() + "<p>" + strings.ReplaceAll(escape(rest), "\n", "<br>") + "</p>",
	})
	return nil
}

// explain shows what ? shows of the magics that are named, with or without their
// marks.
func explain(host magic.Host, t magic.Table, c magic.Command) error {
	for _, arg := range c.Args {
		name := strings.TrimLeft(arg, "%")
		found := false
		for _, mark := range []string{"%", "%%"} {
			if row := t.Find(mark + name); row != nil && (mark+name == arg || name == arg) {
				fmt.Fprintln(host.Stdout(), row)
				found = true
			}
		}
		if !found {
			return &magic.UnknownError{Name: "%" + name, Line: c.Line, Nearest: typo.Nearest("%"+name, t.Complete("%"))}
		}
	}
	return nil
}

func (n *Notebook) versions(ctx context.Context, host magic.Host, c magic.Command) error {
	info := n.Info()
	fmt.Fprintf(host.Stdout(), "%s %s, Go %s\n", info.Implementation, info.ImplementationVersion, info.Language.Version)
	return nil
}

func (n *Notebook) tracebacks(ctx context.Context, host magic.Host, c magic.Command) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.traceback == "" {
		fmt.Fprintln(host.Stdout(), "no cell has panicked")
		return nil
	}
	fmt.Fprintln(host.Stdout(), strings.TrimRight(n.traceback, "\n"))
	return nil
}
