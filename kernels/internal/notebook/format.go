package notebook

import (
	"errors"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/magic"
)

// Format returns a cell as gofmt would write it. What is not Go stays as it is: lines
// of commands, and whole cells of magics such as %%bash. A cell that cannot be parsed
// is an error with the line.
func (n *Notebook) Format(code string) (string, error) {
	plan, err := n.table().Parse(code)
	if err != nil {
		return "", err
	}
	if len(plan.Commands) == 1 && plan.Commands[0].Row != nil && plan.Commands[0].Row.Role == magic.Body {
		c := plan.Commands[0]
		if !c.Row.Code {
			return code, nil
		}
		body, err := parse.Format(parse.Source{Text: strings.Repeat("\n", c.Line) + c.Body}, strings.Repeat("\n", c.Line)+c.Body)
		return strings.TrimSuffix(code, c.Body) + body, err
	}
	out, err := parse.Format(parse.Source{Text: plan.Go, Main: plan.Main}, code)
	if err != nil {
		return "", err
	}
	again, err := n.table().Parse(out)
	if err != nil || !slices.EqualFunc(plan.Commands, again.Commands, func(a, b magic.Command) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Text == b.Text }) {
		return "", errors.New("format: the commands of the cell would not be the same: put them on lines of their own above the Go code")
	}
	return out, nil
}
