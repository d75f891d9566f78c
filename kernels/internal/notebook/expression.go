package notebook

import (
	"context"
	"errors"

	"gaiden/kernels/internal/cell/parse"
)

// expressions evaluates what the front end requested together with the cell.
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
		out[name] = map[string]any{"status": "ok", "data": b.Data, "metadata": b.Metadata}
	}
	return out
}

// evaluate returns the value of an expression. It counts as no cell.
func (x *execution) evaluate(ctx context.Context, text string) (data map[string][]byte, err error) {
	for {
		program, binary, err := x.build(ctx, parse.Source{Text: text})
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
