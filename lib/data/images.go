package data

import (
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // formats that Read knows
	_ "image/jpeg" //
	_ "image/png"  //
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Images reads a folder with a folder of PNG, JPEG or GIF files for each class.
type Images struct {
	Height, Width int  // of all images, which are resized; default: those of the first one
	Gray          bool // one channel, in place of red, green and blue
}

// ImageSet is what Images has read, ordered by class and file.
type ImageSet struct {
	Examples                         // X: pixels [n height width channels]; Y: labels
	Classes                 []string // by label: the folders, in alphabetical order
	Files                   []string
	Height, Width, Channels int
}

// String describes the set.
func (s *ImageSet) String() string {
	return fmt.Sprintf("%d images, %d×%d×%d, %d classes", s.N, s.Height, s.Width, s.Channels, len(s.Classes))
}

// Read reads the folder. A file that is no image is an error, but for those whose names begin
// with a dot.
func (o Images) Read(dir string) (*ImageSet, error) {
	if o.Height < 0 || o.Width < 0 || (o.Height == 0) != (o.Width == 0) {
		return nil, fmt.Errorf("data: Images of %d×%d: want Height and Width, or neither for the size of the first image", o.Height, o.Width)
	}
	classes, err := visible(dir)
	if err != nil {
		return nil, err
	}
	s := &ImageSet{Height: o.Height, Width: o.Width, Channels: 3}
	if o.Gray {
		s.Channels = 1
	}
	var pixels []byte
	var labels []int32
	for _, c := range classes {
		if !c.IsDir() {
			return nil, fmt.Errorf("data: %s: got a file, want a folder for each class in %s", filepath.Join(dir, c.Name()), dir)
		}
		files, err := visible(filepath.Join(dir, c.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			path := filepath.Join(dir, c.Name(), f.Name())
			img, err := decode(path)
			if err != nil {
				return nil, fmt.Errorf("data: %s: %w", path, err)
			}
			if s.Height == 0 {
				s.Height, s.Width = img.Bounds().Dy(), img.Bounds().Dx()
			}
			pixels = resized(pixels, img, s.Height, s.Width, o.Gray)
			labels, s.Files = append(labels, int32(len(s.Classes))), append(s.Files, path)
		}
		s.Classes = append(s.Classes, c.Name())
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("data: %s: no images: want a folder with PNG, JPEG or GIF files for each class", dir)
	}
	s.N, s.X, s.Y = len(labels), Array{[]int{len(labels), s.Height, s.Width, s.Channels}, pixels}, labels
	return s, nil
}

// visible are the entries of a folder whose names begin with no dot, by name.
func visible(dir string) ([]os.DirEntry, error) {
	l, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return slices.DeleteFunc(l, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }), nil
}

func decode(path string) (image.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err == nil && img.Bounds().Empty() {
		err = fmt.Errorf("an image of %v: want pixels", img.Bounds().Size())
	}
	return img, err
}

// resized adds an image's pixels, each the mean of the part of the image that it covers,
// or interpolated between neighbours where the image becomes larger.
func resized(to []byte, img image.Image, height, width int, gray bool) []byte {
	b := img.Bounds()
	at := func(y, x int) [3]float64 {
		r, g, bl, _ := img.At(b.Min.X+min(max(x, 0), b.Dx()-1), b.Min.Y+min(max(y, 0), b.Dy()-1)).RGBA()
		if gray {
			v := color.GrayModel.Convert(color.RGBA64{uint16(r), uint16(g), uint16(bl), 0xffff}).(color.Gray).Y
			return [3]float64{float64(v)}
		}
		return [3]float64{float64(r) / 257, float64(g) / 257, float64(bl) / 257}
	}
	rows, columns := weights(height, b.Dy()), weights(width, b.Dx())
	channels := 3
	if gray {
		channels = 1
	}
	for y := range height {
		for x := range width {
			var sum [3]float64
			for i, wy := range rows[y].of {
				for j, wx := range columns[x].of {
					for c, v := range at(rows[y].from+i, columns[x].from+j) {
						sum[c] += wy * wx * v
					}
				}
			}
			for c := range channels {
				to = append(to, byte(min(255, sum[c]+0.5)))
			}
		}
	}
	return to
}

// taps are the neighbours that a pixel is made of, from one on.
type taps struct {
	from int
	of   []float64
}

// weights are those of a triangle filter, as wide as a pixel of the result or of the image,
// whichever is larger.
func weights(size, of int) []taps {
	scale := float64(of) / float64(size)
	reach := max(scale, 1)
	l := make([]taps, size)
	for i := range l {
		centre := (float64(i)+0.5)*scale - 0.5
		first, last, sum := int(centre-reach)-1, int(centre+reach)+1, 0.0
		t := taps{}
		for k := first; k <= last; k++ {
			w := max(0, 1-max(float64(k)-centre, centre-float64(k))/reach)
			if w == 0 && len(t.of) == 0 {
				continue
			}
			if len(t.of) == 0 {
				t.from = k
			}
			t.of, sum = append(t.of, w), sum+w
		}
		for k := range t.of {
			t.of[k] /= sum
		}
		l[i] = t
	}
	return l
}
