package report

import "math"

// A plot has no room for a million points, and a page no use for them. Of
// a curve that runs from left to right, four points for each column of pixels
// show the same: where it enters, its lowest, its highest, where it leaves.
const enough = 2000

// thin splits points into lines and leaves out those that change nothing that
// can be seen. Dots are thinned by place, lines by column.
func thin(points []point, dots bool, width float64) [][]point {
	if dots {
		if len(points) > enough {
			points = byPlace(points)
		}
		return [][]point{points}
	}
	var runs [][]point
	for from := 0; from < len(points); {
		to := from + 1
		for to < len(points) && !points[to].first {
			to++
		}
		runs = append(runs, points[from:to])
		from = to
	}
	if len(points) <= enough {
		return runs
	}
	kept := runs[:0]
	end := math.Inf(-1) // right edge of what is drawn already
	for _, run := range runs {
		// Many short pieces, from a NaN at every other point, say, crowd
		// into one column as well.
		if len(runs) > enough && run[len(run)-1].x < end+width/enough && run[0].x >= end-width/enough {
			continue
		}
		run = byColumn(run)
		end = run[len(run)-1].x
		kept = append(kept, run)
	}
	return kept
}

// byColumn keeps four points of each half pixel, if the points ascend; else
// those that are a pixel from the one before, and of these not too many.
func byColumn(run []point) []point {
	for i := 1; i < len(run); i++ {
		if run[i].x < run[i-1].x {
			return byDistance(run)
		}
	}
	var kept []point
	for from := 0; from < len(run); {
		column := math.Floor(run[from].x * 2)
		low, high, to := from, from, from
		for to < len(run) && math.Floor(run[to].x*2) == column {
			if run[to].y < run[low].y {
				low = to
			}
			if run[to].y > run[high].y {
				high = to
			}
			to++
		}
		last := -1
		for _, i := range []int{from, min(low, high), max(low, high), to - 1} {
			if i > last {
				kept = append(kept, run[i])
				last = i
			}
		}
		from = to
	}
	return kept
}

func byDistance(run []point) []point {
	kept := []point{run[0]}
	for _, p := range run[1:] {
		if last := kept[len(kept)-1]; math.Hypot(p.x-last.x, p.y-last.y) >= 1 {
			kept = append(kept, p)
		}
	}
	if most := 10 * enough; len(kept) > most {
		for i := range most {
			kept[i] = kept[i*len(kept)/most]
		}
		kept = kept[:most]
	}
	return kept
}

// byPlace keeps one dot for each square of two pixels.
func byPlace(points []point) []point {
	taken := map[[2]int]bool{}
	var kept []point
	for _, p := range points {
		square := [2]int{int(p.x / 2), int(p.y / 2)}
		if !taken[square] {
			taken[square] = true
			kept = append(kept, p)
		}
	}
	return kept
}
