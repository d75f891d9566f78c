package fit

import (
	"errors"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// transcript is the tokens of a conversation, as the session stores them.
type transcript struct {
	tokens      []int32 // [rows slots]; -1: none
	last        []int32
	rows, slots int
}

// readTranscript is a chat's, nil if there is none.
func readTranscript(s *session.Session, prefix string) (*transcript, error) {
	arrays, err := s.Arrays(prefix+"tokens", prefix+"last")
	if errors.Is(err, wire.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer free(arrays...)
	shape, _ := arrays[0].Shape()
	k := &transcript{rows: shape.Dimensions[0], slots: shape.Dimensions[1]}
	k.tokens, k.last = make([]int32, k.rows*k.slots), make([]int32, k.rows)
	return k, errors.Join(arrays[0].Values(k.tokens), arrays[1].Values(k.last))
}

// texts are all tokens of each text.
func (k *transcript) texts() [][]int32 {
	if k == nil {
		return nil
	}
	l := make([][]int32, k.rows)
	for r := range l {
		for _, t := range append(slices.Clone(k.tokens[r*k.slots:][:k.slots]), k.last[r]) {
			if t >= 0 {
				l[r] = append(l[r], t)
			}
		}
	}
	return l
}

func (k *transcript) equal(other *transcript) bool {
	return slices.EqualFunc(k.texts(), other.texts(), slices.Equal)
}

// begins says whether other's texts continue these.
func (k *transcript) begins(other *transcript) bool {
	return k == nil || slices.EqualFunc(k.texts(), other.texts(), func(a, b []int32) bool {
		return len(a) <= len(b) && slices.Equal(a, b[:len(a)])
	})
}

// put uploads the tokens and the last ones.
func (k *transcript) put(s *session.Session) ([]*session.Array, error) {
	tokens, err := s.Put(k.tokens, shapes.Make(dtypes.Int32, k.rows, k.slots), 0)
	if err != nil {
		return nil, err
	}
	last, err := s.Put(k.last, shapes.Make(dtypes.Int32, k.rows), 0)
	return []*session.Array{tokens, last}, err
}
