package serve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
)

// read reads a body: JSON, or raw numbers of a net with one input.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (raw bool, inputs []any, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	all := s.net.Program.Inputs
	raw = kind == "application/octet-stream"
	if !raw && kind != "application/json" || raw && len(all) > 1 {
		want := "application/json or application/octet-stream"
		if len(all) > 1 {
			want = "application/json, because the net has several inputs"
		}
		return raw, nil, refuse(http.StatusUnsupportedMediaType, "the content type is %.80q: want %s", r.Header.Get("Content-Type"), want)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return raw, nil, err
	case err != nil:
		return raw, nil, refuse(http.StatusBadRequest, "the body could not be read: %v", err)
	case !raw:
		inputs, err = s.net.ParseInputs(body)
		return raw, inputs, err
	case len(body)%4 != 0:
		return raw, nil, refuse(http.StatusBadRequest, "the body has %d bytes: want a multiple of 4, for numbers of 32 bits", len(body))
	case all[0].Type == "Float32":
		l := make([]float32, len(body)/4)
		for i := range l {
			l[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
		}
		return raw, []any{l}, nil
	}
	l := make([]int32, len(body)/4)
	for i := range l {
		l[i] = int32(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return raw, []any{l}, nil
}

// write answers with what the net gives.
func (s *Server) write(w http.ResponseWriter, output []float32, examples int, raw bool) {
	w.Header().Set("X-Examples", strconv.Itoa(examples))
	if raw {
		w.Header().Set("Content-Type", "application/octet-stream")
		b := make([]byte, 0, 4*len(output))
		for _, y := range output {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(y))
		}
		w.Write(b)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	b := outputs(output, examples)
	if s.net.Program.Reading != "" {
		answers, err := json.Marshal(s.net.Answers(output))
		if err != nil {
			s.fail(w, err)
			return
		}
		b = append(append(append(b, `, "answers": `...), answers...), '}', '\n')
	} else {
		b = append(b, '}', '\n')
	}
	w.Write(b)
}

// outputs is the beginning of a JSON object with what the net gives for each example; NaN and
// infinities are null.
func outputs(all []float32, examples int) []byte {
	b := append(make([]byte, 0, 12*len(all)+32), `{"outputs": [`...)
	width := len(all) / examples
	for i, y := range all {
		if i%width == 0 {
			if i > 0 {
				b = append(b, "], "...)
			}
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		if x := float64(y); math.IsNaN(x) || math.IsInf(x, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, x, 'g', -1, 32)
		}
	}
	return append(b, "]]"...)
}
