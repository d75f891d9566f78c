package datasets

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"gaiden/lib/engine/typo"
)

// Options say how to get a data set. The zero value is right for a notebook.
type Options struct {
	// Dir is where files are kept, one directory per data set. Empty means
	// $GAIDEN_DATA, else gaiden/data in the user's cache directory.
	Dir string

	// Mirrors replace the data set's own mirrors, in order: http or https URLs of
	// directories that hold the files. For local files, use Dir instead.
	Mirrors []string

	// Context stops the load when it ends. Nil never does.
	Context context.Context

	// Client makes the requests. Nil means a client that gives up quickly without a
	// network and is patient with a slow one.
	Client *http.Client

	// Progress receives the state of each download: its name, the bytes so far and
	// the total bytes, -1 if unknown. It is called often, from the loading goroutine,
	// and must return quickly.
	Progress func(what string, done, total int64)

	// Offline uses only files on this machine.
	Offline bool

	// Exact makes [MNIST] fail instead of returning a substitute.
	Exact bool
}

func (o Options) context() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}

// Names returns the names that [Load] accepts.
func Names() []string { return []string{"mnist", "fashion-mnist", "cifar10", "synthetic"} }

// Load returns a data set by name, in upper or lower case: those of [Names], and the
// usual other spellings ("fashion", "CIFAR-10"). "synthetic" has the shapes of MNIST.
// The error for other names is a [NameError].
func Load(name string, o Options) (*Images, error) {
	switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name)) {
	case "mnist":
		return MNIST(o)
	case "fashion", "fashionmnist":
		return Fashion(o)
	case "cifar", "cifar10":
		return CIFAR10(o)
	case "synthetic":
		return Synthetic(1, 60_000, 28, 28, 1)
	}
	return nil, &NameError{Name: name, Near: typo.Nearest(strings.ToLower(name), Names())}
}

// A NameError reports a data set that does not exist.
type NameError struct {
	Name string
	Near string // the most similar name; empty if none is similar
}

func (e *NameError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("datasets: no data set %q; did you mean %q?", e.Name, e.Near)
	}
	return fmt.Sprintf("datasets: no data set %q; there are %s", e.Name, strings.Join(Names(), ", "))
}
