// Package typo finds the name that somebody who mistyped a word most likely meant, by edit distance.
package typo

// Nearest returns the name that somebody who typed word most likely meant, or
// "" when none is close: at most one change in three letters.
func Nearest(word string, names []string) string { return Within(len(word)/3, word, names) }

// Within is [Nearest] with so many changes at most, for names of which many are a letter.
func Within(changes int, word string, names []string) string {
	nearest, best := "", changes+1
	for _, n := range names {
		if n == word || len(n)-len(word) > best || len(word)-len(n) > best {
			continue
		}
		d := distance(word, n)
		// Of two that are as near, a letter was left out rather than added.
		if d < best || d == best && nearest != "" && (len(n) > len(nearest) || len(n) == len(nearest) && n < nearest) {
			nearest, best = n, d
		}
	}
	return nearest
}

// distance counts the insertions, deletions, changes and swaps of neighbours
// that make a of b.
func distance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
