package cell

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The functions that a cell calls to show its last value. They are part of the
// cell's program, in a file of their own, and depend on next to nothing: what
// they import is linked into every such cell.
const (
	showName      = "gaiden_show"
	showErrorName = "gaiden_show_error"
)

// ResultEnv names the environment variable that tells a cell's program where
// to send the value of its last expression: the number of an open file. Where
// it is not set, the value is printed.
const ResultEnv = "GAIDEN_RESULT"

var showImports = []string{"fmt", "os", "strconv", "syscall"}

const showSource = `package main

import (
	gaiden_fmt "fmt"
	gaiden_os "os"
	gaiden_strconv "strconv"
	gaiden_syscall "syscall"
)

var gaiden_image func(v any) []byte

// What the cell starts must not hold the result open.
var gaiden_result, gaiden_problem = func() (int, error) {
	fd, err := gaiden_strconv.Atoi(gaiden_os.Getenv("GAIDEN_RESULT"))
	if err == nil {
		gaiden_syscall.CloseOnExec(fd)
	}
	return fd, err
}()

func gaiden_show_error(values ...any) {
	n := len(values) - 1
	if values[n] == nil {
		values = values[:n]
	}
	if len(values) > 0 {
		gaiden_show(values...)
	}
}

func gaiden_show(values ...any) {
	var out, text []byte
	add := func(mime, data string) {
		out = gaiden_fmt.Appendf(out, "%s %d\n%s", mime, len(data), data)
	}
	if len(values) == 1 {
		v := values[0]
		if d, ok := v.(interface{ Display() map[string]string }); ok {
			for mime, data := range d.Display() {
				add(mime, data)
			}
		}
		if d, ok := v.(interface{ HTML() string }); ok {
			add("text/html", d.HTML())
		}
		if d, ok := v.(interface{ Markdown() string }); ok {
			add("text/markdown", d.Markdown())
		}
		if d, ok := v.(interface{ SVG() string }); ok {
			add("image/svg+xml", d.SVG())
		}
		if d, ok := v.(interface{ PNG() []byte }); ok {
			add("image/png", string(d.PNG()))
		} else if gaiden_image != nil {
			if png := gaiden_image(v); len(png) > 0 {
				add("image/png", string(png))
			}
		}
	}
	for i, v := range values {
		if i > 0 {
			text = append(text, ' ')
		}
		switch v := v.(type) {
		case gaiden_fmt.Formatter:
			text = gaiden_fmt.Appendf(text, "%v", v)
		default:
			text = gaiden_fmt.Appendf(text, "%+v", v)
		}
		if gaiden_image != nil {
			text = gaiden_fmt.Appendf(text[:0], "%T", v) // and not every pixel
		}
	}
	const limit = 1 << 20
	if len(text) > limit {
		text = gaiden_fmt.Appendf(text[:limit:limit], " … (%d bytes)", len(text))
	}
	add("text/plain", string(text))
	if gaiden_problem != nil {
		gaiden_fmt.Println(string(text))
		return
	}
	file := gaiden_os.NewFile(uintptr(gaiden_result), "result")
	file.Write(out)
}
`

// imageSource is the file added when the value is an image: package image/png
// is worth linking only then.
const imageSource = `package main

import (
	gaiden_bytes "bytes"
	gaiden_img "image"
	gaiden_png "image/png"
)

func init() {
	gaiden_image = func(v any) []byte {
		var b gaiden_bytes.Buffer
		if m, ok := v.(gaiden_img.Image); ok && m != nil {
			if err := gaiden_png.Encode(&b, m); err != nil {
				b.Reset()
			}
		}
		return b.Bytes()
	}
}
`

var imageImports = []string{"bytes", "image", "image/png"}

// ReadResult reads what a cell's program sent as its last value: data by MIME
// type, nil when nothing was sent.
func ReadResult(r io.Reader) (map[string][]byte, error) {
	in := bufio.NewReader(r)
	var out map[string][]byte
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			return out, nil
		}
		mime, size, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, convErr := strconv.Atoi(size)
		const limit = 256 << 20
		if err != nil || !ok || convErr != nil || n < 0 || n > limit {
			return out, fmt.Errorf("cell: result: got header %.40q, want a MIME type and a length below %d", line, limit)
		}
		// ReadAll grows with what arrives, not with what the header promises.
		data, err := io.ReadAll(io.LimitReader(in, int64(n)))
		if err == nil && len(data) < n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return out, fmt.Errorf("cell: result: %s: got %d bytes, want %d: %w", mime, len(data), n, err)
		}
		if out == nil {
			out = map[string][]byte{}
		}
		out[mime] = data
	}
}
