package datasets

import (
	"fmt"
	"strings"

	"gaiden/lib/data"
	"gaiden/lib/timing/units"
)

// Images is a set of labeled images of one size, ready to upload. It is plain memory,
// which a notebook can keep for the next cell.
type Images struct {
	// Name is the data set: "MNIST", "Fashion-MNIST", "CIFAR-10", "synthetic 28×28×1
	// (seed 1)". Show it with all results.
	Name string

	// StandsFor is the data set that was requested if this one is a substitute, else
	// it is empty. Reason then says why.
	StandsFor string
	Reason    string

	Train, Test Split

	// Classes is the name of each class, by label.
	Classes []string

	// Height, Width and Channels are the dimensions of each image.
	Height, Width, Channels int

	// Source says where this load found the files: a cache, a mirror, a package.
	Source string

	// Warnings are problems that did not stop the load, such as a damaged file that
	// was downloaded again.
	Warnings []string
}

// Title returns the name for headings: Name, and what it is a substitute for.
func (m *Images) Title() string {
	if m.StandsFor == "" {
		return m.Name
	}
	return fmt.Sprintf("%s (in place of %s)", m.Name, m.StandsFor)
}

// String describes the set on one line, then each warning on a line of its own.
func (m *Images) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s train and %s test images, %d×%d×%d, %d classes", m.Title(),
		units.Count(m.Train.Len()), units.Count(m.Test.Len()), m.Height, m.Width, m.Channels, len(m.Classes))
	if m.StandsFor != "" {
		fmt.Fprintf(&b, "\n  note: %s is neither on this machine nor within reach; see Reason", m.StandsFor)
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(&b, "\n  warning: %s", w)
	}
	return b.String()
}

// HTML shows the description, and the first training images of each class.
func (m *Images) HTML() string {
	return data.Thumbnails{Title: m.String(), Classes: m.Classes, Labels: m.Train.Labels, Pixels: m.Train.Pixels, Height: m.Height, Width: m.Width, Channels: m.Channels}.HTML()
}

// Size returns the number of bytes of one image.
func (m *Images) Size() int { return m.Height * m.Width * m.Channels }

// Class returns the name of a label, or the number itself if Classes has no such
// label.
func (m *Images) Class(label int32) string {
	if label >= 0 && int(label) < len(m.Classes) {
		return m.Classes[label]
	}
	return fmt.Sprint(label)
}

// First returns at most the first train and test images of the set. It shares the
// memory of m: images are not copied.
func (m *Images) First(train, test int) *Images {
	cut := *m
	cut.Train, cut.Test = m.Train.first(train, m.Size()), m.Test.first(test, m.Size())
	return &cut
}

// A Split is the training part or the test part of a set.
type Split struct {
	// Pixels is shaped [n height width channels], 0 to 255.
	Pixels []byte
	// Labels is shaped [n].
	Labels []int32
}

// Len returns the number of images.
func (s Split) Len() int { return len(s.Labels) }

// String describes the images.
func (s Split) String() string {
	if s.Len() == 0 {
		return "no images"
	}
	labels := strings.Trim(fmt.Sprint(s.Labels[:min(s.Len(), 16)]), "[]")
	if s.Len() > 16 {
		labels += " …"
	}
	return fmt.Sprintf("%s images of %s bytes, labels %s", units.Count(s.Len()), units.Count(len(s.Pixels)/s.Len()), labels)
}

// Data is the images as examples, flat, and their labels.
func (s Split) Data() data.Examples { return data.Examples{X: s.Pixels, Y: s.Labels, N: s.Len()} }

// Image returns the pixels of image i without copying them, shaped [height width
// channels]; nil if there is no image i.
func (s Split) Image(i int) []byte {
	if i < 0 || i >= s.Len() {
		return nil
	}
	size := len(s.Pixels) / s.Len()
	return s.Pixels[i*size : (i+1)*size : (i+1)*size]
}

func (s Split) first(n, size int) Split {
	n = max(0, min(n, s.Len()))
	return Split{Pixels: s.Pixels[: n*size : n*size], Labels: s.Labels[:n:n]}
}

// check proves what every user of Images relies on, so that a wrong file is
// an error here and not a strange result in a training run.
func (m *Images) check() error {
	for _, part := range []struct {
		name  string
		split Split
	}{{"train", m.Train}, {"test", m.Test}} {
		if got, want := len(part.split.Pixels), part.split.Len()*m.Size(); got != want {
			return fmt.Errorf("datasets: %s: %s has %d bytes of pixels, want %d for %d images of %d×%d×%d",
				m.Name, part.name, got, want, part.split.Len(), m.Height, m.Width, m.Channels)
		}
		for i, label := range part.split.Labels {
			if label < 0 || int(label) >= len(m.Classes) {
				return fmt.Errorf("datasets: %s: %s label %d is %d, want 0 to %d", m.Name, part.name, i, label, len(m.Classes)-1)
			}
		}
	}
	return nil
}
