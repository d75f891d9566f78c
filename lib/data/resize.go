package data

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"

	"golang.org/x/image/draw"
)

// resize writes an image's pixels, each the mean of the part of the image that it covers,
// or interpolated between neighbours where the image becomes larger. What is transparent is
// black.
func resize(to []byte, img image.Image, height, width, channels int) {
	b := img.Bounds()
	scaled := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.BiLinear.Scale(scaled, scaled.Rect, img, b, draw.Src, nil)
	for i := range height * width {
		p := scaled.Pix[4*i:]
		if channels == 1 {
			to[i] = color.GrayModel.Convert(color.RGBA{p[0], p[1], p[2], 255}).(color.Gray).Y
		} else {
			copy(to[3*i:], p[:3])
		}
	}
}

// orientation is how a camera was held, as the EXIF data of a JPEG or PNG file say: 1 to 8, 1
// where they say nothing.
func orientation(b []byte) int {
	if rest, is := bytes.CutPrefix(b, []byte("\x89PNG\r\n\x1a\n")); is {
		for len(rest) >= 12 { // a chunk: length, name, data, checksum
			size := int64(binary.BigEndian.Uint32(rest))
			switch {
			case 12+size > int64(len(rest)):
				return 1
			case string(rest[4:8]) == "eXIf":
				return exifOrientation(rest[8 : 8+size])
			}
			rest = rest[12+size:]
		}
		return 1
	}
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
