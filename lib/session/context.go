package session

import "context"

// Context ends when the cell that this program is has ended or is stopped. In a program
// that is no cell it never ends.
func Context() context.Context { return context.Background() }
