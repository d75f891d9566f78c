package session

import (
	"context"

	"gaiden/lib/engine/interrupt"
)

// Context returns the context of the cell that this program runs, which is ctx there: it
// ends when the user presses Stop, and when the cell ends. Calls that have no context of
// their own end with it. In a program that is no cell it is context.Background().
func Context() context.Context { return interrupt.Context() }
