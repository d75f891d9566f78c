package datasets

import (
	"fmt"
	"strings"
)

// Images is a set of labelled pictures of one size, ready to upload. It is plain
// memory, which one cell can hand on to the next.
type Images struct {
	// Name says what the pictures are: "MNIST", "Fashion-MNIST", "CIFAR-10",
	// "synthetic 28×28×1 (seed 1)". Show it wherever results are shown.
	Name string

	// StandsFor names the data set that was asked for where this one is a
	// stand-in, else it is empty. Reason then says why.
	StandsFor string
	Reason    string

	Train, Test Split

	// Classes has a name for each label.
	Classes []string

	// Height, Width and Channels are those of each picture.
	Height, Width, Channels int

	// Source says where the files came from in this load: a cache, a mirror,
	// a package.
	Source string

	// Warnings are findings that did not stop the load, such as a damaged
	// file that was fetched again.
	Warnings []string
}

// Title is the name for headings: Name, with what it stands for.
func (m *Images) Title() string {
	if m.StandsFor == "" {
		return m.Name
	}
	return fmt.Sprintf("%s (in place of %s)", m.Name, m.StandsFor)
}

// String describes the set in a line, with a line for each thing that the
// reader should know about it.
func (m *Images) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s train and %s test images, %d×%d×%d, %d classes", m.Title(),
		thousands(m.Train.Len()), thousands(m.Test.Len()), m.Height, m.Width, m.Channels, len(m.Classes))
	if m.StandsFor != "" {
		fmt.Fprintf(&b, "\n  note: %s is neither on this machine nor within reach; see Reason", m.StandsFor)
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(&b, "\n  warning: %s", w)
	}
	return b.String()
}

// Size is the number of bytes of one picture.
func (m *Images) Size() int { return m.Height * m.Width * m.Channels }

// Class names a label; a label outside Classes is shown as its number.
func (m *Images) Class(label int32) string {
	if label >= 0 && int(label) < len(m.Classes) {
		return m.Classes[label]
	}
	return fmt.Sprint(label)
}

// First returns the set cut to at most train and test pictures, in order. It
// shares the memory of m: pictures are not copied.
func (m *Images) First(train, test int) *Images {
	cut := *m
	cut.Train, cut.Test = m.Train.first(train, m.Size()), m.Test.first(test, m.Size())
	return &cut
}

// A Split is the part of a set to train on, or the part to test on.
type Split struct {
	// Pixels is shaped [n height width channels], 0 to 255.
	Pixels []byte
	// Labels is shaped [n].
	Labels []int32
}

// Len is the number of pictures.
func (s Split) Len() int { return len(s.Labels) }

// Image returns the pixels of picture i without copying them, shaped
// [height width channels]; nil when there is no picture i.
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

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
