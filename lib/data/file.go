package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// fileError is that a file or a folder cannot be read, and where it was looked for: in which
// folder, or what the folder of an absolute path has.
func fileError(err error) error {
	wrong := new(fs.PathError)
	if !errors.As(err, &wrong) || !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data: %w", err)
	}
	if !filepath.IsAbs(wrong.Path) {
		if dir, _ := os.Getwd(); dir != "" {
			return fmt.Errorf("data: %w: looked for it in %s", err, dir)
		}
		return fmt.Errorf("data: %w", err)
	}
	missing := filepath.Clean(wrong.Path)
	dir := filepath.Dir(missing)
	for ; dir != filepath.Dir(dir); missing, dir = dir, filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
	}
	if missing != filepath.Clean(wrong.Path) {
		return fmt.Errorf("data: %w: there is %s, and no %s in it", err, dir, filepath.Base(missing))
	}
	names, unreadable := visible(dir)
	switch {
	case unreadable != nil:
		return fmt.Errorf("data: %w", err)
	case len(names) == 0:
		return fmt.Errorf("data: %w: %s is empty", err, dir)
	}
	const most = 8
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Errorf("data: %w: %s has %s%s", err, dir, strings.Join(names, ", "), more)
}

// open opens a file of text; one that gzip has compressed is decompressed. Files of other
// programs, which begin with signs of their own, are refused.
func open(path string) (r *bufio.Reader, done func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fileError(err)
	}
	r, err = plain(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return r, f.Close, nil
}

// plain is the text of a file, without a byte order mark.
func plain(from io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReader(from)
	start, err := r.Peek(6)
	if err != nil && err != io.EOF { // such as a directory
		return nil, err
	}
	if bytes.HasPrefix(start, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = bufio.NewReader(z)
		if start, err = r.Peek(6); err != nil && err != io.EOF {
			return nil, fmt.Errorf("gzip: %w", err)
		}
	}
	for sign, what := range map[string]string{
		"PK\x03\x04":   "a zip archive or an Excel workbook: want text: unpack it, or save the sheet as CSV UTF-8",
		"\xff\xfe":     utf16Text,
		"\xfe\xff":     utf16Text,
		"PAR1":         "a Parquet file: want text: read it with parquet.ReadTable",
		"ARROW1":       "an Arrow file: want text: read it with arrow.ReadTable",
		"\xd0\xcf\x11": "an Excel workbook of the old form: want text: save the sheet as CSV UTF-8",
		"SQLi":         "a database of SQLite: want text: export the table as CSV",
	} {
		if bytes.HasPrefix(start, []byte(sign)) {
			return nil, fmt.Errorf("%s", what)
		}
	}
	if bytes.HasPrefix(start, []byte("\ufeff")) {
		_, err = r.Discard(3)
	} else {
		err = nil
	}
	return r, err
}

const utf16Text = "text in UTF-16: want UTF-8: save it as CSV UTF-8, or run iconv -f UTF-16 -t UTF-8"
