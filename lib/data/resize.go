package data

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
)

// resize writes an image's pixels, each the mean of the part of the image that it covers,
// or interpolated between neighbours where the image becomes larger. What is transparent is
// black.
func resize(to []byte, img image.Image, height, width, channels int) {
	b := img.Bounds()
	var from []byte // rows of pixels, of 4 bytes each or of 1
	per := 4
	switch g := img.(type) {
	case *image.Gray:
		from, per = g.Pix, 1
		if g.Stride != b.Dx() {
			from = nil
		}
	case *image.RGBA:
		if from = g.Pix; g.Stride != 4*b.Dx() {
			from = nil
		}
	}
	if from == nil {
		all := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
		draw.Draw(all, all.Bounds(), img, b.Min, draw.Src)
		from, per = all.Pix, 4
	}
	if channels == 1 && per == 4 {
		gray := make([]byte, b.Dx()*b.Dy())
		for i := range gray {
			p := from[4*i:]
			gray[i] = color.GrayModel.Convert(color.RGBA{p[0], p[1], p[2], 255}).(color.Gray).Y
		}
		from, per = gray, 1
	}
	// First the columns, then the rows.
	columns, rows := weights(width, b.Dx()), weights(height, b.Dy())
	narrow := make([]float32, b.Dy()*width*channels)
	for y := range b.Dy() {
		for x, t := range columns {
			for i, w := range t.of {
				p := from[(y*b.Dx()+t.from+i)*per:]
				for c := range channels {
					narrow[(y*width+x)*channels+c] += w * float32(p[c%per])
				}
			}
		}
	}
	line := make([]float32, width*channels)
	for y, t := range rows {
		clear(line)
		for i, w := range t.of {
			for k, v := range narrow[(t.from+i)*len(line):][:len(line)] {
				line[k] += w * v
			}
		}
		for k, v := range line {
			to[y*len(line)+k] = byte(min(255, v+0.5))
		}
	}
}

// taps are the neighbours that a pixel is made of, from one on.
type taps struct {
	from int
	of   []float32
}

// weights are those of a triangle filter, as wide as a pixel of the result or of the image,
// whichever is larger. Beyond its edges, an image is as at its edges.
func weights(size, of int) []taps {
	scale := float64(of) / float64(size)
	reach := max(scale, 1)
	l := make([]taps, size)
	for i := range l {
		centre := (float64(i)+0.5)*scale - 0.5
		t, sum := taps{from: -1}, float32(0)
		for k := int(centre-reach) - 1; k <= int(centre+reach)+1; k++ {
			w := float32(max(0, 1-max(float64(k)-centre, centre-float64(k))/reach))
			if w == 0 {
				continue
			}
			at := min(max(k, 0), of-1)
			if t.from < 0 {
				t.from = at
			}
			if at-t.from == len(t.of) {
				t.of = append(t.of, 0)
			}
			t.of[at-t.from], sum = t.of[at-t.from]+w, sum+w
		}
		for k := range t.of {
			t.of[k] /= sum
		}
		l[i] = t
	}
	return l
}

// orientation is how a camera was held, as the EXIF data of a JPEG file say: 1 to 8, 1 where
// they say nothing.
func orientation(b []byte) int {
	if !bytes.HasPrefix(b, []byte{0xff, 0xd8}) {
		return 1
	}
	for at := 2; at+4 <= len(b) && b[at] == 0xff && b[at+1] != 0xda; {
		size := int(binary.BigEndian.Uint16(b[at+2:]))
		segment := b[at+4 : min(len(b), at+2+max(size, 2))]
		if b[at+1] == 0xe1 && bytes.HasPrefix(segment, []byte("Exif\x00\x00")) {
			return exifOrientation(segment[6:])
		}
		at += 2 + max(size, 2)
	}
	return 1
}

func exifOrientation(b []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	if bytes.HasPrefix(b, []byte("MM")) {
		order = binary.BigEndian
	}
	if len(b) < 8 {
		return 1
	}
	at := int64(order.Uint32(b[4:]))
	if at+2 > int64(len(b)) {
		return 1
	}
	for entry := b[at+2:]; len(entry) >= 12; entry = entry[12:] {
		if order.Uint16(entry) == 0x112 {
			if v := int(order.Uint16(entry[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
	}
	return 1
}

// turned is an image as it is to be seen.
func turned(img image.Image, orientation int) image.Image {
	if orientation == 1 {
		return img
	}
	b := img.Bounds()
	height, width := b.Dy(), b.Dx()
	if orientation > 4 {
		height, width = width, height
	}
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			fromX, fromY := x, y
			switch orientation {
			case 2:
				fromX = width - 1 - x
			case 3:
				fromX, fromY = width-1-x, height-1-y
			case 4:
				fromY = height - 1 - y
			case 5:
				fromX, fromY = y, x
			case 6: // the camera's top is to the right
				fromX, fromY = y, width-1-x
			case 7:
				fromX, fromY = height-1-y, width-1-x
			case 8:
				fromX, fromY = height-1-y, x
			}
			to.Set(x, y, img.At(b.Min.X+fromX, b.Min.Y+fromY))
		}
	}
	return to
}
