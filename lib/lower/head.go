package lower

import "fmt"

// Head is the last layer of a net whose outputs are the logits of a cross entropy: rows
// [rows in] times weights [in classes].
type Head struct{ Rows, In, Classes int }

// Pieces is in how many pieces of the rows logits, loss and gradients are computed one after
// another, so that only the logits of one piece are in memory. The gradients are computed with
// the loss, for logits that are computed once (Hsu et al., 2024, "Liger kernel"; Wijmans et al.,
// 2025, "Cut your losses"). 0: the gradients are computed on the backward pass.
func (h Head) Pieces(t Target, o Options) int {
	piece := o.LogitsBytes
	if piece == 0 {
		if h.bytes() < largeLogits {
			return 0
		}
		piece = logitsPiece
		if !t.CPU() {
			piece = min(max(piece, t.Memory/logitsShare), largestPiece)
		}
	}
	n := int(min(int64(h.Rows), (h.bytes()+piece-1)/piece))
	if n == 1 && t.CPU() {
		return 0
	}
	return n
}

// Reason says in words why.
func (h Head) Reason(t Target, o Options) string {
	what := fmt.Sprintf("logits of %d rows × %d classes, %d MiB", h.Rows, h.Classes, h.bytes()>>20)
	switch n := h.Pieces(t, o); n {
	case 0:
		return "all at once: " + what
	case 1:
		return "all at once, with their gradients: " + what
	default:
		return fmt.Sprintf("in %d pieces of the rows, with their gradients: %s, are never in memory together", n, what)
	}
}

func (h Head) bytes() int64 { return 4 * int64(h.Rows) * int64(h.Classes) }
