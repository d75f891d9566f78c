package notebook

import (
	"context"

	"gaiden/kernels/internal/debugger"
)

// CanDebug implements jupyter.Debugger.
func (n *Notebook) CanDebug() bool { return n.Delve != "" }

// Debug implements jupyter.Debugger.
func (n *Notebook) Debug(_ context.Context, request map[string]any, event func(map[string]any)) map[string]any {
	if err := n.open(); err != nil {
		return map[string]any{"type": "response", "request_seq": request["seq"], "command": request["command"], "success": false, "message": err.Error()}
	}
	return n.debugger.Request(request, event)
}

// inspected are the notebook's variables as the debugger shows them between cells.
func (n *Notebook) inspected() (all []debugger.Variable) {
	for _, v := range n.memory.Values() {
		all = append(all, debugger.Variable{Name: v.Name, Type: v.Type, Value: v.Text})
	}
	return all
}
