package main

import (
	"os"
	"strings"
)

// aloneNet is the same net in GoMLX alone. A cell's process ends and its weights
// with it: each cell makes them, and builds and compiles the graph, anew.
const (
	aloneNet = must + `var layers = []int{784, 100, 100, 10}

func zeros(dims ...int) *tensors.Tensor { return tensors.FromShape(shapes.Make(dtypes.Float32, dims...)) }

func values() (all []any) {
	for i := range 3 {
		all = append(all, zeros(layers[i], layers[i+1]), zeros(layers[i+1]))
	}
	return append(all, zeros(8, 784))
}

func mlp(in []*graph.Node) *graph.Node {
	x := in[len(in)-1]
	for i := range 3 {
		x = graph.Add(graph.MatMul(x, in[2*i]), graph.InsertAxes(in[2*i+1], 0))
		if i < 2 {
			x = graph.Max(x, graph.ZerosLike(x))
		}
	}
	return x
}

func forward(in []*graph.Node) []*graph.Node { return []*graph.Node{mlp(in)} }

func step(in []*graph.Node) (out []*graph.Node) {
	y := mlp(in)
	loss := graph.ReduceAllMean(graph.Mul(y, y))
	for i, g := range graph.Gradient(loss, in[:6]...) {
		out = append(out, graph.Sub(in[i], graph.MulScalar(g, 0.01)))
	}
	return append(out, loss)
}

var backend = must(gobackend.New(""))`
	aloneRun = "%%\nexec := must(graph.NewExec(backend, NAME))\nmust(exec.Call(values()...))\nfmt.Println(%d)"
)

// gonbAlone is GoNB with GoMLX and its Go backend, which needs neither cgo nor
// plugin.
func gonbAlone(gonb string, env []string) cellPeer {
	imports := "import (\n\t\"fmt\"\n\t\"github.com/gomlx/gomlx/core/graph\"\n\t\"github.com/gomlx/gomlx/core/tensors\"\n\t\"github.com/gomlx/compute/gobackend\"\n\t\"github.com/gomlx/compute/dtypes\"\n\t\"github.com/gomlx/compute/shapes\"\n)\n"
	return cellPeer{subject: "GoNB with GoMLX", argv: []string{gonb, "--kernel", "FILE"}, env: env,
		setup: []string{gonbSetup(), imports + aloneNet},
		cases: map[string]string{"forward": strings.Replace(aloneRun, "NAME", "forward", 1), "step": strings.Replace(aloneRun, "NAME", "step", 1)}}
}

// jaxCells is the same net in IPython with JAX, compiled once, its weights live.
func jaxCells(python string) cellPeer {
	const setup = `import jax, jax.numpy as jnp
dims = [784, 100, 100, 10]
def mlp(p, x):
    for i, (w, b) in enumerate(p):
        x = x @ w + b
        if i < 2: x = jax.nn.relu(x)
    return x
def loss(p, x): return jnp.mean(mlp(p, x) ** 2)
params = [(jnp.zeros((a, b)), jnp.zeros(b)) for a, b in zip(dims, dims[1:])]
x = jnp.zeros((8, 784))
forward = jax.jit(mlp)
@jax.jit
def step(p, x):
    l, g = jax.value_and_grad(loss)(p, x)
    return jax.tree.map(lambda a, b: a - 0.01 * b, p, g), l`
	return cellPeer{subject: "IPython with JAX", argv: []string{python, "-m", "ipykernel_launcher", "-f", "FILE"},
		env: append(os.Environ(), "XLA_PYTHON_CLIENT_PREALLOCATE=false"), setup: []string{setup},
		cases: map[string]string{"print": "print(%d)", "forward": "forward(params, x).block_until_ready(); print(%d)",
			"step": "params, l = step(params, x); l.block_until_ready(); print(%d)"}}
}
