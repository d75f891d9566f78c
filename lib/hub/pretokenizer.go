package hub

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	"golang.org/x/text/unicode/norm"
)

// addNormalizer adds what changes a text before it is split.
func (t *Tokenizer) addNormalizer(s section) error {
	add := func(f func(string) string) { t.normalize = append(t.normalize, f) }
	switch s.Type {
	case "Sequence":
		for _, n := range s.Normalizers {
			if err := t.addNormalizer(n); err != nil {
				return err
			}
		}
	case "NFC":
		add(norm.NFC.String)
	case "NFD":
		add(norm.NFD.String)
	case "NFKC":
		add(norm.NFKC.String)
	case "NFKD":
		add(norm.NFKD.String)
	case "Lowercase":
		add(lowercase)
	case "StripAccents":
		add(withoutAccents)
	case "Prepend":
		add(func(text string) string { return s.Prepend + text })
	case "Strip":
		add(func(text string) string {
			if s.StripLeft {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
			}
			if s.StripRight {
				text = strings.TrimRightFunc(text, unicode.IsSpace)
			}
			return text
		})
	case "Replace":
		replace, err := s.replace()
		if err != nil {
			return err
		}
		add(replace)
	case "Precompiled":
		m, err := openCharsmap(s.Charsmap)
		if err != nil {
			return err
		}
		add(m.normalize)
	case "Nmt":
		add(func(text string) string { return strings.Map(nmt, text) })
	case "BertNormalizer":
		lower := isTrue(s.Lowercase, true)
		add(func(text string) string {
			text = bertText(text, isTrue(s.CleanText, true), isTrue(s.HandleChinese, true))
			if isTrue(s.StripAccents, lower) {
				text = withoutAccents(text)
			}
			if lower {
				text = lowercase(text)
			}
			return text
		})
	default:
		return fmt.Errorf("got a %s: want NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Prepend, Strip, Replace, Precompiled, Nmt or BertNormalizer", s.Type)
	}
	return nil
}

// replace is Replace, of normalizers and decoders.
func (s section) replace() (func(text string) string, error) {
	r, err := s.Pattern.compile()
	return func(text string) string {
		var b strings.Builder
		for _, p := range parts(r, text) {
			if p.found {
				p.text = s.Content
			}
			b.WriteString(p.text)
		}
		return b.String()
	}, err
}

func isTrue(b *bool, otherwise bool) bool {
	if b == nil {
		return otherwise
	}
	return *b
}

// lowercase is Unicode's: of one letter there are two characters.
func lowercase(text string) string {
	return strings.ToLower(strings.ReplaceAll(text, "İ", "i\u0307"))
}

func withoutAccents(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(text))
}

// nmt drops control characters, and makes spaces of others.
func nmt(r rune) rune {
	switch {
	case r >= 1 && r <= 8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return -1
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200b && r <= 0x200f, r == 0x2028, r == 0x2029, r == 0x2581, r == 0xfeff, r == 0xfffd:
		return ' '
	}
	return r
}

// bertText is a text with spaces for all that is one, without control characters, and with
// spaces around each Chinese character.
func bertText(text string, clean, chinese bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case clean && (r == 0 || r == utf8.RuneError || r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)):
		case clean && unicode.IsSpace(r):
			b.WriteByte(' ')
		case chinese && unicode.Is(ideographs, r):
			b.WriteString(" " + string(r) + " ")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ideographs are the blocks of Chinese characters that BERT knows, which is not all that is Han.
var ideographs = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x3400, Hi: 0x4dbf, Stride: 1}, {Lo: 0x4e00, Hi: 0x9fff, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x20000, Hi: 0x2a6df, Stride: 1}, {Lo: 0x2a700, Hi: 0x2b81f, Stride: 1}, {Lo: 0x2b920, Hi: 0x2ceaf, Stride: 1}, {Lo: 0x2f800, Hi: 0x2fa1f, Stride: 1}}}

// gpt2Words is how GPT-2 splits a text: a space belongs to the word behind it.
const gpt2Words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// addPreTokenizer adds what splits a text into pieces.
func (t *Tokenizer) addPreTokenizer(s section) error {
	switch s.Type {
	case "Sequence":
		for _, p := range s.Pretokenizers {
			if err := t.addPreTokenizer(p); err != nil {
				return err
			}
		}
	case "ByteLevel":
		return t.addByteLevel(s)
	case "Split":
		regex := s.Pattern.Regex
		if regex == "" {
			regex = regexp2.Escape(s.Pattern.String)
		}
		return t.splitBy(regex, s.Behavior, s.Invert)
	case "Digits":
		if s.IndividualDigits {
			return t.splitBy(`\p{N}`, "Isolated", false)
		}
		return t.splitBy(`\p{N}+`, "Isolated", false)
	case "Punctuation":
		return t.splitBy(punctuation, cmp.Or(s.Behavior, "Isolated"), false)
	case "Whitespace":
		return t.splitBy(`\w+|[^\w\s]+`, "Removed", true)
	case "WhitespaceSplit":
		return t.splitBy(`\s+`, "Removed", false)
	case "BertPreTokenizer":
		if err := t.splitBy(`\s+`, "Removed", false); err != nil {
			return err
		}
		return t.splitBy(punctuation, "Isolated", false)
	case "Metaspace":
		return t.addMetaspace(s)
	default:
		return fmt.Errorf("got a %s: want ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer or Metaspace", s.Type)
	}
	return nil
}

// addSplit adds what makes pieces of a piece. first: it is the beginning of the text.
func (t *Tokenizer) addSplit(f func(piece string, first bool) []string) {
	t.split = append(t.split, func(pieces []string, first bool) (all []string) {
		for i, p := range pieces {
			all = append(all, f(p, first && i == 0)...)
		}
		return all
	})
}

// splitBy adds a split at what an expression finds.
func (t *Tokenizer) splitBy(regex, behavior string, invert bool) error {
	r, err := (pattern{Regex: regex}).compile()
	if err != nil {
		return err
	}
	join, is := behaviors[strings.ToLower(behavior)]
	if !is {
		return fmt.Errorf("Split has the behavior %q: want Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous", behavior)
	}
	t.addSplit(func(piece string, _ bool) []string { return join(parts(r, piece), invert) })
	return nil
}

func (t *Tokenizer) addByteLevel(s section) error {
	if isTrue(s.AddPrefixSpace, true) {
		t.addSplit(func(piece string, _ bool) []string {
			if !strings.HasPrefix(piece, " ") {
				piece = " " + piece
			}
			return []string{piece}
		})
	}
	if isTrue(s.UseRegex, true) {
		if err := t.splitBy(gpt2Words, "Isolated", false); err != nil {
			return err
		}
	}
	t.addSplit(func(piece string, _ bool) []string {
		var b strings.Builder
		for i := range len(piece) {
			b.WriteRune(runeOf[piece[i]])
		}
		return []string{b.String()}
	})
	return nil
}

func (t *Tokenizer) addMetaspace(s section) error {
	space := cmp.Or(s.Replacement, "▁")
	scheme := s.PrependScheme
	if scheme == "" && isTrue(s.AddPrefixSpace, true) {
		scheme = "always"
	}
	t.addSplit(func(piece string, first bool) []string {
		piece = strings.ReplaceAll(piece, " ", space)
		if !strings.HasPrefix(piece, space) && (scheme == "always" || scheme == "first" && first) {
			piece = space + piece
		}
		return []string{piece}
	})
	if isTrue(s.Split, true) {
		return t.splitBy(regexp2.Escape(space), "MergedWithNext", false)
	}
	return nil
}

// punctuation is that of Unicode and all ASCII that is no letter, digit or space.
const punctuation = `[\p{P}!-/:-@\[-` + "`" + `{-~]`

// compile is a pattern as an expression, with lookahead, as tokenizers have it.
func (p pattern) compile() (*regexp2.Regexp, error) {
	s := p.Regex
	if s == "" {
		s = regexp2.Escape(p.String)
	}
	r, err := regexp2.Compile(s, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", s, err)
	}
	return r, nil
}

// partOf is a stretch of a text that an expression has found, or one between such.
type partOf struct {
	text  string
	found bool
}

func parts(r *regexp2.Regexp, text string) (all []partOf) {
	runes, at := []rune(text), 0
	add := func(to int, found bool) {
		if to > at {
			all = append(all, partOf{string(runes[at:to]), found})
			at = to
		}
	}
	for m, _ := r.FindRunesMatch(runes); m != nil; m, _ = r.FindNextMatch(m) {
		add(m.Index, false)
		add(m.Index+m.Length, true)
	}
	add(len(runes), false)
	return all
}

// behaviors say what becomes of what was found.
var behaviors = map[string]func(all []partOf, invert bool) []string{
	"isolated": func(all []partOf, _ bool) (l []string) {
		for _, p := range all {
			l = append(l, p.text)
		}
		return l
	},
	"removed": func(all []partOf, invert bool) (l []string) {
		for _, p := range all {
			if p.found == invert {
				l = append(l, p.text)
			}
		}
		return l
	},
	"mergedwithprevious": func(all []partOf, invert bool) (l []string) {
		open := false // the last one takes what was found
		for _, p := range all {
			if p.found != invert && open {
				l[len(l)-1] += p.text
				open = false
				continue
			}
			l, open = append(l, p.text), p.found == invert
		}
		return l
	},
	"mergedwithnext": func(all []partOf, invert bool) (l []string) {
		open := false // the last one was found and takes what is next
		for _, p := range all {
			if p.found == invert && open {
				l[len(l)-1] += p.text
				open = false
				continue
			}
			l, open = append(l, p.text), p.found != invert
		}
		return l
	},
	"contiguous": func(all []partOf, _ bool) (l []string) {
		for i, p := range all {
			if i > 0 && p.found == all[i-1].found {
				l[len(l)-1] += p.text
				continue
			}
			l = append(l, p.text)
		}
		return l
	},
}

// runeOf is the character of each byte in byte-level vocabularies, and byteOf the byte of each
// such character: printable ones stand for themselves.
var runeOf, byteOf = func() (runes [256]rune, bytes map[rune]byte) {
	bytes, next := map[rune]byte{}, rune(256)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' && r <= 'ÿ') {
			r = next
			next++
		}
		runes[b], bytes[r] = r, byte(b)
	}
	return runes, bytes
}()
