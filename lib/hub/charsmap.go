package hub

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap replaces characters as SentencePiece does: a trie as a double array (darts-clone's
// format) of what is replaced, with where its replacement is in texts that end with a 0.
type charsmap struct {
	units []uint32
	texts []byte
}

func openCharsmap(encoded string) (*charsmap, error) {
	wrong := errors.New("precompiled_charsmap: want a trie and texts, in base64, as SentencePiece writes them")
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(b) < 8 {
		return nil, wrong
	}
	size := int(binary.LittleEndian.Uint32(b))
	if size%4 != 0 || size < 4 || size > len(b)-4 {
		return nil, wrong
	}
	m := &charsmap{texts: b[4+size:]}
	for i := 4; i < 4+size; i += 4 {
		m.units = append(m.units, binary.LittleEndian.Uint32(b[i:]))
	}
	return m, nil
}

// normalize replaces each grapheme that the map has, or else its characters. Longer graphemes are
// taken by their characters.
func (m *charsmap) normalize(text string) string {
	var b strings.Builder
	for state := -1; text != ""; {
		var g string
		g, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		if s, is := m.replacement(g); is && len(g) < 6 {
			b.WriteString(s)
			continue
		}
		for g != "" {
			_, size := utf8.DecodeRuneInString(g)
			s, is := m.replacement(g[:size])
			if !is {
				s = g[:size]
			}
			b.WriteString(s)
			g = g[size:]
		}
	}
	return b.String()
}

// replacement is that of the shortest beginning of s that the map has.
func (m *charsmap) replacement(s string) (text string, is bool) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	at := offset(m.units[0])
	for i := range len(s) {
		if at ^= uint32(s[i]); s[i] == 0 || int(at) >= len(m.units) {
			return "", false
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(s[i]) {
			return "", false
		}
		at ^= offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		if int(at) >= len(m.units) {
			return "", false
		}
		from := int(m.units[at] &^ (1 << 31))
		if from > len(m.texts) {
			return "", false
		}
		text, _, _ := bytes.Cut(m.texts[from:], []byte{0})
		return string(text), true
	}
	return "", false
}
