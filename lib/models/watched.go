package models

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Watched is what layers return while a graph has it, by their names: conv1, and inside of
// others block/0/attention. Attention has its weights, too: block/0/attention/weights
// [n heads length keys], before dropout.
type Watched struct {
	Patterns []string // of names; * stands for any text
	Names    []string // of all that there are, in the order in which they are built
	Found    []string // those that are wanted, and what they return
	Nodes    []*Node
}

const watchedParam = "/gaiden/watched"

// SetWatched lets the layers that are built in a graph from now on be watched; nil: none.
func SetWatched(g *Graph, w *Watched) { model.SetGraphParam(g, watchedParam, w) }

func watchedOf(g *Graph) *Watched {
	x, _ := model.GetGraphParam(g, watchedParam)
	w, _ := x.(*Watched)
	return w
}

// Unmatched is a pattern that no name has; "": there is none.
func (w *Watched) Unmatched() string {
	for _, p := range w.Patterns {
		if !slices.ContainsFunc(w.Names, func(name string) bool { return patternOf([]string{p}, name) != "" }) {
			return p
		}
	}
	return ""
}

// put notes what is made in a scope, by its path. A layer that is called several times has
// several names.
func (w *Watched) put(path string, value func() *Node) {
	if w == nil {
		return
	}
	path = strings.TrimLeft(path, "/")
	name := path
	for again := 2; slices.Contains(w.Names, name); again++ {
		name = fmt.Sprintf("%s.%d", path, again)
	}
	if w.Names = append(w.Names, name); patternOf(w.Patterns, name) != "" {
		w.Found, w.Nodes = append(w.Found, name), append(w.Nodes, value())
	}
}

// watch notes what a layer returns.
func watch(path string, y *Node) { watchedOf(y.Graph()).put(path, func() *Node { return y }) }
