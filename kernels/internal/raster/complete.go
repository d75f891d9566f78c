package raster

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"regexp"
	"strings"
)

var (
	element = regexp.MustCompile(`(?s)<svg[\s>].*?</svg>`)
	frame   = regexp.MustCompile(`</?div[^>]*>|\s+`)
	active  = regexp.MustCompile(`(?i)<(script|style|iframe|canvas|foreignObject)[\s>]`)
)

const (
	mimeHTML = "text/html"
	mimeSVG  = "image/svg+xml"
	mimePNG  = "image/png"
)

// Complete returns the forms of an output, and their metadata, so that its images are
// shown in notebooks that are not trusted:
//
//   - An image alone becomes image/png. Its text/html is dropped, which front ends
//     would prefer and then empty; image/svg+xml stays where it came without HTML.
//   - In other HTML each svg element becomes an img with PNG inside.
//
// HTML that may change its own images, by scripts or styles, stays as it is.
func Complete(data, metadata map[string]any) (map[string]any, map[string]any) {
	page, hasHTML := data[mimeHTML].(string)
	drawing, hasSVG := data[mimeSVG].(string)
	found := element.FindAllString(page, 2)
	switch {
	case data[mimePNG] != nil || active.MatchString(page):
		return data, metadata
	case hasHTML && len(found) == 0, !hasHTML && !hasSVG:
		return data, metadata
	case hasHTML && (len(found) > 1 || frame.ReplaceAllString(strings.Replace(page, found[0], "", 1), "") != ""):
		return with(data, mimeSVG, nil, mimeHTML, inline(page)), metadata
	case hasHTML:
		drawing = found[0]
	}
	p, err := PNG(drawing)
	if hasHTML && errors.Is(err, ErrGlyph) {
		return with(data, mimeSVG, nil, mimeHTML, inline(page)), metadata
	} else if err != nil {
		return data, metadata
	}
	facts := map[string]any{"width": p.Width, "height": p.Height}
	if p.Alt != "" {
		facts["alt"] = p.Alt
	}
	metadata = with(metadata, mimePNG, facts)
	if hasHTML {
		return with(data, mimeHTML, nil, mimeSVG, nil, mimePNG, p.Data), metadata
	}
	return with(data, mimePNG, p.Data), metadata
}

// inline replaces the svg elements of HTML by images, but for those that cannot be drawn.
// One whose letters the fonts lack stays SVG inside of its image, where a browser has them.
func inline(page string) string {
	return element.ReplaceAllStringFunc(page, func(drawing string) string {
		p, err := PNG(drawing)
		kind := mimePNG
		if errors.Is(err, ErrGlyph) {
			kind = mimeSVG
			p.Data = []byte(strings.Replace(drawing, "<svg", fmt.Sprintf(`<svg color="#%02x%02x%02x"`, ink.R, ink.G, ink.B), 1))
		} else if err != nil {
			return drawing
		}
		return img(kind, p.Data, html.EscapeString(p.Alt), p.Width, p.Height)
	})
}

// with returns a copy of a map with changes: names and values, of which nil removes.
func with(m map[string]any, changes ...any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, m)
	for i := 0; i < len(changes); i += 2 {
		name := changes[i].(string)
		if out[name] = changes[i+1]; out[name] == nil {
			delete(out, name)
		}
	}
	return out
}
