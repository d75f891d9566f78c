// Package xspace reads what XLA's profiler records: a serialized XSpace
// (tsl/profiler/protobuf/xplane.proto), as pjrt's Profile.Stop returns it.
//
// A [Space] has planes: "/device:GPU:0" with a line for every stream and an event
// for every kernel, "/host:CPU" with a line for every thread. Names are resolved:
// a kernel's event has its name, its duration in picoseconds and stats such as
// hlo_op, hlo_module and tf_op (the location given in the program's text).
//
//	space, err := xspace.Read(recording)
//	if err != nil {
//		return err
//	}
//	for _, plane := range space.Planes {
//		for _, line := range plane.Lines {
//			for _, e := range line.Events {
//				fmt.Println(plane.Name, line.Name, e.Name, e.Duration, e.Stat("hlo_op"))
//			}
//		}
//	}
//
// It refuses a torn message, skips fields that it does not know, and takes the
// zero byte that the CUDA plugin leaves after the message. It imports nothing of
// the plugin, so that a cell can read what the session recorded.
package xspace

import (
	"fmt"
	"math"
)

// Space is one recording.
type Space struct {
	Planes           []Plane
	Hosts            []string
	Errors, Warnings []string // of the profiler itself
}

// Plane is one device, or the host.
type Plane struct {
	ID    int64
	Name  string
	Lines []Line
	Stats []Stat // on a GPU core_count, clock_rate, memory_bandwidth, memory_size

	// Kinds are what all events of a name have in common, by number. In plane
	// /host:metadata, which has no events, they are the programs: see Modules.
	Kinds map[int64]Event
}

// Stat returns the value of a plane's stat, or nil.
func (p *Plane) Stat(name string) any { return find(p.Stats, name) }

// Line is one stream of a device, or one thread of the host.
type Line struct {
	ID     int64
	Name   string
	Start  int64 // nanoseconds; events count from here
	Events []Event
}

// Event is one kernel, copy or step.
type Event struct {
	Name     string
	Offset   int64  // picoseconds after the line's start; 0 for a sum
	Duration int64  // picoseconds
	Stats    []Stat // its own, then those that all events of its name share
}

// Stat returns the value of an event's stat, or nil: a string, int64, uint64,
// float64 or []byte.
func (e *Event) Stat(name string) any { return find(e.Stats, name) }

// Stat is one named value.
type Stat struct {
	Name  string
	Value any
}

func find(l []Stat, name string) any {
	for _, s := range l {
		if s.Name == name {
			return s.Value
		}
	}
	return nil
}

// Plane returns the plane of that name, or nil.
func (s *Space) Plane(name string) *Plane {
	for i := range s.Planes {
		if s.Planes[i].Name == name {
			return &s.Planes[i]
		}
	}
	return nil
}

// Read decodes a recording. An error says where the message is torn; what was
// read before it is not returned, since half a recording misleads.
func Read(b []byte) (*Space, error) {
	s := &Space{}
	err := fields(b, func(f int, v uint64, b []byte) error {
		switch f {
		case 1:
			p, err := readPlane(b)
			if err != nil {
				return fmt.Errorf("plane %d: %w", len(s.Planes), err)
			}
			s.Planes = append(s.Planes, p)
		case 2:
			s.Errors = append(s.Errors, string(b))
		case 3:
			s.Warnings = append(s.Warnings, string(b))
		case 4:
			s.Hosts = append(s.Hosts, string(b))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("xspace: %w; record again", err)
	}
	return s, nil
}

// tables are the names that a plane's events and stats refer to by number.
type tables struct {
	events map[int64]Event // name, display name and shared stats
	stats  map[int64]string
}

// readPlane reads twice: names may come after the lines that use them.
func readPlane(b []byte) (p Plane, err error) {
	t := tables{map[int64]Event{}, map[int64]string{}}
	if err := fields(b, func(f int, v uint64, b []byte) error {
		if f != 5 {
			return nil
		}
		id, value, err := mapEntry(b)
		if err != nil {
			return err
		}
		return fields(value, func(f int, v uint64, b []byte) error {
			if f == 2 {
				t.stats[id] = string(b)
			}
			return nil
		})
	}); err != nil {
		return p, err
	}
	if err := fields(b, func(f int, v uint64, b []byte) error {
		if f != 4 {
			return nil
		}
		id, value, err := mapEntry(b)
		if err != nil {
			return err
		}
		t.events[id], err = t.readKind(value)
		return err
	}); err != nil {
		return p, err
	}
	p.Kinds = t.events
	err = fields(b, func(f int, v uint64, b []byte) (err error) {
		switch f {
		case 1:
			p.ID = int64(v)
		case 2:
			p.Name = string(b)
		case 3:
			var l Line
			l, err = t.readLine(b)
			p.Lines = append(p.Lines, l)
		case 6:
			p.Stats, err = t.appendStat(p.Stats, b)
		}
		return err
	})
	return p, err
}

// readKind reads an XEventMetadata: what all events of a name have in common.
func (t *tables) readKind(b []byte) (e Event, err error) {
	err = fields(b, func(f int, v uint64, b []byte) (err error) {
		switch f {
		case 2:
			e.Name = string(b)
		case 5:
			e.Stats, err = t.appendStat(e.Stats, b)
		}
		return err
	})
	return e, err
}

func (t *tables) readLine(b []byte) (l Line, err error) {
	err = fields(b, func(f int, v uint64, b []byte) (err error) {
		switch f {
		case 1:
			l.ID = int64(v)
		case 2:
			l.Name = string(b)
		case 3:
			l.Start = int64(v)
		case 4:
			var e Event
			e, err = t.readEvent(b)
			l.Events = append(l.Events, e)
		}
		return err
	})
	return l, err
}

func (t *tables) readEvent(b []byte) (e Event, err error) {
	var kind Event
	err = fields(b, func(f int, v uint64, b []byte) (err error) {
		switch f {
		case 1:
			kind = t.events[int64(v)]
		case 2:
			e.Offset = int64(v)
		case 3:
			e.Duration = int64(v)
		case 4:
			e.Stats, err = t.appendStat(e.Stats, b)
		}
		return err
	})
	e.Name = kind.Name
	if len(e.Stats) == 0 { // shared, not copied: there can be a million events
		e.Stats = kind.Stats[:len(kind.Stats):len(kind.Stats)]
	} else {
		e.Stats = append(e.Stats, kind.Stats...)
	}
	return e, err
}

// appendStat reads an XStat.
func (t *tables) appendStat(l []Stat, b []byte) ([]Stat, error) {
	var s Stat
	err := fields(b, func(f int, v uint64, b []byte) error {
		switch f {
		case 1:
			s.Name = t.stats[int64(v)]
		case 2:
			s.Value = math.Float64frombits(v)
		case 3:
			s.Value = v
		case 4:
			s.Value = int64(v)
		case 5:
			s.Value = string(b)
		case 6:
			s.Value = append([]byte{}, b...)
		case 7: // a string that is kept among the names of stats
			s.Value = t.stats[int64(v)]
		}
		return nil
	})
	return append(l, s), err
}

// mapEntry reads an entry of a map from number to message.
func mapEntry(b []byte) (key int64, value []byte, err error) {
	err = fields(b, func(f int, v uint64, b []byte) error {
		switch f {
		case 1:
			key = int64(v)
		case 2:
			value = b
		}
		return nil
	})
	return key, value, err
}
