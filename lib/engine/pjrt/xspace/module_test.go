package xspace

import (
	"encoding/binary"
	"testing"
)

// message is a field that holds others.
func message(f int, parts ...[]byte) []byte { return str(f, join(parts...)) }

// packed is a repeated field of numbers.
func packed(f int, values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return str(f, b)
}

// op is an HloInstructionProto.
func op(id uint64, name, opcode, label string, more ...[]byte) []byte {
	parts := [][]byte{str(1, name), str(2, opcode), num(35, id)}
	if label != "" {
		parts = append(parts, message(7, str(1, "kind"), str(2, label)))
	}
	return message(2, append(parts, more...)...)
}

// space is an XSpace with one program, number 7: a pad without a label that
// feeds a fusion of a multiplication and a scatter.
func space(module []byte) []byte {
	stats := [][]byte{
		message(5, num(1, 1), message(2, num(1, 1), str(2, "Hlo Proto"))),
		message(5, num(1, 2), message(2, num(1, 2), str(2, "program_id")))}
	kind := message(4, num(1, 9), message(2, num(1, 9), str(2, "m(7)"),
		message(5, num(1, 1), message(6, module)), message(5, num(1, 2), num(3, 7))))
	return message(1, str(2, "/host:metadata"), stats[0], stats[1], kind)
}

func TestModules(t *testing.T) {
	fused := message(3, num(5, 3), str(1, "fused"),
		op(30, "p0", "parameter", ""), op(31, "multiply.1", "multiply", "pool/backward"), op(32, "scatter.2", "scatter", "pool/backward"))
	main := message(3, num(5, 4), str(1, "main"),
		op(40, "Arg_0", "parameter", ""),
		op(41, "pad.5", "pad", "", packed(36, 40)),
		op(42, "input_scatter_fusion.3", "fusion", "pool/backward", packed(36, 41, 40), packed(38, 3)),
		op(43, "copy.1", "copy", "", num(36, 42)))
	s, err := Read(space(message(1, str(1, "m"), fused, main)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Modules()
	if err != nil || all[7] == nil || all[7].Name != "m" {
		t.Fatalf("got %v, %v, want program 7 called m", all, err)
	}
	for name, want := range map[string]string{"pad.5": "pool/backward", "copy.1": "pool/backward", "Arg_0": "", "multiply.1": "pool/backward"} {
		if got := all[7].Instructions[name].Label; got != want {
			t.Errorf("%s: got the label %q, want %q", name, got, want)
		}
	}
	i := all[7].Instructions["input_scatter_fusion.3"]
	if i.Op != "fusion" || len(i.Fused) != 2 || i.Fused[1].Op != "scatter" {
		t.Errorf("got %+v, want a fusion of a multiply and a scatter", i)
	}
}

func TestModulesRefuse(t *testing.T) {
	s, err := Read(space([]byte{0x0a, 0x70, 0x01}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Modules(); err == nil {
		t.Error("a torn program: got no error")
	}
	if all, err := new(Space).Modules(); err != nil || len(all) != 0 {
		t.Errorf("no programs: got %v, %v", all, err)
	}
}
