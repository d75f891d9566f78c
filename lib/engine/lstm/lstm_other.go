//go:build !amd64

package lstm

// Handlers are none for this processor.
func Handlers() []Handler { return nil }
