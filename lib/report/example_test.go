package report_test

import (
	"fmt"

	"gaiden/lib/report"
)

// A result is a value: String is its text, HTML its form in a notebook, and Show
// takes the one that suits.
func Example() {
	t := report.Table{Title: "the article / here", Head: []string{"", "the article", "here", "times as fast"}}
	article, here := 9e-3, 0.276e-3
	t.Add("a step", "9 ms", "276 µs", fmt.Sprintf("%.3g×", article/here))
	t.Add("steps", 5628, 5628, "")
	fmt.Println(t)
	// Output:
	// the article / here
	//         the article    here  times as fast
	// ──────  ───────────  ──────  ─────────────
	// a step         9 ms  276 µs          32.6×
	// steps         5,628   5,628
}

// In a terminal a plot is its figures and a line of blocks.
func ExamplePlot() {
	fmt.Println(report.Plot{Title: "loss", X: "epoch", Y: "loss", LogY: true,
		Series: []report.Series{{Name: "train", Y: []float64{0.8, 0.4, 0.2, 0.1}}, {Name: "test", Y: []float64{0.9, 0.6, 0.5, 0.5}}}})
	// Output:
	// loss
	//        points  first  last  least  greatest  shape
	// ─────  ──────  ─────  ────  ─────  ────────  ─────
	// train       4    0.8   0.1    0.1       0.8  █▆▃▁
	// test        4    0.9   0.5    0.5       0.9  █▃▁▁
}

func ExampleConfusion() {
	fmt.Println(report.Confusion{Title: "right answers (rows) and the net's", Names: []string{"cat", "dog"},
		Want: []int32{0, 0, 0, 1, 1}, Got: []int32{0, 0, 1, 1, 1}})
	// Output:
	// right answers (rows) and the net's
	//      cat  dog
	// ───  ───  ───
	// cat    2    1
	// dog    0    2
	// most often mixed up: cat, taken for dog 1 time
}
