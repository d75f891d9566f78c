package datasets

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// MNIST returns 70,000 images of handwritten digits (LeCun, Cortes, Burges, 1998),
// 28×28×1 grayscale, in ten classes. It downloads about 11 MB and keeps 55 MB.
//
// If MNIST is not cached and no mirror answers, it returns [Fashion] instead, and
// says so in Name, StandsFor and Reason; with Options.Exact it returns an
// [UnavailableError].
func MNIST(o Options) (*Images, error) { return mnist.loadOr(o.context(), o, &fashion) }

// Fashion returns Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017): 70,000 images of
// clothes, 28×28×1 grayscale, in ten classes. It downloads 30 MB and keeps 55 MB. If
// its mirrors cannot be reached, it uses the configured package archive of a Debian
// or Ubuntu machine, without root. If that fails too, the error is an
// [UnavailableError].
func Fashion(o Options) (*Images, error) { return fashion.load(o.context(), o) }

// A collection is a data set in four IDX files.
type collection struct {
	name      string
	folder    string   // below Options.Dir
	mirrors   []string // folders that hold each file, with ".gz" behind its name
	debian    string   // package with the same files, or none
	installed string   // folder where that package puts them
	files     [4]file  // train images, train labels, test images, test labels
	classes   []string
}

// A file is known by the sum of what is in it when unpacked.
type file struct {
	name   string
	size   int64
	sha256 string
}

// The sums were compared in several independent public copies; those of
// Fashion-MNIST also with the files in Debian's package.
var mnist = collection{
	name:   "MNIST",
	folder: "mnist",
	mirrors: []string{
		"https://ossci-datasets.s3.amazonaws.com/mnist/",
		"https://storage.googleapis.com/cvdf-datasets/mnist/",
		"http://yann.lecun.com/exdb/mnist/",
	},
	files: [4]file{
		{"train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
		{"train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
		{"t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
		{"t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
	},
	classes: []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
}

var fashion = collection{
	name:   "Fashion-MNIST",
	folder: "fashion-mnist",
	mirrors: []string{
		"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
		"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
	},
	debian:    "dataset-fashion-mnist",
	installed: "/usr/share/datasets/fashion-mnist",
	files: [4]file{
		{"train-images-idx3-ubyte", 47_040_016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
		{"train-labels-idx1-ubyte", 60_008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
		{"t10k-images-idx3-ubyte", 7_840_016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
		{"t10k-labels-idx1-ubyte", 10_008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
	},
	classes: []string{"T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"},
}

// loadOr returns the collection or, where it is out of reach, its stand-in.
func (c *collection) loadOr(ctx context.Context, o Options, stand *collection) (*Images, error) {
	images, err := c.load(ctx, o)
	away := new(UnavailableError)
	if err == nil || o.Exact || ctx.Err() != nil || !errors.As(err, &away) {
		return images, err
	}
	o.Mirrors = nil // those given have the files of c
	images, other := stand.load(ctx, o)
	if also := new(UnavailableError); errors.As(other, &also) {
		away.Tried = append(away.Tried, fmt.Errorf("and no stand-in: %s", also.why()))
		return nil, away
	}
	if other != nil {
		return nil, fmt.Errorf("%w; and no stand-in: %w", err, other)
	}
	images.StandsFor, images.Reason = c.name, err.Error()
	return images, nil
}

// load returns the collection from the cache, or gets it there first.
func (c *collection) load(ctx context.Context, o Options) (*Images, error) {
	s, err := o.store(c.folder)
	if err != nil {
		return nil, err
	}
	m := &Images{Name: c.name, Classes: c.classes, Channels: 1, Source: s.dir}
	contents, err := c.cached(s)
	if err != nil {
		// Only now is the lock needed: a cache that is whole may well be
		// a read-only folder shared by many.
		unlock, lockErr := s.lock(ctx)
		if lockErr != nil {
			return nil, lockErr
		}
		defer unlock()
		if contents, err = c.fetch(ctx, s, m); err != nil {
			return nil, err
		}
	}
	if m.Train, m.Height, m.Width, err = decodeIDXSplit(contents[0], contents[1]); err == nil {
		m.Test, _, _, err = decodeIDXSplit(contents[2], contents[3])
	}
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", c.name, err)
	}
	return m, m.check()
}

// cached reads what is kept. It fails if one file is missing or wrong.
func (c *collection) cached(s *store) (contents [4][]byte, err error) {
	for i, f := range c.files {
		if contents[i], err = s.read(f); err != nil {
			return contents, err
		}
	}
	return contents, nil
}

// fetch gets each file that is missing or damaged, by the first road that
// leads there: the folder itself, packed files placed in it, an installed
// package, the mirrors, the package archive.
func (c *collection) fetch(ctx context.Context, s *store, m *Images) (contents [4][]byte, err error) {
	var damages, tried []error
	var missing []file
	for _, f := range c.files {
		_, err := s.read(f)
		if damaged := new(ChecksumError); errors.As(err, &damaged) {
			m.Warnings = append(m.Warnings, fmt.Sprintf("%v; fetched again", err))
			damages = append(damages, err)
		}
		if err != nil && s.unpackFile(f, filepath.Join(s.dir, f.name+".gz")) != nil {
			missing = append(missing, f)
		}
	}
	roads := []func(context.Context, *store, []file) (string, error){c.fromInstalled, c.fromMirrors, c.fromArchive}
	for _, road := range roads {
		if len(missing) == 0 {
			break
		}
		source, err := road(ctx, s, missing)
		if ctx.Err() != nil {
			return contents, fmt.Errorf("datasets: %s: %w", c.name, context.Cause(ctx))
		}
		if err != nil {
			tried = append(tried, err)
			continue
		}
		if source != "" {
			m.Source = source
			missing = nil
		}
	}
	if len(missing) > 0 {
		return contents, &UnavailableError{Name: c.name, Dir: s.dir, Files: names(missing), Tried: append(damages, tried...)}
	}
	return c.cached(s)
}

func (c *collection) fromMirrors(ctx context.Context, s *store, missing []file) (string, error) {
	var all []download
	for _, f := range missing {
		// No gzip of the file is larger than the file by more than a little.
		all = append(all, download{f.name + ".gz", f.name, f.size + f.size/100 + 1<<16, func(packed string) error { return s.unpackFile(f, packed) }})
	}
	return s.fromMirrors(ctx, c.mirrors, all)
}

func names(files []file) []string {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = f.name
	}
	return all
}
