package raster

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
)

// frameOf finds the size of an image and its text.
var frameOf = regexp.MustCompile(`^<svg[^>]* width="(\d+)" height="(\d+)"[^>]* aria-label="([^"]*)"`)

// Live is Complete for an output that changes several times a second, which PNG would cost
// more than what it shows: each svg element becomes an img with SVG inside, on white, which
// untrusted notebooks show, too.
func Live(data map[string]any) map[string]any {
	page, _ := data[mimeHTML].(string)
	if active.MatchString(page) || !element.MatchString(page) {
		return data
	}
	return with(data, mimeHTML, element.ReplaceAllStringFunc(page, func(drawing string) string {
		f := frameOf.FindStringSubmatch(drawing)
		if f == nil {
			return drawing
		}
		return img(mimeSVG, []byte(strings.Replace(drawing, "<svg", fmt.Sprintf(`<svg color="#%02x%02x%02x"`, ink.R, ink.G, ink.B), 1)), f[3], f[1], f[2])
	}))
}

// img is an image in HTML; alt is HTML already.
func img(mime string, data []byte, alt string, width, height any) string {
	return fmt.Sprintf(`<img src="data:%s;base64,%s" alt="%s" width="%v" height="%v" style="max-width:100%%;height:auto;background:#fff;border-radius:%dpx">`,
		mime, base64.StdEncoding.EncodeToString(data), alt, width, height, corner)
}
