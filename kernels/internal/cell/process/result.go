package process

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ResultEnv names the environment variable that tells a cell's program where
// to send the value of its last expression: the number of an open file. Where
// it is not set, the value is printed.
const ResultEnv = "GAIDEN_RESULT"

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
