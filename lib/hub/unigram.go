package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// unigram takes the tokens whose scores, the logarithms of their probabilities, have the largest
// sum (Kudo, 2018): SentencePiece's algorithm for T5 and others.
type unigram struct {
	ids     map[string]int32
	scores  []float64
	lowest  float64
	longest int   // bytes of a token
	unknown int32 // -1: there is none
	bytes   bool  // characters that are not in the vocabulary are bytes, <0x41>
}

// unknownPenalty is how much lower than the lowest score that of an unknown character is.
const unknownPenalty = 10

func openUnigram(vocab json.RawMessage, unknown *int32, bytes bool) (*unigram, error) {
	var pairs [][2]any
	if err := json.Unmarshal(vocab, &pairs); err != nil && len(vocab) > 0 {
		return nil, fmt.Errorf("vocab of the model: %w: want tokens and their scores", err)
	} else if len(pairs) == 0 {
		return nil, errors.New("model has no vocab: want tokens and their scores")
	}
	u := &unigram{ids: map[string]int32{}, lowest: math.Inf(1), unknown: -1, bytes: bytes}
	for i, p := range pairs {
		token, is := p[0].(string)
		score, also := p[1].(float64)
		if !is || !also {
			return nil, fmt.Errorf("entry %d of the model's vocab is %v: want a token and its score", i, p)
		}
		u.ids[token] = int32(i)
		u.scores = append(u.scores, score)
		u.lowest, u.longest = min(u.lowest, score), max(u.longest, len(token))
	}
	if unknown != nil {
		if u.unknown = *unknown; u.unknown < 0 || int(u.unknown) >= len(pairs) {
			return nil, fmt.Errorf("unk_id is %d: want 0 to %d", u.unknown, len(pairs)-1)
		}
	}
	return u, nil
}

func (u *unigram) encode(piece string, to []int32) ([]int32, error) {
	type node struct {
		score float64
		from  int   // -1: no path ends here
		id    int32 // of the token that ends here; -1: an unknown character
	}
	best := make([]node, len(piece)+1)
	for i := range best[1:] {
		best[i+1].from = -1
	}
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		offer := func(end int, score float64, id int32) {
			if n := &best[end]; n.from < 0 || best[at].score+score > n.score {
				*n = node{best[at].score + score, at, id}
			}
		}
		single := false
		for end := at + 1; end <= min(len(piece), at+u.longest); end++ {
			if id, is := u.ids[piece[at:end]]; is {
				offer(end, u.scores[id], id)
				single = single || end == at+size
			}
		}
		if !single {
			offer(at+size, u.lowest-unknownPenalty, -1)
		}
		at += size
	}
	var path []node // backwards, with unknown characters that are neighbors joined
	for end := len(piece); end > 0; {
		n := best[end]
		if k := len(path) - 1; n.id < 0 && k >= 0 && path[k].id < 0 {
			path[k].from = n.from
		} else {
			path = append(path, node{from: n.from, id: n.id})
		}
		end = n.from
	}
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].id >= 0 {
			to = append(to, path[i].id)
			continue
		}
		end := len(piece)
		if i > 0 {
			end = path[i-1].from
		}
		unknown := piece[path[i].from:end]
		bytes := byteTokens(u.ids, unknown)
		switch {
		case u.bytes && bytes != nil:
			to = append(to, bytes...)
		case u.unknown < 0:
			return nil, fmt.Errorf("the vocabulary has no %q and no unknown token", unknown)
		default:
			to = append(to, u.unknown)
		}
	}
	return to, nil
}

// byteTokens are the tokens of a text's bytes, such as <0x41>; nil: one is not there.
func byteTokens(ids map[string]int32, text string) (all []int32) {
	for i := range len(text) {
		id, is := ids[fmt.Sprintf("<0x%02X>", text[i])]
		if !is {
			return nil
		}
		all = append(all, id)
	}
	return all
}
