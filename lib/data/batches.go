package data

import "iter"

// Batches iterates over what a function makes for 0 to count-1, and ends with its first
// error.
func Batches(count int, of func(k int) (Examples, error)) iter.Seq2[Examples, error] {
	return func(yield func(Examples, error) bool) {
		for k := range count {
			e, err := of(k)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
