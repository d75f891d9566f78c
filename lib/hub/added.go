package hub

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is found in a text as it is.
type addedToken struct {
	ID         int32
	Content    string
	Special    bool
	SingleWord bool `json:"single_word"`
	LStrip     bool
	RStrip     bool
	Normalized bool
}

// finder finds added tokens, by their first bytes, the longest first.
type finder [256][]addedToken

func (f *finder) add(a addedToken) {
	if a.Content == "" {
		return
	}
	l := append(f[a.Content[0]], a)
	slices.SortStableFunc(l, func(a, b addedToken) int { return len(b.Content) - len(a.Content) })
	f[a.Content[0]] = l
}

// stretch is an added token, or text between such.
type stretch struct {
	text  string
	token *addedToken // nil: it is text
	first bool        // nothing is before it
}

// split finds the added tokens in a text, with the spaces that they take along.
func (f *finder) split(text string, first bool) (all []stretch) {
	done := 0
	for at := 0; at < len(text); {
		a := f.at(text, at)
		if a == nil {
			at++
			continue
		}
		end := at + len(a.Content)
		if a.SingleWord && (endsWord(text[:at]) || beginsWord(text[end:])) {
			at = end
			continue
		}
		if a.LStrip {
			at = max(done, len(strings.TrimRightFunc(text[:at], unicode.IsSpace)))
		}
		if a.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if at > done {
			all = append(all, stretch{text: text[done:at], first: first && done == 0})
		}
		all = append(all, stretch{token: a})
		at, done = end, end
	}
	if done < len(text) {
		all = append(all, stretch{text: text[done:], first: first && done == 0})
	}
	return all
}

// at is the longest token that stands at a place.
func (f *finder) at(text string, at int) *addedToken {
	for i, a := range f[text[at]] {
		if strings.HasPrefix(text[at:], a.Content) {
			return &f[text[at]][i]
		}
	}
	return nil
}

func endsWord(text string) bool   { r, _ := utf8.DecodeLastRuneInString(text); return inWord(r) }
func beginsWord(text string) bool { r, _ := utf8.DecodeRuneInString(text); return inWord(r) }

func inWord(r rune) bool {
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc)
}
