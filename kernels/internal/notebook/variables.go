package notebook

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/typo"
	"gaiden/lib/timing/units"
)

// memoryRows deal with what is remembered from cell to cell.
func (n *Notebook) memoryRows() magic.Table {
	return magic.Table{
		{Name: "%list", Aliases: []string{"%ls"}, Help: "lists the declarations of earlier cells", Run: n.list},
		{Name: "%who", Args: "[type …]", Help: "lists the names of variables, optionally only of the given types", Run: n.who},
		{Name: "%whos", Args: "[type …]", Help: "lists variables with their types, sizes and values", Run: n.whos,
			More: "A variable that has a size is kept: later cells see its last value. Other variables\nare initialized again, or defined again, in each cell that uses them. Where that\nwould not give the same value, they cannot be used, and the table says why."},
		{Name: "%remove", Aliases: []string{"%rm", "%del"}, Args: "name …", Help: "removes declarations and their values; write a method as T.M", Run: n.remove},
		{Name: "%reset", Args: "[go.mod]", Help: "removes all declarations and values, and resets go.mod; with go.mod, only resets go.mod", Run: n.reset},
	}
}

// variables are those of the types that %who and %whos name, all if they name none.
// Words that together are the type of one, as func() error are, name that one.
func (n *Notebook) variables(c magic.Command) []keep.Value {
	wanted, all := c.Args, n.memory.Values()
	if whole := strings.Join(c.Args, " "); slices.ContainsFunc(all, func(v keep.Value) bool { return v.Type == whole }) {
		wanted = []string{whole}
	}
	return slices.DeleteFunc(all, func(v keep.Value) bool { return len(c.Args) > 0 && !slices.Contains(wanted, v.Type) })
}

// noVariables says that there are none.
func noVariables(c magic.Command) string {
	if len(c.Args) == 0 {
		return "there are no variables"
	}
	return "there are no variables of type " + strings.Join(c.Args, " or ")
}

func (n *Notebook) who(ctx context.Context, host magic.Host, c magic.Command) error {
	var names []string
	for _, v := range n.variables(c) {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		names = []string{noVariables(c)}
	}
	fmt.Fprintln(host.Stdout(), strings.Join(names, "  "))
	return nil
}

func (n *Notebook) whos(ctx context.Context, host magic.Host, c magic.Command) error {
	values := n.variables(c)
	if len(values) == 0 {
		fmt.Fprintln(host.Stdout(), noVariables(c))
		return nil
	}
	var text, page strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "name\ttype\tcell\tsize\tvalue")
	page.WriteString("<table>\n<tr><th style=\"text-align:left\">name</th><th style=\"text-align:left\">type</th><th>cell</th><th>size</th><th style=\"text-align:left\">value</th></tr>\n")
	for _, v := range values {
		size, kind := "-", cmp.Or(v.Type, "-")
		if v.Bytes > 0 {
			size = units.Bytes(float64(v.Bytes))
		}
		fmt.Fprintf(columns, "%s\t%s\t%d\t%s\t%s\n", v.Name, kind, v.Cell, size, v.Text)
		fmt.Fprintf(&page, "<tr><td style=\"text-align:left\">%s</td><td style=\"text-align:left\"><code>%s</code></td><td>%d</td><td style=\"text-align:right;white-space:nowrap\">%s</td><td style=\"text-align:left\"><code>%s</code></td></tr>\n",
			escape(v.Name), escape(kind), v.Cell, size, escape(v.Text))
	}
	columns.Flush()
	page.WriteString("</table>")
	host.Show(map[string]any{"text/plain": strings.TrimSuffix(text.String(), "\n"), "text/html": page.String()})
	return nil
}

func (n *Notebook) list(ctx context.Context, host magic.Host, c magic.Command) error {
	entries := n.memory.Entries()
	if len(entries) == 0 {
		fmt.Fprintln(host.Stdout(), "nothing is remembered")
		return nil
	}
	var text, page strings.Builder
	page.WriteString("<table>\n")
	for _, e := range entries {
		fmt.Fprintf(&text, "%-7s %-20s cell %-4d %s\n", e.Kind, e.Name, e.Cell, e.Text)
		fmt.Fprintf(&page, "<tr><td>%s</td><td style=\"text-align:left\"><code>%s</code></td><td>cell %d</td><td style=\"text-align:left\"><code>%s</code></td></tr>\n",
			e.Kind, escape(e.Name), e.Cell, escape(e.Text))
	}
	page.WriteString("</table>")
	host.Show(map[string]any{"text/plain": strings.TrimSuffix(text.String(), "\n"), "text/html": page.String()})
	return nil
}

func (n *Notebook) remove(ctx context.Context, host magic.Host, c magic.Command) error {
	if len(c.Args) == 0 {
		return magic.Usage(c)
	}
	var names []string
	for _, e := range n.memory.Entries() {
		names = append(names, e.Name)
	}
	for _, name := range c.Args {
		kind, ok := n.memory.Forget(name)
		if ok {
			fmt.Fprintf(host.Stdout(), "removed %s %s\n", kind, name)
			continue
		}
		text := name + " is not remembered"
		if near := typo.Nearest(name, names); near != "" {
			text += "; did you mean " + near + "?"
		}
		fmt.Fprintln(host.Stderr(), text)
	}
	return nil
}

// values returns the directory of the variables' values.
func (n *Notebook) values() string { return filepath.Join(n.temp.Path, "values") }

func (n *Notebook) reset(ctx context.Context, host magic.Host, c magic.Command) error {
	switch {
	case len(c.Args) == 0, len(c.Args) == 1 && c.Args[0] == "-f": // IPython asks back without it
		n.memory.Reset(n.values())
		fmt.Fprintln(host.Stdout(), "all declarations and values are forgotten")
	case len(c.Args) > 1 || c.Args[0] != "go.mod":
		return magic.Usage(c)
	}
	return n.module.Reseed(ctx)
}
