package report

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// What is written beside bars stays in the picture, however long it is.
func TestBarsLongText(t *testing.T) {
	long := strings.Repeat("long ", 60)
	for _, b := range []Bars{
		{Title: long, Bars: []Bar{{Name: long, Value: 1, Text: long}, {Name: "b", Value: 0.5}}},
		{Title: "narrow", Width: 200, Bars: []Bar{{Name: long, Value: 1}, {Name: "b", Value: 1, Text: long}}},
		{Bars: []Bar{{Name: "short", Value: 3, Text: "3 ms 100 %"}}},
	} {
		width, texts := 640.0, 0
		if b.Width > 0 {
			width = float64(b.Width)
		}
		var x, size float64
		var anchor string
		d := xml.NewDecoder(strings.NewReader(b.HTML()))
		for inside := false; ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch e := token.(type) {
			case xml.StartElement:
				inside, size = e.Name.Local == "text", 12
				for _, a := range e.Attr {
					switch a.Name.Local {
					case "x":
						x, _ = strconv.ParseFloat(a.Value, 64)
					case "font-size":
						size, _ = strconv.ParseFloat(a.Value, 64)
					case "text-anchor":
						anchor = a.Value
					}
				}
			case xml.CharData:
				if !inside || len(e) == 0 {
					continue
				}
				texts++
				wide := charWidth * size / 12 * float64(utf8.RuneCount(e))
				left := map[string]float64{"start": x, "middle": x - wide/2, "end": x - wide}[anchor]
				if left < 0 || left+wide > width {
					t.Errorf("%q reaches from %.0f to %.0f, want it between 0 and %.0f", e, left, left+wide, width)
				}
			case xml.EndElement:
				inside = false
			}
		}
		if texts < 2*len(b.Bars) {
			t.Errorf("%d texts in %s, want %d or more", texts, b.HTML(), 2*len(b.Bars))
		}
	}
}
