package report

import "testing"

// Numbers below a plot do not touch each other, however long they are and however narrow it is.
func TestCrowded(t *testing.T) {
	for _, width := range []int{200, 350, 640} {
		for _, last := range []float64{1, 9, 999, 99_999, 2_900_000, 9_900_000, 3e9} {
			c := &canvas{left: 40, right: float64(width) - 14, bottom: 200}
			c.x = axis{low: 0, high: last}
			columns := c.columns()
			if len(columns) < 2 && last < 1e9 || c.crowded(columns) {
				t.Errorf("%d wide, up to %g: got %v", width, last, columns)
			}
		}
	}
}
