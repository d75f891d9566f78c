package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Checkpoint is the arrays of a model: those of one file, or of several that an index
// joins.
type Checkpoint struct {
	Tensors []Tensor
	files   []*File
	from    []place
}

// place is where a tensor of a Checkpoint is.
type place struct{ file, number int }

// The names that files of a checkpoint have, as Hugging Face's libraries write them.
const (
	oneFile  = "model.safetensors"
	indexEnd = ".safetensors.index.json"
)

var shardName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.safetensors$`)

// OpenCheckpoint opens a safetensors file, an index of several
// (model.safetensors.index.json), or a directory that holds model.safetensors, else one
// index, else one file. A file of several that was named alone is refused.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if st.IsDir() {
		if path, err = inDirectory(path); err != nil {
			return nil, err
		}
	}
	c := &Checkpoint{}
	if strings.HasSuffix(path, ".json") {
		err = c.openShards(path)
	} else if m := shardName.FindStringSubmatch(filepath.Base(path)); m != nil && m[3] != "00001" {
		err = fmt.Errorf("safetensors: %s is one file of %s: give the index, %s%s, or its directory", filepath.Base(path), strings.TrimLeft(m[3], "0"), m[1], indexEnd)
	} else {
		_, err = c.open(path)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// inDirectory is the file of a directory to open.
func inDirectory(dir string) (string, error) {
	l, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("safetensors: %w", err)
	}
	var files, indexes []string
	for _, e := range l {
		switch name := e.Name(); {
		case name == oneFile:
			return filepath.Join(dir, name), nil
		case strings.HasSuffix(name, indexEnd):
			indexes = append(indexes, name)
		case strings.HasSuffix(name, ".safetensors"):
			files = append(files, name)
		}
	}
	for _, names := range [][]string{indexes, files} {
		if len(names) == 1 {
			return filepath.Join(dir, names[0]), nil
		}
		if len(names) > 1 {
			return "", fmt.Errorf("safetensors: directory %s has %d files, %s: name one", dir, len(names), strings.Join(names[:2], ", "))
		}
	}
	return "", fmt.Errorf("safetensors: directory %s has neither %s nor *%s: want one of them", dir, oneFile, indexEnd)
}

// Summed says whether array i has a checksum, as those that [Create] writes have.
func (c *Checkpoint) Summed(i int) bool { return c.Tensors[i].summed }

// Metadata is that of the file of array i.
func (c *Checkpoint) Metadata(i int) map[string]string { return c.files[c.from[i].file].Metadata }

// open adds a file and its arrays.
func (c *Checkpoint) open(path string) (*File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	c.files = append(c.files, f)
	for i, t := range f.Tensors {
		c.Tensors, c.from = append(c.Tensors, t), append(c.from, place{len(c.files) - 1, i})
	}
	return f, nil
}

// openShards opens the files of an index, which must agree with it.
func (c *Checkpoint) openShards(path string) error {
	index, err := readIndex(path)
	if err != nil {
		return fmt.Errorf("safetensors: %s: %w", filepath.Base(path), err)
	}
	files := map[string]bool{}
	for _, file := range index {
		files[file] = true
	}
	names := slices.Sorted(maps.Keys(files))
	missing := 0
	for _, file := range names {
		if !filepath.IsLocal(file) {
			return fmt.Errorf("safetensors: %s: file %q: want one of its own directory", filepath.Base(path), file)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), file)); err != nil {
			missing++
		}
	}
	for _, file := range names {
		f, err := c.open(filepath.Join(filepath.Dir(path), file))
		if err != nil && missing > 0 {
			return fmt.Errorf("safetensors: %s: %d of its %d files are missing, the first is %s: %w", filepath.Base(path), missing, len(names), file, err)
		}
		if err != nil {
			return err
		}
		for _, t := range f.Tensors {
			if index[t.Name] != file {
				return fmt.Errorf("safetensors: %s has array %.80q, of which %s says %q", file, t.Name, filepath.Base(path), index[t.Name])
			}
			delete(index, t.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		return fmt.Errorf("safetensors: %s has no array %.80q, and %s says that it has; %d more are missing", index[name], name, filepath.Base(path), len(index)-1)
	}
	return nil
}

// readIndex is the file of each array.
func readIndex(path string) (map[string]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxHeader {
		return nil, fmt.Errorf("an index of %d bytes, mode %s: want a regular file of %d at most", st.Size(), st.Mode(), maxHeader)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var index struct {
		Files *uniqueNames `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if index.Files == nil || len(*index.Files) == 0 {
		return nil, errors.New("index has no weight_map: want a file's name for each array")
	}
	return *index.Files, nil
}

// uniqueNames is a JSON object of strings that has no key twice.
type uniqueNames map[string]string

func (u *uniqueNames) UnmarshalJSON(b []byte) error {
	*u = uniqueNames{}
	d := json.NewDecoder(strings.NewReader(string(b)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("weight_map is %.20q, want an object", b)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, file := t.(string), ""
		if err := d.Decode(&file); err != nil {
			return fmt.Errorf("file of array %.80q: %w", name, err)
		}
		if _, twice := (*u)[name]; twice {
			return fmt.Errorf("array %.80q comes twice", name)
		}
		(*u)[name] = file
	}
	return nil
}

// Floats is the data of tensor number i as float32; see [File.Floats].
func (c *Checkpoint) Floats(i int) ([]float32, error) {
	p := c.from[i]
	return c.files[p.file].Floats(p.number)
}

func (c *Checkpoint) Close() (err error) {
	for _, f := range c.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
