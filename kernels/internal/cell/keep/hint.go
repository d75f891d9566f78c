package keep

import (
	"context"
	"fmt"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/lib/engine/typo"
)

var longPath = regexp.MustCompile(`[\pL\pN_.~-]+(?:/[\pL\pN_.~-]+)*/([\pL\pN_~-]+\.[\pL_])`)

// alternatives is how many of a constraint's types a message names.
const alternatives = 4

// briefly makes the type checker's words short enough to be read: packages by
// their names, and of a long list of types the first ones.
func briefly(message string) string {
	message = longPath.ReplaceAllString(message, "$1")
	before, list, ok := strings.Cut(message, " missing in ")
	if !ok {
		return message
	}
	types := strings.Split(list, " | ")
	if len(types) <= alternatives {
		return message
	}
	return fmt.Sprintf("%s missing in %s | and %d more)", before, strings.Join(types[:alternatives], " | "), len(types)-alternatives)
}

var undefinedName = regexp.MustCompile(`^undefined: ([\pL_][\pL\pN_]*)$`)

var undefinedMember = regexp.MustCompile(`^([\pL_][\pL\pN_]*)\.([\pL_][\pL\pN_]*) undefined \(type `)

var undefinedExport = regexp.MustCompile(`^undefined: ([\pL_][\pL\pN_]*)\.([\pL_][\pL\pN_]*)$`)

// misused is a variable where a function or a type should be.
var misused = regexp.MustCompile(`^(?:invalid operation: cannot call )?([\pL_][\pL\pN_]*) \((?:package-level )?variable(?: of type .*)?\)(?:: .* is not a function| is not a type)$`)

// exported suggests what was probably meant of a package's names.
func (c *Composer) exported(w *writer, name, member string) string {
	for _, im := range w.imports {
		if im.Name != name && (im.Name != "" || path.Base(im.Path) != name) {
			continue
		}
		p := c.Module.TypesOf(context.Background(), im.Path)
		if p == nil || p.Name() != name && im.Name != name {
			continue
		}
		if cell, ok := c.Memory.definedIn(name); ok {
			return notKept(cell, name)
		}
		all := slices.DeleteFunc(p.Scope().Names(), func(n string) bool { return !token.IsExported(n) })
		if near := typo.Nearest(member, all); near != "" {
			return "did you mean " + name + "." + near + "?"
		}
		if library := c.Module.LibraryPath(); library != "" && strings.HasPrefix(im.Path, library+"/") {
			return name + " has " + some(all)
		}
		if im.Cell == 0 { // nobody requested it
			return name + " is the package " + im.Path + " here: no cell that was run has a variable of this name"
		}
	}
	return ""
}

// notKept says that a cell would have defined a name.
func notKept(cell int, name string) string {
	return "cell " + strconv.Itoa(cell) + " defines " + name + ", but failed or was stopped before that; run it again"
}

// shadows says that what an earlier cell has declared hides the package that was probably
// meant.
func (c *Composer) shadows(w *writer, name, member string) string {
	cell, kind := earlier(w, name)
	if cell == 0 {
		return ""
	}
	ctx := context.Background()
	path, ok := c.Module.Resolve(ctx, name, []string{member})
	for _, im := range w.unit.Imports {
		if im.Name == name || im.Name == "" && c.Module.TypesOf(ctx, im.Path) != nil && c.Module.TypesOf(ctx, im.Path).Name() == name {
			path, ok = im.Path, true
		}
	}
	if !ok || !build.Exports(c.Module.TypesOf(ctx, path), member) {
		return ""
	}
	return fmt.Sprintf("%s is a %s since cell %d; %%del %[1]s brings the package back", name, kind, cell)
}

// hides says that what an earlier cell has declared hides a word of Go, such as len or string.
func hides(w *writer, name string) string {
	if cell, kind := earlier(w, name); cell > 0 && types.Universe.Lookup(name) != nil {
		return fmt.Sprintf("%s is a %s since cell %d; %%del %[1]s brings Go's own back", name, kind, cell)
	}
	return ""
}

// kinds are the kinds of declarations in words.
var kinds = map[parse.Kind]string{parse.Const: "constant", parse.Type: "type", parse.Var: "variable", parse.Func: "function"}

// earlier is the cell before this one that has declared a name, and as what; 0 if none has.
func earlier(w *writer, name string) (cell int, kind string) {
	for _, l := range w.loads {
		if l.ident == name {
			cell, kind = l.cell, kinds[parse.Var]
		}
	}
	for _, d := range w.decls {
		if d.Cell != w.unit.ID && slices.Contains(d.Names, name) {
			cell, kind = d.Cell, kinds[d.Kind]
		}
	}
	return cell, kind
}

// changedSince says that what a declaration of an earlier cell uses has been declared again
// since: what was right is wrong now.
func (w *writer) changedSince(cell, line int) string {
	if cell == w.unit.ID {
		return ""
	}
	for _, d := range w.decls {
		if d.Cell != cell || line < d.Line || line > d.Line+strings.Count(d.Text, "\n") {
			continue
		}
		own, _, method := strings.Cut(d.Names[0], ".")
		name, newest := "", cell
		for _, by := range w.decls {
			if by.Cell > newest && len(by.Names) > 0 && (d.Uses[by.Names[0]] || method && by.Names[0] == own) {
				name, newest = by.Names[0], by.Cell
			}
		}
		switch {
		case name == "":
		case newest < w.unit.ID:
			return fmt.Sprintf("cell %d has changed %s since: change cell %d, too, and run it again", newest, name, cell)
		case method:
			return fmt.Sprintf("this cell changes %s: repeat in it the methods that have to change, or remove them first, by %%del %s", name, own)
		default:
			return fmt.Sprintf("this cell changes %s: repeat %s in it as it has to be, or remove it first, by %%del %[2]s", name, own)
		}
	}
	return ""
}

// nearPackage is the package that was probably meant by a name of which code selects
// members: one that exports the first of them.
func (c *Composer) nearPackage(name string, members []string) string {
	ctx := context.Background()
	near := typo.Nearest(name, c.Module.Names(ctx))
	if near == "" || len(members) == 0 {
		return near
	}
	if path, ok := c.Module.Resolve(ctx, near, members); !ok || !build.Exports(c.Module.TypesOf(ctx, path), members[0]) {
		return ""
	}
	return near
}

// words are names that Go has not, but others have, and what to write instead.
var words = map[string]string{
	"help":   "%help lists the magics, and NAME? explains a name",
	"exit":   "os.Exit(0) ends a cell's program; the kernel ends from the front end's menu",
	"quit":   "os.Exit(0) ends a cell's program; the kernel ends from the front end's menu",
	"ls":     "a command of the shell begins with an exclamation mark: !ls",
	"pwd":    "a command of the shell begins with an exclamation mark: !pwd",
	"cat":    "a command of the shell begins with an exclamation mark: !cat FILE",
	"nvidia": "a command of the shell begins with an exclamation mark: !nvidia-smi",
	"cd":     "%cd DIRECTORY changes the directory",
	"True":   "Go writes true",
	"False":  "Go writes false",
	"None":   "Go writes nil",
	"null":   "Go writes nil",
	"str":    "fmt.Sprint makes text of a value",
	"Out":    "what later cells want needs a name: x := …",
	"_1":     "what later cells want needs a name: x := …",
}

// assigns matches a line that gives a name a value and does not define it.
func assigns(text, name string) bool {
	return regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `\s*=[^=]`).MatchString(text)
}

var (
	// oneMore is a call whose error is taken by nobody, asOne one that stands where one value does.
	oneMore = regexp.MustCompile(`^assignment mismatch: (\d) variables? but (.+?)(?:\([^()]*\))? returns? (\d) values$`)
	asOne   = regexp.MustCompile(`^multiple-value ([\pL_][\pL\pN_.]*)\(.*\) \(value of type \((?:[^,()]*), (?:[\pL_][\pL\pN_]* )?error\)\) in `)
)

// calleeName is a function as a message names it: what it is a method of, if that is short.
func calleeName(function string) string {
	if strings.ContainsAny(function, "([{") {
		return "…" + function[strings.LastIndex(function, ".")+1:]
	}
	return function
}

// notType is a function that stands where a type does, as of a literal.
var notType = regexp.MustCompile(`^([\pL_][\pL\pN_.]*) \(value of type func\(.*\) is not a type$`)

// wanted are values of types that beginners in Go and Gaiden give for others, with what
// makes them.
var wanted = []struct {
	message *regexp.Regexp
	hint    string
}{
	{regexp.MustCompile(`^cannot use .*(constant|of type string).* as models\.Act value`), "an activation is a function, such as models.ReLU"},
	{regexp.MustCompile(`^cannot use .* as \*fit\.Set value`), "a data set is what net.Upload(name, examples) returns; net.Data(name) finds one"},
	{regexp.MustCompile(`^cannot use .*constant.* as (optim\.Optimizer|losses\.Loss|metrics\.Metric) value`), "these are structs, such as optim.Adam{}, losses.MSE{}, metrics.F1{}"},
}

// hint says what to do about an error, where there is more to say than Go does.
func (c *Composer) hint(w *writer, message string) string {
	if m := undefinedMember.FindStringSubmatch(message); m != nil {
		return c.shadows(w, m[1], m[2])
	}
	if m := undefinedExport.FindStringSubmatch(message); m != nil {
		return c.exported(w, m[1], m[2])
	}
	if m := misused.FindStringSubmatch(message); m != nil {
		return hides(w, m[1])
	}
	if strings.Contains(message, "does not satisfy graph.ExecGraphFn") {
		return "a graph function takes a *graph.Graph, or nodes (node.Graph() is their graph), or a graph and a slice of nodes; it returns nodes"
	}
	if strings.Contains(message, "as error value in argument to must:") {
		return "must takes an error, or a value and an error; must2 takes two values and an error"
	}
	if m := oneMore.FindStringSubmatch(message); m != nil && m[1]+m[3] == "12" {
		return "if the second value is an error, write must(" + calleeName(m[2]) + "(…)): it is the first value, or the cell fails with the error"
	} else if m != nil && m[1]+m[3] == "23" {
		return "if the third value is an error, write must2(" + calleeName(m[2]) + "(…)): it is the first two values, or the cell fails with the error"
	}
	if m := asOne.FindStringSubmatch(message); m != nil {
		return "write must(" + m[1] + "(…)): it is the first value, or the cell fails with the error"
	}
	if m := notType.FindStringSubmatch(message); m != nil {
		return m[1] + " is a function: write " + m[1] + "(…)"
	}
	for _, w := range wanted {
		if w.message.MatchString(message) {
			return w.hint
		}
	}
	if message == "cannot use _ as value or type" {
		return "_ is not a name in Go; what later cells use needs one: x := …"
	}
	m := undefinedName.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	name := m[1]
	if len(name) > 200 { // nobody reads it a second time
		return ""
	}
	if slices.ContainsFunc(w.unit.Definitions, func(d parse.Definition) bool { return slices.Contains(d.Names, name) }) {
		return name + " := … is a statement of this cell: declarations (var, func, type) run before all statements and do not see it; write := in place of var, or define " + name + " in an earlier cell"
	}
	var names []string
	for _, d := range w.decls {
		names = append(names, d.Names...)
	}
	names = slices.DeleteFunc(append(names, c.Memory.Names()...), func(n string) bool { return strings.Contains(n, ".") }) // methods
	undefined := "no cell that has run defines " + name
	if len(names) == 0 { // as after a restart
		undefined = "no cell has defined " + name + " since the kernel was started: run the one that does; nets and arrays are still in the session"
	}
	if near := typo.Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	if members := w.unit.Quals[name]; len(members) > 0 || w.qualifies(name) {
		if near := c.nearPackage(name, members); near != "" {
			return "did you mean " + near + "?"
		}
		undefined += ", and no package has this name"
	}
	if assigns(w.unit.Text, name) {
		return name + " := … defines it"
	}
	if word, is := words[name]; is {
		return word
	}
	return undefined
}
