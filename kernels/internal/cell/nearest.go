package cell

// Nearest returns the name that somebody who typed word most likely meant, or
// "" when none is close: at most one change in three letters.
func Nearest(word string, names []string) string {
	best, bestDistance := "", len(word)/3+1
	for _, n := range names {
		if n == word {
			continue
		}
		if d := distance(word, n, bestDistance); d < bestDistance || d == bestDistance && best != "" && n < best {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance counts the insertions, deletions, changes and swaps of neighbours
// that make a of b; beyond limit it need not be exact.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
