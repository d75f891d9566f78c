package pjrt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// CompileOptions says for what devices and how a program is compiled. The zero
// value is one replica that runs on whichever device Execute names, with XLA's
// own defaults.
type CompileOptions struct {
	// Replicas is the number of devices that run the program together, each on
	// its own arguments; 0 is 1.
	Replicas int
	// Devices are the IDs of those devices, one for each replica. With none, a
	// program of one replica is portable among devices, and one of several runs
	// on the client's first ones.
	Devices []int
	// Flags override XLA's flags (those of XLA_FLAGS, without the dashes) for
	// this program: a string, bool, integer or float each, or a json.Number. An
	// unknown flag is refused by name.
	Flags map[string]any
}

// normal fills in the defaults and refuses what cannot be. The result has
// devices, or is portable.
func (o CompileOptions) normal(c *Client) (CompileOptions, error) {
	if o.Replicas < 0 {
		return o, fmt.Errorf("got %d replicas, want 1 or more", o.Replicas)
	}
	o.Replicas = max(o.Replicas, 1)
	if n := len(c.everywhere); o.Replicas > n {
		return o, fmt.Errorf("got %d replicas, want at most %d: the client has no more devices", o.Replicas, n)
	}
	if len(o.Devices) == 0 && o.Replicas > 1 {
		for _, d := range c.everywhere[:o.Replicas] {
			o.Devices = append(o.Devices, d.id)
		}
	}
	if len(o.Devices) == 0 {
		return o, nil
	}
	if len(o.Devices) != o.Replicas {
		return o, fmt.Errorf("got %d devices, want %d: one for each replica", len(o.Devices), o.Replicas)
	}
	for i, id := range o.Devices {
		if c.byID(id) == nil {
			return o, fmt.Errorf("device %d is not one of the client's %d devices", id, len(c.everywhere))
		}
		if slices.Contains(o.Devices[:i], id) {
			return o, fmt.Errorf("device %d is given to two replicas", id)
		}
	}
	return o, nil
}

// encode writes a CompileOptionsProto (xla/pjrt/proto/compile_options.proto).
// Equal options give equal bytes.
func (o CompileOptions) encode() ([]byte, error) {
	portable := len(o.Devices) == 0
	build := appendVarint(nil, 1, math.MaxUint64) // device_ordinal -1: not fixed
	build = appendVarint(build, 4, uint64(o.Replicas))
	build = appendVarint(build, 5, 1) // num_partitions
	if !portable {
		var ids []byte
		for _, id := range o.Devices {
			ids = binary.AppendUvarint(ids, uint64(id))
		}
		assignment := appendVarint(nil, 1, uint64(o.Replicas))
		assignment = appendVarint(assignment, 2, 1) // computation_count
		assignment = appendBytes(assignment, 3, appendBytes(nil, 1, ids))
		build = appendBytes(build, 9, assignment)
	}
	b := appendBytes(nil, 3, build)
	if portable {
		b = appendVarint(b, 4, 1)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		v, err := flagValue(o.Flags[name])
		if err != nil {
			return nil, fmt.Errorf("flag %s: %w", name, err)
		}
		override := appendBytes(nil, 1, []byte(name))
		override = appendBytes(override, 2, v)
		b = appendBytes(b, 7, override)
	}
	return b, nil
}

// flagValue writes an OptionOverrideProto. Numbers go as text, which XLA parses
// for every kind of number: a typed one must be of the flag's own type, which
// one that has been through JSON no longer is. Booleans go as what they are.
func flagValue(v any) ([]byte, error) {
	var text string
	switch v := v.(type) {
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		return appendVarint(nil, 2, n), nil
	case string:
		text = v
	case int:
		text = strconv.Itoa(v)
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		text = v.String()
	default:
		return nil, fmt.Errorf("got a %T, want a string, bool, int, int64 or float64", v)
	}
	return appendBytes(nil, 1, []byte(text)), nil
}

// appendVarint and appendBytes write a field of a protocol buffer.
func appendVarint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), v)
}

func appendBytes(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}
