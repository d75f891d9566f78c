package datasets

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Options say how to get a data set. The zero value is right for a notebook.
type Options struct {
	// Dir keeps the files, one folder for each data set. Empty means
	// $GAIDEN_DATA, else gaiden/data in the user's cache directory.
	Dir string

	// Mirrors are tried in order in place of the data set's own: addresses
	// of folders that hold the files. A file:// address is not one; put such
	// files into Dir.
	Mirrors []string

	// Client makes the requests. Nil means one that gives up quickly where
	// there is no network and patiently waits where there is a slow one.
	Client *http.Client

	// Progress hears of each download: what it is, how many bytes are there
	// and how many it will have, -1 when that is not known. It is called
	// often, from the goroutine that loads; it must be quick.
	Progress func(what string, done, total int64)

	// Offline makes it use only what is on this machine.
	Offline bool

	// Exact makes [MNIST] fail where it would return a stand-in.
	Exact bool
}

// Names lists what [Load] knows.
func Names() []string { return []string{"mnist", "fashion-mnist", "cifar10", "synthetic"} }

// Load returns a data set by its name, in any case: those of [Names], and the
// usual other spellings ("fashion", "CIFAR-10"). "synthetic" has MNIST's shapes.
func Load(ctx context.Context, name string, o Options) (*Images, error) {
	switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name)) {
	case "mnist":
		return MNIST(ctx, o)
	case "fashion", "fashionmnist":
		return Fashion(ctx, o)
	case "cifar", "cifar10":
		return CIFAR10(ctx, o)
	case "synthetic":
		return Synthetic(1, 60_000, 28, 28, 1)
	}
	return nil, &NameError{Name: name, Near: nearest(name, Names())}
}

// A NameError reports a data set that does not exist.
type NameError struct {
	Name string
	Near string // what was probably meant; empty when nothing is close
}

func (e *NameError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("datasets: no data set %q; did you mean %q?", e.Name, e.Near)
	}
	return fmt.Sprintf("datasets: no data set %q; there are %s", e.Name, strings.Join(Names(), ", "))
}

// nearest returns the word closest to name, if a typing slip explains the
// difference: two letters, or a third of them.
func nearest(name string, words []string) string {
	best, distance := "", max(2, len([]rune(name))/3)+1
	for _, w := range words {
		if d := edits(strings.ToLower(name), w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two words.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
