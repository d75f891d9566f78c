package keep

import (
	"fmt"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/parse"
)

// A writer lays out a program's source. Every piece that a cell wrote is
// preceded by a //line directive, so that compiler, type checker and run-time
// tracebacks speak of the cell's own lines and columns.
type writer struct {
	unit    *parse.Unit
	library string // path of the library's module, or empty
	decls   []*parse.Decl
	loads   []loadedVar
	imports []*parse.Import
	tracked tracked                    // variables that the program leaves for later ones
	repeats map[string]map[string]bool // those with initializers that may be repeated, and what these depend on
	atStart []string                   // those of them that are there from the start
	waits   string                     // in what states a timer may wake the program: see gaidenkeep.Watch
	flags   bool                       // parse the command line before main's statements
	shower  string                     // name of the function that shows the last value, or empty

	builtins []cell.Builtin // that the cell uses
	helpers  []cell.Builtin // that the code around its calls uses
	sites    []site         // where the cell may fail with an error
	taken    map[called]bool
	starts   map[int][]int // of the lines of cells
	dropped  []droppedError

	b     strings.Builder
	cells []int
}

// text returns the source, and the cells in the order of their first naming.
func (w *writer) text() (source string, cells []int) {
	w.b.Reset()
	w.cells = nil
	w.b.WriteString("package main\n\n")
	w.writeImports()
	if w.interrupts() {
		w.b.WriteString("var _ = " + cell.InterruptPackage + ".Cell()\n")
	}
	w.writeLoads()
	for _, d := range w.decls {
		w.writeDecl(d)
	}
	for _, b := range slices.Concat(w.builtins, w.helpers) {
		w.b.WriteString(b.Program())
	}
	w.writeMain()
	return w.b.String(), w.cells
}

// source returns the text of a cell that is part of the program.
func (w *writer) source(cell int) string {
	if cell == w.unit.ID {
		return w.unit.Text
	}
	for _, d := range w.decls {
		if d.Cell == cell {
			return d.Source
		}
	}
	for _, im := range w.imports {
		if im.Cell == cell {
			return im.Source
		}
	}
	return ""
}

// line writes the directive for a place in a cell.
func (w *writer) line(cell, line, column int) {
	if !slices.Contains(w.cells, cell) {
		w.cells = append(w.cells, cell)
	}
	fmt.Fprintf(&w.b, "//line %s:%d:%d\n", parse.FileName(cell), line, column)
}

// glue writes the directive for lines that no cell wrote.
func (w *writer) glue() { fmt.Fprintf(&w.b, "//line %s:1:1\n", parse.GlueName) }

func (w *writer) writeImports() {
	for _, im := range w.imports {
		if im.Path == "C" {
			if im.Doc != "" {
				line, _ := parse.Place(im.Source, strings.Index(im.Source, im.Doc))
				// The empty line keeps the directive out of the C source.
				w.line(im.Cell, max(line-1, 1), 1)
				w.b.WriteString("\n" + im.Doc + "\n")
			}
			w.b.WriteString("import \"C\"\n")
			continue
		}
		w.b.WriteString("import (\n")
		if im.Cell != 0 {
			w.line(im.Cell, im.Line, im.Column)
		}
		if im.Name != "" {
			w.b.WriteString(im.Name + " ")
		}
		fmt.Fprintf(&w.b, "%q\n)\n", im.Path)
	}
	w.glue()
}

func (w *writer) writeDecl(d *parse.Decl) {
	ins := w.renamed(d.Cell, d.Text, d.Start)
	for _, at := range d.Exits {
		line, column := parse.Place(d.Source, d.Start+at)
		ins = append(ins, insertion{d.Start + at, 0, w.saveBefore(d.Cell, line, column)})
	}
	text := splice(d.Text, d.Start, ins)
	switch d.Kind {
	case parse.Func:
		if name := d.Names[0]; strings.HasPrefix(name, "init_") {
			at := d.NameOffsets[0]
			text = text[:at] + "init" + strings.Repeat(" ", len(name)-len("init")) + text[at+len(name):]
		}
		fallthrough
	case parse.Method:
		w.line(d.Cell, d.Line, d.Column)
		w.b.WriteString(text + "\n")
	default:
		w.b.WriteString(d.Kind.String() + " (\n")
		w.line(d.Cell, d.Line, d.Column)
		w.b.WriteString(text + "\n)\n")
	}
	w.glue()
}

func (w *writer) writeMain() {
	u := w.unit
	switch {
	case u.Test:
		return
	case u.OwnMain != nil:
		w.line(u.ID, u.OwnMain.Line, u.OwnMain.Column)
		w.b.WriteString(splice(u.OwnMain.Text, u.OwnMain.Start, w.renamed(u.ID, u.OwnMain.Text, u.OwnMain.Start)) + "\n")
		return
	}
	w.b.WriteString("func main() {\ndefer " + cell.StackPackage + ".Main()()\n")
	if w.tracked != nil {
		for _, name := range w.atStart {
			w.b.WriteString(w.trackCall(name) + "\n")
		}
		w.b.WriteString("defer " + cell.KeepPackage + ".Save()\n" + cell.KeepPackage + ".Watch(" + cell.StackPackage + ".Leave, " + w.waits + ")\n")
	}
	if w.interrupts() {
		w.b.WriteString("defer " + cell.InterruptPackage + ".End()\n")
	}
	if w.flags {
		w.b.WriteString("flag.Parse()\n")
	}
	if u.Call != "" {
		w.line(u.ID, max(u.Main, 1), 1)
		w.b.WriteString(u.Call + "()\n")
	}
	if u.Body != "" {
		body := w.body()
		skip := len(body) - len(strings.TrimLeft(body, " \t\n"))
		skip = strings.LastIndexByte(body[:skip], '\n') + 1
		w.line(u.ID, 1+strings.Count(body[:skip], "\n"), 1)
		w.b.WriteString(strings.TrimRight(body[skip:], " \t\n") + "\n")
	}
	w.glue()
	w.b.WriteString("}\n")
}

// interrupts reports whether the program contains the library's package that has the
// cell's context.
func (w *writer) interrupts() bool {
	return slices.ContainsFunc(w.imports, func(im *parse.Import) bool { return im.Name == cell.InterruptPackage })
}

// saveBefore is put before a statement that ends the program.
func (w *writer) saveBefore(id, line, column int) string {
	if w.unit.Test || w.unit.OwnMain != nil {
		return ""
	}
	text := cell.StackPackage + ".Leave(); "
	if w.tracked != nil {
		text = cell.KeepPackage + ".Save(); " + text
	}
	return fmt.Sprintf("%s/*line %s:%d:%d*/", text, parse.FileName(id), line, column)
}

// body returns main's statements with what has to be put between them.
func (w *writer) body() string {
	u := w.unit
	var ins []insertion
	for _, d := range u.Definitions {
		text := ""
		for _, name := range d.Names {
			if call := w.trackCall(name); call != "" {
				text += "; " + call
			} else {
				text += "; _ = " + name // in a notebook x := 1 may stand alone in a cell
			}
		}
		ins = append(ins, insertion{d.End, 0, text + w.lineComment(d.End)})
	}
	for _, at := range u.Exits {
		line, column := parse.Place(u.Text, at)
		ins = append(ins, insertion{at, 0, w.saveBefore(u.ID, line, column)})
	}
	if u.Last != nil && u.Last.Silent {
		ins = append(ins, insertion{u.Last.Start, 0, "_ = "})
	} else if w.shower != "" {
		ins = append(ins, insertion{u.Last.Start, 0, w.shower + "(" + w.lineComment(u.Last.Start)}, insertion{u.Last.End, 0, ")"})
	}
	return splice(u.Body, 0, slices.Concat(ins, w.checkDropped(), w.renamed(u.ID, u.Body, 0)))
}
