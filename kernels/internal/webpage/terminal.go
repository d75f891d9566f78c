package webpage

import (
	"html"
	"regexp"
	"strconv"
	"strings"
)

// escapes are the sequences with which a program colours its text, and the
// others that terminals know, which are dropped.
var escapes = regexp.MustCompile(`\x1b(?:\[([0-9;:]*)([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])`)

// Plain returns text without colours and other sequences for a terminal.
func Plain(text string) string { return escapes.ReplaceAllString(text, "") }

var colours = [8]string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

// terminal returns text as a terminal would show it: a carriage return begins
// the line again, and colours are kept.
func terminal(text string) string {
	var done []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line = strings.TrimRight(line, "\r")
		done = append(done, line[strings.LastIndexByte(line, '\r')+1:])
	}
	text = strings.Join(done, "\n")
	var b strings.Builder
	colour, bold, under, open := "", false, false, false
	put := func(s string) {
		b.WriteString(html.EscapeString(printable(s)))
	}
	at := 0
	for _, m := range escapes.FindAllStringSubmatchIndex(text, -1) {
		put(text[at:m[0]])
		at = m[1]
		if m[4] < 0 || text[m[4]:m[5]] != "m" {
			continue
		}
		codes := strings.FieldsFunc(text[m[2]:m[3]], func(r rune) bool { return r == ';' || r == ':' })
		if len(codes) == 0 {
			codes = []string{"0"}
		}
		for i := 0; i < len(codes); i++ {
			n, _ := strconv.Atoi(codes[i])
			switch {
			case n == 0:
				colour, bold, under = "", false, false
			case n == 1:
				bold = true
			case n == 4:
				under = true
			case n == 22:
				bold = false
			case n == 24:
				under = false
			case n == 39:
				colour = ""
			case n >= 30 && n <= 37:
				colour = "ansi-" + colours[n-30] + "-fg"
			case n >= 90 && n <= 97:
				colour = "ansi-" + colours[n-90] + "-fg"
			case (n == 38 || n == 48) && i+1 < len(codes): // colours of other palettes are not shown
				if codes[i+1] == "5" {
					i += 2
				} else {
					i += 4
				}
			}
		}
		if open {
			b.WriteString("</span>")
		}
		var classes []string
		if colour != "" {
			classes = append(classes, colour)
		}
		if bold {
			classes = append(classes, "ansi-bold")
		}
		if under {
			classes = append(classes, "ansi-underline")
		}
		if open = len(classes) > 0; open {
			b.WriteString(`<span class="` + strings.Join(classes, " ") + `">`)
		}
	}
	put(text[at:])
	if open {
		b.WriteString("</span>")
	}
	return b.String()
}

// printable drops the characters that HTML does not allow.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < 0x20, r >= 0x7f && r < 0xa0, r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
