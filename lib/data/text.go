package data

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Corpus is a text as tokens.
type Corpus struct {
	Tokens []int32

	characters []rune // by token; nil: tokens are bytes
}

// Text reads a text file, in UTF-8, with a token for each character. The vocabulary is the
// characters that occur, in the order of Unicode.
func Text(path string) (Corpus, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Corpus{}, fileError(err)
	}
	for i, line := range strings.Split(string(b), "\n") {
		if !utf8.ValidString(line) {
			return Corpus{}, fmt.Errorf("data: %s:%d: not UTF-8: convert the file, or read it with data.Bytes", path, i+1)
		}
	}
	if len(b) == 0 {
		return Corpus{}, fmt.Errorf("data: %s: no text: want at least a character", path)
	}
	return TextOf(string(b)), nil
}

// TextOf is Text of a string.
func TextOf(s string) Corpus {
	seen := map[rune]int32{}
	for _, r := range s {
		seen[r] = 0
	}
	c := Corpus{characters: slices.Sorted(maps.Keys(seen))}
	for i, r := range c.characters {
		seen[r] = int32(i)
	}
	for _, r := range s {
		c.Tokens = append(c.Tokens, seen[r])
	}
	return c
}

// Bytes reads any file with a token for each byte; the vocabulary has 256.
func Bytes(path string) (Corpus, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Corpus{}, fileError(err)
	}
	if len(b) == 0 {
		return Corpus{}, fmt.Errorf("data: %s: empty: want at least a byte", path)
	}
	var c Corpus
	for _, x := range b {
		c.Tokens = append(c.Tokens, int32(x))
	}
	return c, nil
}

// Vocab is how many tokens there are to choose from.
func (c Corpus) Vocab() int {
	if c.characters == nil {
		return 256
	}
	return len(c.characters)
}

// String is a line such as: 1115394 characters, 65 different ones: "First Citizen:…".
func (c Corpus) String() string {
	kind := fmt.Sprintf("characters, %d different ones", c.Vocab())
	if c.characters == nil {
		kind = "bytes"
	}
	begin, more := c.Tokens[:min(len(c.Tokens), 60)], ""
	if len(begin) < len(c.Tokens) {
		more = "…"
	}
	return fmt.Sprintf("%d %s: %s", len(c.Tokens), kind, strconv.Quote(c.Decode(begin)+more))
}

// Encode is a text as tokens; it is an error if the vocabulary lacks a character of it.
func (c Corpus) Encode(text string) ([]int32, error) {
	var l []int32
	if c.characters == nil {
		for i := range len(text) {
			l = append(l, int32(text[i]))
		}
		return l, nil
	}
	var missing []rune
	for _, r := range text {
		k, is := slices.BinarySearch(c.characters, r)
		if !is {
			missing = append(missing, r)
		}
		l = append(l, int32(k))
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("data: Encode(%s): the vocabulary has no %s: want characters of %s", opening(text), ranges(slices.Compact(missing)), ranges(c.characters))
	}
	return l, nil
}

// opening is the start of a text in quotes.
func opening(text string) string {
	if r := []rune(text); len(r) > 20 {
		text = string(r[:20]) + "…"
	}
	return strconv.Quote(text)
}

// ranges lists sorted characters, those that follow each other as one range: '\n', 'a' to 'z'.
// It says how many it leaves out.
func ranges(sorted []rune) string {
	const most = 24
	var l []string
	for i := 0; i < len(sorted); i++ {
		if len(l) == most {
			return fmt.Sprintf("%s … and %d more", strings.Join(l, ", "), len(sorted)-i)
		}
		first := i
		for i+1 < len(sorted) && sorted[i+1] == sorted[i]+1 {
			i++
		}
		if i < first+2 { // a range would be no shorter
			i = first
		}
		one := strconv.QuoteRune(sorted[first])
		if i > first {
			one += " to " + strconv.QuoteRune(sorted[i])
		}
		l = append(l, one)
	}
	return strings.Join(l, ", ")
}

// Decode is tokens as text; a token out of range becomes U+FFFD.
func (c Corpus) Decode(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		switch {
		case t < 0 || int(t) >= c.Vocab():
			b.WriteRune(utf8.RuneError)
		case c.characters == nil:
			b.WriteByte(byte(t))
		default:
			b.WriteRune(c.characters[t])
		}
	}
	return b.String()
}

// Windows are the text's stretches of a length, one after the other, for a net that predicts
// at each position the next token: X [n length], Y alike, one token later.
func (c Corpus) Windows(length int) Examples { return c.WindowsEvery(length, length) }

// WindowsEvery is Windows that begin a stride apart; they overlap where it is less than the
// length.
func (c Corpus) WindowsEvery(length, stride int) Examples {
	if length < 1 || stride < 1 || length >= len(c.Tokens) {
		panic(fmt.Errorf("data: windows of length %d, %d apart, of %d tokens: want 1 or more of each, and a longer text", length, stride, len(c.Tokens)))
	}
	n := (len(c.Tokens)-1-length)/stride + 1
	x, y := make([]int32, 0, n*length), make([]int32, 0, n*length)
	for i := range n {
		x = append(x, c.Tokens[i*stride:i*stride+length]...)
		y = append(y, c.Tokens[i*stride+1:i*stride+1+length]...)
	}
	return Examples{X: Array{[]int{n, length}, x}, Y: y, N: n}
}
