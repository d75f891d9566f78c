package xspace

import (
	"encoding/binary"
	"fmt"
)

// fields calls f for each field of a protocol buffer message: v is the value of
// a number, data that of a string or message. A tag of zero ends the message:
// no field has it, and the CUDA plugin's buffer ends with one.
func fields(b []byte, f func(field int, v uint64, data []byte) error) error {
	size := len(b)
	for len(b) > 0 {
		at := size - len(b)
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("byte %d of %d: torn tag", at, size)
		}
		if tag == 0 {
			return nil
		}
		b = b[n:]
		var v uint64
		var data []byte
		switch tag & 7 {
		case 0:
			if v, n = binary.Uvarint(b); n <= 0 {
				return fmt.Errorf("byte %d of %d: torn number", at, size)
			}
		case 1:
			if n = 8; len(b) < n {
				return fmt.Errorf("byte %d of %d: got %d bytes, want 8", at, size, len(b))
			}
			v = binary.LittleEndian.Uint64(b)
		case 2:
			l, m := binary.Uvarint(b)
			if m <= 0 || l > uint64(len(b)-m) {
				return fmt.Errorf("byte %d of %d: field %d is longer than the message", at, size, tag>>3)
			}
			n = m + int(l)
			data = b[m:n]
		case 5:
			if n = 4; len(b) < n {
				return fmt.Errorf("byte %d of %d: got %d bytes, want 4", at, size, len(b))
			}
			v = uint64(binary.LittleEndian.Uint32(b))
		default:
			return fmt.Errorf("byte %d of %d: wire type %d is none of a message", at, size, tag&7)
		}
		b = b[n:]
		if err := f(int(tag>>3), v, data); err != nil {
			return err
		}
	}
	return nil
}
