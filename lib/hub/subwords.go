package hub

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"
)

// openModel reads a tokenizer's model and its vocabulary.
func openModel(raw json.RawMessage) (subwords, map[string]int32, error) {
	var m struct {
		Type         string
		Vocab        json.RawMessage
		Merges       []merge
		Unk          string `json:"unk_token"`
		Prefix       string `json:"continuing_subword_prefix"`
		Suffix       string `json:"end_of_word_suffix"`
		ByteFallback bool   `json:"byte_fallback"`
		FuseUnk      bool   `json:"fuse_unk"`
		IgnoreMerges bool   `json:"ignore_merges"`
		Longest      int    `json:"max_input_chars_per_word"`
		UnkID        *int32 `json:"unk_id"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	if m.Type == "" && m.Merges != nil { // as old files are
		m.Type = "BPE"
	}
	switch m.Type {
	case "Unigram":
		u, err := openUnigram(m.Vocab, m.UnkID, m.ByteFallback)
		if err != nil {
			return nil, nil, err
		}
		return u, maps.Clone(u.ids), nil
	case "BPE", "WordPiece":
	default:
		return nil, nil, fmt.Errorf("model is %q: want BPE, Unigram or WordPiece", m.Type)
	}
	var ids map[string]int32
	if err := json.Unmarshal(m.Vocab, &ids); err != nil && len(m.Vocab) > 0 {
		return nil, nil, fmt.Errorf("vocab of the model: %w: want an id for each token", err)
	} else if len(ids) == 0 {
		return nil, nil, errors.New("model has no vocab: want an id for each token")
	}
	unknown, is := ids[m.Unk]
	if !is {
		unknown = -1
	}
	if m.Type == "WordPiece" {
		m.Longest = cmp.Or(m.Longest, 100)
		return &wordPiece{ids, m.Prefix, unknown, m.Longest}, ids, nil
	}
	b := &bpe{ids: ids, suffix: m.Suffix, unknown: unknown, bytes: m.ByteFallback, fuse: m.FuseUnk, whole: m.IgnoreMerges, merges: map[[2]int32]merged{}}
	for rank, pair := range m.Merges {
		left, a := ids[pair[0]]
		right, c := ids[pair[1]]
		id, both := ids[pair[0]+strings.TrimPrefix(pair[1], m.Prefix)]
		if !a || !c || !both {
			return nil, nil, fmt.Errorf("merge %d is of %q and %q: want tokens of the vocab, joined too", rank, pair[0], pair[1])
		}
		if _, twice := b.merges[[2]int32{left, right}]; !twice {
			b.merges[[2]int32{left, right}] = merged{rank, id}
		}
	}
	return b, ids, nil
}

// merge is two tokens, "a b" or ["a", "b"].
type merge [2]string

func (m *merge) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return json.Unmarshal(b, (*[2]string)(m))
	}
	var is bool
	if m[0], m[1], is = strings.Cut(s, " "); !is {
		return fmt.Errorf("merge %q: want two tokens with a space between them", s)
	}
	return nil
}

// bpe is byte pair encoding (Sennrich et al., 2016): of all pairs of neighbors that a merge
// joins, the one whose merge stands first is joined, until there is none.
type bpe struct {
	ids     map[string]int32
	merges  map[[2]int32]merged
	suffix  string // of the last character
	unknown int32  // -1: there is none
	bytes   bool   // characters that are not in the vocabulary are bytes, <0x41>
	fuse    bool   // unknown characters that are neighbors are one token
	whole   bool   // a piece that is a token is not taken apart
}

type merged struct {
	rank int
	id   int32
}

// symbol is one of a piece's, in a list.
type symbol struct {
	id         int32
	prev, next int // -1: none
	gone       bool
}

// join is a pair that may be joined.
type join struct {
	merged
	at          int
	left, right int32
}

type joins []join

func (h joins) Len() int { return len(h) }
func (h joins) Less(i, j int) bool {
	return h[i].rank < h[j].rank || h[i].rank == h[j].rank && h[i].at < h[j].at
}
func (h joins) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *joins) Push(x any)   { *h = append(*h, x.(join)) }
func (h *joins) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (b *bpe) encode(piece string, to []int32) ([]int32, error) {
	if id, is := b.ids[piece]; is && b.whole {
		return append(to, id), nil
	}
	list, err := b.symbols(piece)
	if err != nil {
		return nil, err
	}
	var queue joins
	offer := func(at int) {
		if at < 0 || list[at].next < 0 {
			return
		}
		left, right := list[at].id, list[list[at].next].id
		if m, is := b.merges[[2]int32{left, right}]; is {
			heap.Push(&queue, join{m, at, left, right})
		}
	}
	for i := range list {
		offer(i)
	}
	for queue.Len() > 0 {
		j := heap.Pop(&queue).(join)
		s := &list[j.at]
		if s.gone || s.next < 0 || s.id != j.left || list[s.next].id != j.right {
			continue // one of them was joined with another
		}
		next := &list[s.next]
		next.gone = true
		if s.id, s.next = j.id, next.next; s.next >= 0 {
			list[s.next].prev = j.at
		}
		offer(s.prev)
		offer(j.at)
	}
	for _, s := range list {
		if !s.gone {
			to = append(to, s.id)
		}
	}
	return to, nil
}

// symbols are a piece's characters.
func (b *bpe) symbols(piece string) (list []symbol, err error) {
	add := func(id int32) {
		list = append(list, symbol{id: id, prev: len(list) - 1, next: len(list) + 1})
	}
	before := false // the last one was unknown
	for i := 0; i < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[i:])
		s := piece[i : i+size]
		i += size
		key := s
		if i == len(piece) {
			key += b.suffix
		}
		id, is := b.ids[key]
		var bytes []int32
		if !is && b.bytes {
			bytes = byteTokens(b.ids, s)
		}
		switch {
		case is:
			add(id)
		case bytes != nil:
			for _, id := range bytes {
				add(id)
			}
		case b.unknown < 0:
			return nil, fmt.Errorf("the vocabulary has no %q and no unknown token", s)
		default:
			if !before || !b.fuse {
				add(b.unknown)
			}
			before = true
			continue
		}
		before = false
	}
	if len(list) > 0 {
		list[len(list)-1].next = -1
	}
	return list, nil
}

// wordPiece takes the longest tokens from the left (Schuster and Nakajima, 2012); those that do
// not begin a word have a prefix.
type wordPiece struct {
	ids     map[string]int32
	prefix  string
	unknown int32
	longest int // characters of a word; a longer one is unknown
}

func (w *wordPiece) encode(word string, to []int32) ([]int32, error) {
	start := len(to)
	for rest := word; rest != ""; {
		before := ""
		if len(rest) < len(word) {
			before = w.prefix
		}
		end := len(rest)
		for ; end > 0; end-- {
			if id, is := w.ids[before+rest[:end]]; is {
				to = append(to, id)
				break
			}
		}
		if end == 0 || utf8.RuneCountInString(word) > w.longest {
			if w.unknown < 0 {
				return nil, fmt.Errorf("the vocabulary has no parts of %q and no unknown token", word)
			}
			return append(to[:start], w.unknown), nil
		}
		rest = rest[end:]
	}
	return to, nil
}
