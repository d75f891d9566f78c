package hub

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// addDecoder adds a step from tokens to text.
func (t *Tokenizer) addDecoder(s section) error {
	add := func(f func([]string) []string) { t.decode = append(t.decode, f) }
	each := func(f func(i int, token string) string) {
		add(func(all []string) []string {
			for i, token := range all {
				all[i] = f(i, token)
			}
			return all
		})
	}
	switch s.Type {
	case "Sequence":
		for _, d := range s.Decoders {
			if err := t.addDecoder(d); err != nil {
				return err
			}
		}
	case "ByteLevel":
		add(func(all []string) []string {
			var b []byte
			for _, token := range all {
				b = append(b, bytesOf(token)...)
			}
			return []string{string(b)}
		})
	case "ByteFallback":
		add(joinBytes)
	case "Fuse":
		add(func(all []string) []string { return []string{strings.Join(all, "")} })
	case "Replace":
		replace, err := s.replace()
		if err != nil {
			return err
		}
		each(func(_ int, token string) string { return replace(token) })
	case "Strip":
		each(func(_ int, token string) string { return s.strip(token) })
	case "Metaspace":
		space, prepends := cmp.Or(s.Replacement, "▁"), s.PrependScheme != "never" && isTrue(s.AddPrefixSpace, true)
		each(func(i int, token string) string {
			if i == 0 && prepends {
				token = strings.TrimPrefix(token, space)
			}
			return strings.ReplaceAll(token, space, " ")
		})
	case "WordPiece":
		each(s.wordPiece)
	case "BPEDecoder":
		each(func(i int, token string) string {
			return strings.ReplaceAll(token, cmp.Or(s.Suffix, "</w>"), " ")
		})
		add(func(all []string) []string { return []string{strings.TrimSuffix(strings.Join(all, ""), " ")} })
	default:
		return fmt.Errorf("got a %s: want ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece or BPEDecoder", s.Type)
	}
	return nil
}

// strip is a token without some of a character at its ends.
func (s section) strip(token string) string {
	for i := 0; i < s.Start && strings.HasPrefix(token, s.Content); i++ {
		token = token[len(s.Content):]
	}
	for i := 0; i < s.Stop && strings.HasSuffix(token, s.Content); i++ {
		token = token[:len(token)-len(s.Content)]
	}
	return token
}

// wordPiece is token number i as text: one without a prefix begins a word.
func (s section) wordPiece(i int, token string) string {
	if rest, is := strings.CutPrefix(token, cmp.Or(s.Prefix, "##")); is && i > 0 {
		token = rest
	} else if i > 0 {
		token = " " + token
	}
	if isTrue(s.Cleanup, true) {
		token = cleanup.Replace(token)
	}
	return token
}

// joinBytes are tokens of which those such as <0x41> have become text.
func joinBytes(all []string) (out []string) {
	var run []byte
	flush := func() {
		if utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			out = append(out, strings.Repeat("\uFFFD", len(run)))
		}
		run = nil
	}
	for _, token := range all {
		if strings.HasPrefix(token, "<0x") && len(token) == 6 && token[5] == '>' {
			if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
				run = append(run, byte(b))
				continue
			}
		}
		flush()
		out = append(out, token)
	}
	flush()
	return out
}

// cleanup takes the spaces away that English has none of.
var cleanup = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")

// bytesOf are the bytes that a byte-level token stands for; one with other characters, as an
// added token may have them, stands for itself.
func bytesOf(token string) (all []byte) {
	for _, r := range token {
		b, is := byteOf[r]
		if !is {
			return []byte(token)
		}
		all = append(all, b)
	}
	return all
}
