package datasets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// CIFAR-10 in its binary version: six files of 10,000 records, each a label
// and then 1,024 bytes of red, of green and of blue.
// Source: https://www.cs.toronto.edu/~kriz/cifar.html ("Binary version").
const (
	cifarSide   = 32
	cifarPlane  = cifarSide * cifarSide
	cifarRecord = 1 + 3*cifarPlane
	cifarBatch  = 10_000 // records in each file
)

// An archive is a data set in one packed tar, whose published sum is that of
// the packed file. Unpacking it takes a second, so it is done once and the sum
// of the result is kept next to it.
type archive struct {
	name     string
	folder   string
	mirrors  []string
	packed   file
	members  []string // in this order in the unpacked file
	unpacked string
	member   int64 // bytes of each member
	classes  []string
}

var cifar10 = archive{
	name:    "CIFAR-10",
	folder:  "cifar10",
	mirrors: []string{"https://www.cs.toronto.edu/~kriz/", "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets/"},
	packed:  file{"cifar-10-binary.tar.gz", 170_052_171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
	members: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
	member:  cifarBatch * cifarRecord,

	unpacked: "cifar-10.bin",
	classes:  []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
}

// CIFAR10 returns 60,000 color images (Krizhevsky, 2009), 32×32×3 with channels last,
// in ten classes. It downloads 170 MB and keeps 184 MB. If the data cannot be
// downloaded, the error is an [UnavailableError]; [Synthetic](seed, n, 32, 32, 3) has
// the same shapes.
func CIFAR10(o Options) (*Images, error) { return cifar10.load(o.context(), o) }

func (a *archive) load(ctx context.Context, o Options) (*Images, error) {
	s, err := o.store(a.folder)
	if err != nil {
		return nil, err
	}
	m := &Images{Name: a.name, Classes: a.classes, Height: cifarSide, Width: cifarSide, Channels: 3, Source: s.dir}
	records, err := a.cached(s)
	if err != nil {
		unlock, lockErr := s.lock(ctx)
		if lockErr != nil {
			return nil, lockErr
		}
		defer unlock()
		if records, err = a.fetch(ctx, s, m); err != nil {
			return nil, err
		}
	}
	train := int64(len(a.members)-1) * a.member
	if m.Train, err = decodeCIFAR(records[:train]); err == nil {
		m.Test, err = decodeCIFAR(records[train:])
	}
	if err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", a.name, err)
	}
	return m, m.check()
}

// cached reads the unpacked file, if it still has the sum that it was given
// when it was unpacked.
func (a *archive) cached(s *store) ([]byte, error) {
	sum, err := os.ReadFile(filepath.Join(s.dir, a.unpacked+".sha256"))
	if err != nil {
		return nil, err
	}
	return s.read(file{a.unpacked, int64(len(a.members)) * a.member, strings.TrimSpace(string(sum))})
}

func (a *archive) fetch(ctx context.Context, s *store, m *Images) ([]byte, error) {
	var tried []error
	noteDamage := func(err error) {
		if damaged := new(ChecksumError); errors.As(err, &damaged) {
			m.Warnings = append(m.Warnings, fmt.Sprintf("%v; fetched again", err))
			tried = append(tried, err)
		}
	}
	records, err := a.cached(s)
	if err == nil {
		return records, nil
	}
	noteDamage(err)
	placed := filepath.Join(s.dir, a.packed.name)
	take := func(packed string) error { return a.unpack(s, packed) }
	if err := take(placed); err != nil {
		noteDamage(err)
		source, err := s.fromMirrors(ctx, a.mirrors, []download{{a.packed.name, a.packed.name, a.packed.size, take}})
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("datasets: %s: %w", a.name, context.Cause(ctx))
		case err != nil:
			return nil, &UnavailableError{Name: a.name, Dir: s.dir, Files: []string{a.packed.name}, Tried: append(tried, err)}
		}
		m.Source = source
	}
	os.Remove(placed) // half of the room, and never read again
	return a.cached(s)
}

// unpack writes the members of a packed file that has the right sum, one after the other,
// into one file.
func (a *archive) unpack(s *store, packed string) error {
	in, err := open(packed, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	packedHash := sha256.New()
	if _, err := io.Copy(packedHash, in); err != nil {
		return err
	}
	if got := hex.EncodeToString(packedHash.Sum(nil)); got != a.packed.sha256 {
		return &ChecksumError{File: packed, Got: got, Want: a.packed.sha256}
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	found := map[string][]byte{}
	for t := tar.NewReader(z); len(found) < len(a.members); {
		header, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		name := path.Base(header.Name)
		if !slices.Contains(a.members, name) {
			continue
		}
		if header.Size != a.member {
			return fmt.Errorf("%s has %d bytes, want %d", name, header.Size, a.member)
		}
		data := make([]byte, a.member)
		if _, err := io.ReadFull(t, data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found[name] = data
	}
	var parts []io.Reader
	hash := sha256.New()
	for _, name := range a.members {
		if found[name] == nil {
			return fmt.Errorf("the archive lacks %s", name)
		}
		hash.Write(found[name])
		parts = append(parts, bytes.NewReader(found[name]))
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	whole := file{a.unpacked, int64(len(a.members)) * a.member, sum}
	if err := s.write(whole, io.MultiReader(parts...)); err != nil {
		return err
	}
	// The sum comes last: without it the file counts as not there.
	return os.WriteFile(filepath.Join(s.dir, a.unpacked+".sha256"), []byte(sum+"\n"), 0o644)
}

// decodeCIFAR turns records with one plane for each color into images with
// channels last.
func decodeCIFAR(records []byte) (Split, error) {
	if len(records)%cifarRecord != 0 {
		return Split{}, fmt.Errorf("cifar: got %d bytes, want a multiple of %d", len(records), cifarRecord)
	}
	n := len(records) / cifarRecord
	s := Split{Pixels: make([]byte, n*3*cifarPlane), Labels: make([]int32, n)}
	for i := range n {
		record := records[i*cifarRecord : (i+1)*cifarRecord]
		s.Labels[i] = int32(record[0])
		planes, picture := record[1:], s.Pixels[i*3*cifarPlane:(i+1)*3*cifarPlane]
		for p := range cifarPlane {
			picture[3*p], picture[3*p+1], picture[3*p+2] = planes[p], planes[cifarPlane+p], planes[2*cifarPlane+p]
		}
	}
	return s, nil
}
