package report

import (
	"fmt"
	"math"
)

// Points of viridis (van der Walt and Smith, "mpl colormaps", 2015), which runs
// evenly from dark to light: it reads in print, and to colour-blind readers.
var viridis = [...][3]float64{
	{68, 1, 84}, {72, 40, 120}, {62, 74, 137}, {49, 104, 142}, {38, 130, 142},
	{31, 158, 137}, {53, 183, 121}, {110, 206, 88}, {181, 222, 43}, {253, 231, 37},
}

// shade is the colour for a share between 0 and 1.
func shade(share float64) string {
	r, g, b := rgb(share)
	return fmt.Sprintf("#%02x%02x%02x", r, g, b)
}

func rgb(share float64) (r, g, b uint8) {
	at := min(max(share, 0), 1) * float64(len(viridis)-1)
	i := min(int(at), len(viridis)-2)
	part := func(c int) uint8 {
		return uint8(math.Round(viridis[i][c] + (at-float64(i))*(viridis[i+1][c]-viridis[i][c])))
	}
	return part(0), part(1), part(2)
}

// ink is black or white, whichever has more contrast on shade(share): never less
// than 4.5, as the relative luminance at which both have the same is 0.179
// (Web Content Accessibility Guidelines 2.2, "relative luminance").
func ink(share float64) string {
	linear := func(c uint8) float64 {
		if v := float64(c) / 255; v > 0.04045 {
			return math.Pow((v+0.055)/1.055, 2.4)
		} else {
			return v / 12.92
		}
	}
	r, g, b := rgb(share)
	if 0.2126*linear(r)+0.7152*linear(g)+0.0722*linear(b) > 0.179 {
		return "#000"
	}
	return "#fff"
}
