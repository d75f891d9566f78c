package wire

import (
	"encoding/binary"
	"encoding/json"
	"math"
)

// decoder reads a body. After the first bound that does not hold it returns
// zeros, and end reports the failure.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

func (d *decoder) u8() uint8 {
	if s := d.take(1); s != nil {
		return s[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if s := d.take(4); s != nil {
		return binary.LittleEndian.Uint32(s)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if s := d.take(8); s != nil {
		return binary.LittleEndian.Uint64(s)
	}
	return 0
}

// count reads the length of a list whose elements take at least size bytes
// each, so that a torn length cannot ask for memory the frame does not have.
func (d *decoder) count(size int) int {
	n := d.u32()
	if int64(n)*int64(size) > int64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte { return d.take(d.count(1)) }
func (d *decoder) str() string   { return string(d.bytes()) }

func (d *decoder) handles(hs []uint64) []uint64 {
	for range d.count(8) {
		hs = append(hs, d.u64())
	}
	return hs
}

func (d *decoder) typ() Type {
	t := Type{DType: DType(d.u8())}
	n := int(d.u8())
	if n > MaxRank {
		d.bad, n = true, 0
	}
	for range n {
		v := d.u64()
		if v > math.MaxInt64 {
			d.bad, v = true, 0
		}
		t.Dims = append(t.Dims, int(v))
	}
	if _, err := t.Bytes(); err != nil {
		d.bad = true
	}
	return t
}

func (d *decoder) types() []Type {
	var ts []Type
	for range d.count(2) {
		ts = append(ts, d.typ())
	}
	return ts
}

// end reports what went wrong in decoding a body of kind k.
func (d *decoder) end(k Kind) error {
	switch {
	case d.bad:
		return Errorf(BadFrame, "wire: %s frame is torn: a length in it goes beyond its end", k)
	case len(d.b) != 0:
		return Errorf(BadFrame, "wire: %s frame has %d bytes too many", k, len(d.b))
	}
	return nil
}

// DecodeJSON fills v from the body of a cold message of kind k.
func DecodeJSON(k Kind, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return Errorf(BadFrame, "wire: %s frame: %v", k, err)
	}
	return nil
}
