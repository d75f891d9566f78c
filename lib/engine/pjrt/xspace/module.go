package xspace

import (
	"encoding/binary"
	"fmt"
)

// Module is a program as XLA's optimizer left it: what kernels are made of.
type Module struct {
	Name         string
	Instructions map[string]Instruction // by name, those of all computations
}

// Instruction is an op of a Module.
type Instruction struct {
	Name string // fusion.17
	Op   string // fusion, dot, scatter, …
	// Label is the location that the program's text gave it. What XLA has put
	// in by itself, such as padding, has that of the nearest op that uses its
	// result, or else makes its input; "" if there is none.
	Label string
	// Fused are the ops inside, if it is a fusion: parameters and constants
	// left out.
	Fused []Instruction

	id       int64
	operands []int64
}

// Modules returns the programs that ran while the recording was made, by their
// number: an event's stat program_id. They are there if the recording was made
// with the programs' protos.
func (s *Space) Modules() (map[int64]*Module, error) {
	all := map[int64]*Module{}
	plane := s.Plane("/host:metadata")
	if plane == nil {
		return all, nil
	}
	for _, kind := range plane.Kinds {
		proto, _ := kind.Stat("Hlo Proto").([]byte)
		id := kind.Stat("program_id")
		if proto == nil || id == nil {
			continue
		}
		m, err := readModule(proto)
		if err != nil {
			return nil, fmt.Errorf("xspace: program %s: %w", kind.Name, err)
		}
		switch id := id.(type) {
		case int64:
			all[id] = m
		case uint64:
			all[int64(id)] = m
		}
	}
	return all, nil
}

// readModule reads an HloProto (xla/service/hlo.proto).
func readModule(b []byte) (*Module, error) {
	m := &Module{Instructions: map[string]Instruction{}}
	computations := map[int64][]Instruction{}
	calls := map[string]int64{} // of fusions
	err := fields(b, func(f int, _ uint64, b []byte) error {
		if f != 1 { // HloModuleProto
			return nil
		}
		return fields(b, func(f int, _ uint64, b []byte) error {
			switch f {
			case 1:
				m.Name = string(b)
			case 3:
				id, l, err := readComputation(b, calls)
				computations[id] = l
				return err
			}
			return nil
		})
	})
	for _, l := range computations {
		inherit(l)
	}
	for _, l := range computations {
		for _, i := range l {
			for _, inner := range computations[calls[i.Name]] {
				if i.Op == "fusion" && inner.Op != "parameter" && inner.Op != "constant" {
					i.Fused = append(i.Fused, inner)
				}
			}
			m.Instructions[i.Name] = i
		}
	}
	return m, err
}

// readComputation reads an HloComputationProto; calls gets which computation
// each instruction calls first.
func readComputation(b []byte, calls map[string]int64) (id int64, l []Instruction, err error) {
	err = fields(b, func(f int, v uint64, b []byte) error {
		switch f {
		case 5:
			id = int64(v)
		case 2:
			var i Instruction
			var callee int64
			if err := fields(b, func(f int, v uint64, b []byte) error {
				switch f {
				case 1:
					i.Name = string(b)
				case 2:
					i.Op = string(b)
				case 7: // OpMetadata
					return fields(b, func(f int, _ uint64, b []byte) error {
						if f == 2 {
							i.Label = string(b)
						}
						return nil
					})
				case 35:
					i.id = int64(v)
				case 36:
					i.operands = append(i.operands, numbers(v, b)...)
				case 38:
					if l := numbers(v, b); callee == 0 && len(l) > 0 {
						callee = l[0]
					}
				}
				return nil
			}); err != nil {
				return err
			}
			if i.Op == "fusion" {
				calls[i.Name] = callee
			}
			l = append(l, i)
		}
		return nil
	})
	return id, l, err
}

// inherit gives instructions without a label that of their users, from the end,
// and then that of their operands, from the beginning: a computation lists
// operands before their users.
func inherit(l []Instruction) {
	place := map[int64]int{}
	for k, i := range l {
		place[i.id] = k
	}
	mute := func(op string) bool { return op == "parameter" || op == "constant" || op == "tuple" || op == "while" }
	for k := len(l) - 1; k >= 0; k-- {
		for _, id := range l[k].operands {
			if o, ok := place[id]; ok && l[o].Label == "" && !mute(l[o].Op) && !mute(l[k].Op) {
				l[o].Label = l[k].Label
			}
		}
	}
	for k := range l {
		for _, id := range l[k].operands {
			if o, ok := place[id]; ok && l[k].Label == "" && !mute(l[k].Op) && !mute(l[o].Op) {
				l[k].Label = l[o].Label
			}
		}
	}
}

// numbers is a repeated field of numbers: one of them, or packed.
func numbers(v uint64, packed []byte) []int64 {
	if packed == nil {
		return []int64{int64(v)}
	}
	var l []int64
	for len(packed) > 0 {
		n, size := binary.Uvarint(packed)
		if size <= 0 {
			break
		}
		l, packed = append(l, int64(n)), packed[size:]
	}
	return l
}
