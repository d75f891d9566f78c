// Package magic reads a notebook cell: it tells Go code from shell commands and
// magics, and knows by a table which magics there are.
//
// A magic is a [Row] of a [Table]: its name, its arguments and one line of help
// as text, what it does as a function. A new one is a new row, nothing else:
//
//	table := magic.Table{
//		{Name: "%main", Role: magic.Main, Args: "[arguments]", Help: "what follows is func main"},
//		{Name: "%hello", Args: "[name]", Help: "says hello", Run: func(ctx context.Context, host magic.Host, c magic.Command) error {
//			fmt.Fprintln(host.Stdout(), "hello", strings.Join(c.Args, " "))
//			return nil
//		}},
//	}
//	plan, err := table.Parse("%hello world\nx := 1\n!ls")
//	if err != nil {
//		return err // *magic.UnknownError: "%hallo: no such magic; did you mean %hello?"
//	}
//	for _, command := range plan.Commands {
//		... // command.Row.Run, or a shell
//	}
//	... // plan.Go is "\nx := 1\n"
//
// The rules are GoNB's. A line that begins with % is a magic, one that begins
// with ! a shell command, !* one that runs in the directory of the cells'
// module; "//gonb:" may stand before either, and a backslash at the end of a
// line joins the next to it. What follows %% or %main is the body of func main. A
// cell whose first line is a cell magic (%%bash) is that magic's text and no Go
// at all. All commands of a cell are run before its Go code, wherever they stand.
//
// Beyond GoNB: Go comes first. A line that begins with ! or % is Go inside raw
// strings, comments, round and square brackets and composite literals, and one
// with ! also where an operand is missing: behind an operator, in the header of
// if, for or switch. Go's own scanner and parser decide. Everywhere else Go has no
// use for such a line, and it is a command. So x := 7 and below it % 3 is a magic
// (and an error): Go ends a statement with its line. And name? and ?name ask for help about a
// magic or a Go name; a magic that does not exist is an error that names the nearest one.
//
// Lines that are not Go are blanked in [Plan.Go], so every line keeps its
// number. Package magic does no input or output, and runs nothing.
package magic
