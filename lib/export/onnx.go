package export

import (
	"errors"

	"gaiden/lib/portable"
)

// ONNX is a program as an ONNX file.
func ONNX(p *portable.Program, weights []any) ([]byte, error) {
	return nil, errors.New("not yet")
}
