package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// A fileID tells files apart, whatever they are called. A file system that knows no time of
// birth has 0.
type fileID struct {
	Device, Inode uint64
	Born          int64
}

func identify(path string) (fileID, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return fileID{}, err
	}
	return fileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}, nil
}

// mostNotebooks bounds the list of notebooks: beyond it, those that are gone are forgotten.
const mostNotebooks = 1000

// renamed notes in the file list which notebook is at path, and says, once, when it was
// somewhere else before: its arrays are in the name space of its old path. What cannot be
// found out is not said.
func renamed(list, path string) string {
	id, err := identify(path)
	if err != nil {
		return "" // not a notebook's kernel
	}
	known := map[string]fileID{}
	if text, err := os.ReadFile(list); err == nil && json.Unmarshal(text, &known) != nil {
		known = map[string]fileID{}
	}
	was := ""
	if _, here := known[path]; !here {
		for old, its := range known {
			if its == id && gone(old) {
				was = old
				delete(known, old)
			}
		}
	}
	known[path] = id
	for old := range known {
		if len(known) > mostNotebooks && gone(old) {
			delete(known, old)
		}
	}
	if wire.PrivateDir(filepath.Dir(list)) == nil {
		_ = wire.ReplaceFile(list, wire.JSON(known)) // without it, the next rename is not noticed
	}
	if was == "" || os.Getenv("GAIDEN_SPACE") != "" {
		return ""
	}
	return fmt.Sprintf("this notebook was %s: nets and arrays that it left on the device are there, and it begins without them here. To continue with them, make this its first cell, and run it before the others:\n    %%env GAIDEN_SPACE=%s", was, strings.TrimSuffix(was, ".ipynb"))
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
