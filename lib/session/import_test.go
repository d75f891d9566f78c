package session

import (
	le "encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestImportDamaged: a file that is damaged in any way is refused with a word
// that names the damage, nothing is bound, and all arrays are as they were: those
// that the file would have replaced, too.
func TestImportDamaged(t *testing.T) {
	p := serve(t)
	s := p.open("damaged")
	bindAll(t, s, map[string][]float32{"w": {1, 2, 3}, "b": {4}})
	path := filepath.Join(t.TempDir(), "net.safetensors")
	if _, err := s.Export(path, "", "", nil); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := int(le.LittleEndian.Uint64(good))
	bindAll(t, s, map[string][]float32{"w": {5, 6, 7}})
	const before = "b[4] w[5 6 7]"

	// header is the file with another header before the same data.
	header := func(text string) []byte {
		b := le.LittleEndian.AppendUint64(nil, uint64(len(text)))
		return append(append(b, text...), good[8+n:]...)
	}
	length := func(n uint64) []byte {
		return append(le.LittleEndian.AppendUint64(nil, n), good[8:]...)
	}
	flipped := func(at int) []byte {
		b := append([]byte(nil), good...)
		b[at] ^= 4
		return b
	}
	tensor := func(shape string, from, to uint64) []byte {
		return header(fmt.Sprintf(`{"w":{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}}`, shape, from, to))
	}
	tests := []struct {
		name string
		file []byte
		says string
	}{
		{"one bit of the data", flipped(len(good) - 1), "checksum"},
		{"one bit in the middle of the data", flipped(8 + n + 5), "checksum"},
		{"empty", nil, "the file is empty"},
		{"three bytes", good[:3], "3 bytes"},
		{"cut in the header", good[:8+n/2], fmt.Sprint("in a file of ", 8+n/2)},
		{"cut after the header", good[:8+n], "0 bytes of data, want 16"},
		{"cut in the data", good[:len(good)-2], "14 bytes of data, want 16"},
		{"longer than it says", append(append([]byte(nil), good...), 0, 0), "18 bytes of data, want 16"},
		{"length of the header 0", length(0), "want a JSON object"},
		{"length of the header too small", length(uint64(n) - 1), "17 bytes of data, want 16"},
		{"length of the header too large", length(uint64(n) + 1), "after its end"},
		{"length of the header beyond the file", length(1 << 40), "1099511627776 bytes in a file"},
		{"length of the header beyond all", length(1<<64 - 1), "18446744073709551615 bytes in a file"},
		{"no JSON", header("{{{{"), "invalid character"},
		{"negative dimension", tensor("[-1]", 0, 4), "[-1] is impossible"},
		{"a dimension beyond all", tensor("[4611686018427387904]", 0, 16), "is impossible"},
		{"dimensions whose product overflows", tensor("[4294967296,4294967296]", 0, 0), "is impossible"},
		{"a shape that its bytes do not fit", tensor("[1000]", 0, 16), "takes 4000 bytes"},
		{"offsets beyond the file", tensor("[1000000]", 0, 4000000), "want 4000000"},
		{"offsets that go backwards", tensor("[1]", 8, 4), "lies at 8 to 4"},
		{"unknown element type", header(`{"w":{"dtype":"F7","shape":[4],"data_offsets":[0,16]}}`), `"F7"`},
		{"a name that cannot be", header(`{"w*":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`), `"w*"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(path, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := s.Import(path, "")
			var e *wire.Error
			if !errors.As(err, &e) || !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), tt.says) || e.Hint() == "" {
				t.Errorf("got %+v, %v: want a refusal that says %q and what next", l, err, tt.says)
			}
			if got := look(t, s); got != before {
				t.Errorf("arrays are %s, want %s", got, before)
			}
		})
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(path, ""); err != nil || look(t, s) != "b[4] w[1 2 3]" {
		t.Errorf("the file as it was: %v, %s", err, look(t, s))
	}
}
