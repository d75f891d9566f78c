package data

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// folder is a folder with a folder of files for each class.
type folder struct {
	classes []string // by label, in alphabetical order or as they were given
	files   []string
	labels  []int32
}

// readFolder lists a folder. Names that begin with a dot are left out; links are followed.
// Want is what the files are, for errors; classes are nil for those that are there.
func readFolder(dir, want string, classes []string) (folder, error) {
	f := folder{classes: classes}
	there, err := visible(dir)
	if err != nil {
		return f, err
	}
	for _, class := range there {
		path := filepath.Join(dir, class)
		info, err := os.Stat(path)
		if err != nil {
			return f, fmt.Errorf("data: %w: a link that leads nowhere? want a folder for each class in %s", err, dir)
		}
		if !info.IsDir() {
			return f, fmt.Errorf("data: %s: got a file, want a folder for each class in %s", path, dir)
		}
		label := slices.Index(classes, class)
		if classes == nil {
			label, f.classes = len(f.classes), append(f.classes, class)
		} else if label < 0 {
			return f, fmt.Errorf("data: %s: class %q is none of Classes %q", path, class, classes)
		}
		files, err := visible(path)
		if err != nil {
			return f, err
		}
		if len(files) == 0 {
			return f, fmt.Errorf("data: %s: no files: want %s of the class, or no such folder", path, want)
		}
		for _, name := range files {
			f.files, f.labels = append(f.files, filepath.Join(path, name)), append(f.labels, int32(label))
		}
	}
	if len(f.files) == 0 {
		return f, fmt.Errorf("data: %s: no files: want a folder with %s for each class", dir, want)
	}
	return f, nil
}

// visible are the names in a folder that begin with no dot, in order.
func visible(dir string) (l []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileError(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			l = append(l, e.Name())
		}
	}
	return l, nil
}

// all calls a function for each file, several at a time. Files that cannot be read are one
// error, which names them.
func (f folder) all(read func(i int) error) error {
	errs := make([]error, len(f.files))
	var wait sync.WaitGroup
	turn := make(chan int)
	for range min(runtime.GOMAXPROCS(0), len(f.files)) {
		wait.Go(func() {
			for i := range turn {
				errs[i] = f.one(read, i)
			}
		})
	}
	for i := range f.files {
		turn <- i
	}
	close(turn)
	wait.Wait()
	bad := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(bad) == 0 {
		return nil
	}
	text := ""
	for _, err := range bad[:min(len(bad), 5)] {
		text += "; " + err.Error()
	}
	if len(bad) > 5 {
		text += fmt.Sprintf("; and %d more", len(bad)-5)
	}
	return fmt.Errorf("data: %d of %d files cannot be read: convert or remove them: %s", len(bad), len(f.files), text[2:])
}

// one calls read for a file. A decoder may panic where a file is damaged: that is the file's error,
// and not the end of the program.
func (f folder) one(read func(i int) error, i int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", f.files[i], p)
		}
	}()
	return read(i)
}

func noFiles(of string, files int) error {
	return fmt.Errorf("data: %s.Stream of %d files at a time: want 1 or more", of, files)
}

// stream iterates over the examples of so many files at a time, in an order that the seed
// and the number of the epoch decide.
func (f folder) stream(files int, seed int64, of func(folder) (Examples, error)) iter.Seq2[Examples, error] {
	return func(yield func(Examples, error) bool) {
		order := permutation(len(f.files), seed)
		seed++
		for part := range slices.Chunk(order, files) {
			e, err := of(folder{classes: f.classes, files: pick(f.files, part), labels: pick(f.labels, part)})
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
