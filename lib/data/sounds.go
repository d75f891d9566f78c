package data

import (
	"cmp"
	"fmt"
	"html"
	"iter"
	"strings"
)

// Sounds reads a folder with a folder of WAV files for each class.
type Sounds struct {
	Rate    int      // of all, which are resampled; default: that of the first one, and others are refused
	Samples int      // of all: longer ones are cut, and silence follows shorter ones; default: those of the longest
	Mono    bool     // one channel, the mean of those of the file
	Classes []string // by label, such as those of the training sounds; default: the folders, in alphabetical order
}

// SoundSet is what Sounds has read, ordered by class and file.
type SoundSet struct {
	Examples // X: samples [n Samples Channels]; Y: labels
	Classes  []string
	Files    []string

	Rate, Samples, Channels int
}

// String describes the set.
func (s *SoundSet) String() string {
	return fmt.Sprintf("%d sounds of %d samples at %d Hz, %d channels, %d classes: %s", len(s.Files), s.Samples, s.Rate, s.Channels, len(s.Classes), strings.Join(s.Classes, ", "))
}

// HTML describes the set and its arrays.
func (s *SoundSet) HTML() string {
	return "<div><div><small>" + html.EscapeString(s.String()) + "</small></div>" + s.Examples.HTML() + "</div>"
}

// Names are the classes of labels, such as a prediction's.
func (s *SoundSet) Names(labels []int32) []string { return namesOf(s.Classes, labels) }

// Read reads the folder. A file that is not a WAV file is an error, but for those whose names begin
// with a dot.
func (o Sounds) Read(dir string) (*SoundSet, error) {
	f, s, err := o.open(dir)
	if err != nil {
		return nil, err
	}
	s.Examples, err = o.read(f, s)
	return s, err
}

// Stream reads the folder while a net is trained, for package fit's Stream: so many files at
// a time, in an order that the seed decides, another one in each epoch. Samples has to be
// set. The set has no examples.
func (o Sounds) Stream(dir string, files int, seed int64) (iter.Seq2[Examples, error], *SoundSet, error) {
	if o.Samples == 0 {
		return nil, nil, fmt.Errorf("data: Sounds.Stream of %s: Samples is 0: want how many each sound has", dir)
	}
	f, s, err := o.open(dir)
	if err == nil && files < 1 {
		err = noFiles("Sounds", files)
	}
	if err != nil {
		return nil, nil, err
	}
	return f.stream(files, seed, func(f folder) (Examples, error) { return o.read(f, s) }), s, nil
}

func (o Sounds) open(dir string) (folder, *SoundSet, error) {
	if o.Rate < 0 || o.Samples < 0 {
		return folder{}, nil, fmt.Errorf("data: Sounds at %d Hz of %d samples: want more than 0 of each, or 0 for the default", o.Rate, o.Samples)
	}
	f, err := readFolder(dir, "WAV files", o.Classes)
	if err != nil {
		return f, nil, err
	}
	first, err := WAV(f.files[0])
	if err != nil {
		return f, nil, err
	}
	s := &SoundSet{Classes: f.classes, Files: f.files, Rate: o.Rate, Samples: o.Samples, Channels: first.Channels}
	if o.Mono {
		s.Channels = 1
	}
	s.Rate = cmp.Or(s.Rate, first.Rate)
	return f, s, nil
}

// read reads the files of a folder, and sets the length if there is none.
func (o Sounds) read(f folder, s *SoundSet) (Examples, error) {
	all := make([]*Sound, len(f.files))
	err := f.all(func(i int) error {
		sound, err := WAV(f.files[i])
		if err == nil {
			all[i], err = o.like(sound, s.Rate, s.Channels)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.files[i], err)
		}
		return nil
	})
	if err != nil {
		return Examples{}, err
	}
	if s.Samples == 0 {
		for _, sound := range all {
			s.Samples = max(s.Samples, sound.Len())
		}
	}
	size := s.Samples * s.Channels
	if len(all) > 1<<34/size {
		return Examples{}, fmt.Errorf("data: %d sounds of %d samples, the longest: want fewer in Samples, or Sounds.Stream", len(all), s.Samples)
	}
	x := make([]float32, len(all)*size)
	for i, sound := range all {
		copy(x[i*size:(i+1)*size], sound.Samples)
	}
	return Examples{N: len(all), X: Array{[]int{len(all), s.Samples, s.Channels}, x}, Y: f.labels, Encoder: &Encoder{Classes: f.classes}}, nil
}

// like is the sound with so many channels, and at a rate.
func (o Sounds) like(s *Sound, rate, channels int) (*Sound, error) {
	if o.Mono && s.Channels > 1 {
		mono := make([]float32, s.Len())
		for i := range mono {
			for _, v := range s.Samples[i*s.Channels : (i+1)*s.Channels] {
				mono[i] += v / float32(s.Channels)
			}
		}
		s = &Sound{s.Rate, 1, mono}
	}
	if s.Channels != channels {
		return nil, fmt.Errorf("%d channels, want %d, as the first file has: set Mono", s.Channels, channels)
	}
	if s.Rate == rate {
		return s, nil
	}
	if o.Rate == 0 {
		return nil, fmt.Errorf("%d Hz, want %d, as the first file has: set Rate to resample all", s.Rate, rate)
	}
	length := max(1, int(float64(s.Len())*float64(rate)/float64(s.Rate)+0.5))
	if length > 1<<30/channels {
		return nil, fmt.Errorf("%d samples at %d Hz: want fewer", length, rate)
	}
	to := make([]float32, 0, length*channels)
	for _, t := range weights(length, s.Len()) {
		for c := range channels {
			v := float32(0)
			for i, w := range t.of {
				v += w * s.Samples[(t.from+i)*channels+c]
			}
			to = append(to, v)
		}
	}
	return &Sound{rate, channels, to}, nil
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
