package jupyter

import "unicode/utf8"

// glob says whether the whole text matches the pattern, as SQLite's GLOB does,
// by which IPython searches its history: * is any text, ? any character, [a-z]
// one of a set and [^a-z] one not of it; all else, case included, is itself.
// Unlike path.Match it gives / no meaning and has no malformed patterns: a [
// without its ] matches nothing. It takes time in the product of the lengths.
func glob(pattern, text string) bool {
	star, from := "", "" // where to try again: after the last *, with more text skipped
	again := false
	for {
		switch {
		case pattern != "" && pattern[0] == '*':
			pattern = pattern[1:]
			star, from, again = pattern, text, true
			continue
		case pattern == "" && text == "":
			return true
		case pattern != "" && text != "":
			c, n := utf8.DecodeRuneInString(text)
			if rest, ok := one(pattern, c); ok {
				pattern, text = rest, text[n:]
				continue
			}
		}
		if !again || from == "" {
			return false
		}
		_, n := utf8.DecodeRuneInString(from)
		from = from[n:]
		pattern, text = star, from
	}
}

// one matches c to the first element of the pattern, which is not *, and
// returns the pattern after it.
func one(pattern string, c rune) (rest string, ok bool) {
	p, n := utf8.DecodeRuneInString(pattern)
	rest = pattern[n:]
	switch p {
	case '?':
		return rest, true
	case '[':
		return set(rest, c)
	}
	return rest, p == c
}

// set matches c to what follows a [. A ] at the start is a member.
func set(pattern string, c rune) (rest string, ok bool) {
	not := false
	if pattern != "" && pattern[0] == '^' {
		not = true
		pattern = pattern[1:]
	}
	in := false
	for first := true; ; first = false {
		if pattern == "" {
			return "", false
		}
		low, n := utf8.DecodeRuneInString(pattern)
		pattern = pattern[n:]
		if low == ']' && !first {
			return pattern, in != not
		}
		high := low
		if len(pattern) > 1 && pattern[0] == '-' && pattern[1] != ']' {
			high, n = utf8.DecodeRuneInString(pattern[1:])
			pattern = pattern[1+n:]
		}
		in = in || low <= c && c <= high
	}
}
