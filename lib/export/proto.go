package export

import (
	"encoding/binary"
	"math"

	"github.com/gomlx/compute/dtypes"
)

// message is a protobuf message that is being written. Numbers of fields are those of onnx.proto.
type message []byte

func (m *message) key(field, wire int) {
	*m = binary.AppendUvarint(*m, uint64(field<<3|wire))
}

func (m *message) integer(field int, x int64) {
	m.key(field, 0)
	*m = binary.AppendUvarint(*m, uint64(x))
}

func (m *message) bytes(field int, b []byte) {
	m.key(field, 2)
	*m = append(binary.AppendUvarint(*m, uint64(len(b))), b...)
}

func (m *message) text(field int, s string) { m.bytes(field, []byte(s)) }

// elements are ONNX's numbers of element types.
var elements = map[dtypes.DType]int64{
	dtypes.Float32: 1, dtypes.Uint8: 2, dtypes.Int8: 3, dtypes.Uint16: 4, dtypes.Int16: 5, dtypes.Int32: 6, dtypes.Int64: 7, dtypes.Bool: 9,
	dtypes.Float16: 10, dtypes.Float64: 11, dtypes.Uint32: 12, dtypes.Uint64: 13, dtypes.BFloat16: 16,
}

// tensorProto is an array.
func tensorProto(name string, kind dtypes.DType, dims []int, data []byte) (m message) {
	for _, d := range dims {
		m.integer(1, int64(d))
	}
	m.integer(2, elements[kind])
	m.text(8, name)
	m.bytes(9, data)
	return m
}

// valueProto is the type of an input or output. Dimensions are integers or names.
func valueProto(name string, kind dtypes.DType, dims []any) (m message) {
	var tensor, shape message
	tensor.integer(1, elements[kind])
	for _, d := range dims {
		var dim message
		if i, is := d.(int); is {
			dim.integer(1, int64(i))
		} else {
			dim.text(2, d.(string))
		}
		shape.bytes(1, dim)
	}
	tensor.bytes(2, shape)
	var kindOf message
	kindOf.bytes(1, tensor)
	m.text(1, name)
	m.bytes(2, kindOf)
	return m
}

// attribute is a named setting of a node: an int, []int, float32, string, or a graph.
func attribute(name string, value any) (m message) {
	m.text(1, name)
	switch x := value.(type) {
	case int:
		m.integer(3, int64(x))
		m.integer(20, 2)
	case []int:
		for _, i := range x {
			m.integer(8, int64(i))
		}
		m.integer(20, 7)
	case float32:
		m.key(2, 5)
		m = binary.LittleEndian.AppendUint32(m, math.Float32bits(x))
		m.integer(20, 1)
	case string:
		m.text(4, x)
		m.integer(20, 3)
	case message: // a graph
		m.bytes(6, x)
		m.integer(20, 5)
	}
	return m
}
