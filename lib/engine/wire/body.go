package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
)

// ProgramBody asks for a compiled program. The first request carries no text:
// the session answers NeedText when it knows the hash neither in memory nor on
// disk.
type ProgramBody struct {
	Handle   uint64   // the client's number for the program
	Hash     [32]byte // SHA-256 of Text and the options, see Key
	Name     string   // for messages and lists, no part of the hash
	Origin   string   // notebook and cell it comes from, for lists
	Replicas uint32   // 1, or the number of devices of a data-parallel program
	Devices  []uint32 // one device a replica; empty: chosen at each Execute
	Flags    string   // JSON object of XLA options for this program; "" is none
	Inputs   []Type   // one replica's parameters
	Outputs  []Type   // one replica's results
	Text     []byte   // StableHLO
}

// ProgramReply answers Program.
type ProgramReply struct {
	From        Source
	Nanoseconds uint64 // spent compiling or loading, 0 for a hit in memory
}

// Source says where a compiled program came from.
type Source uint8

// The sources.
const (
	Memory Source = iota + 1
	Disk
	Compiled
)

func (s Source) String() string {
	switch s {
	case Memory:
		return "memory hit"
	case Disk:
		return "disk hit"
	case Compiled:
		return "miss, compiled"
	}
	return "unknown"
}

// WindowBody offers shared memory to the session. Its file descriptor travels
// with the frame. Client and session keep it mapped as long as the connection
// lives.
type WindowBody struct {
	Window uint32
	Size   uint64 // bytes
}

// UploadBody makes an array from host data: Data when Window is 0, else the
// bytes at Offset in that window, which the session releases with Done: soon
// where it copies them, and when the array is gone where the window becomes the
// array's memory, which it does on the CPU.
type UploadBody struct {
	Handle uint64
	Type   Type
	Device uint32
	Window uint32
	Offset uint64
	Data   []byte
}

// Adopts says whether a session on the CPU uses a window of that size in place of
// memory of its own: not where that would keep much more than the array needs.
func (u *UploadBody) Adopts(window int) bool {
	n, err := u.Type.Bytes()
	return err == nil && u.Offset%4096 == 0 && n >= 1<<20 && int64(window) <= 2*n
}

// DoneBody says that the session no longer uses a window.
type DoneBody struct{ Window uint32 }

// ExecuteBody runs a program. Inputs and outputs are replica-major: input i of
// replica r is Inputs[r*params+i].
type ExecuteBody struct {
	Program uint64
	Device  uint32 // for a program without a device assignment
	Inputs  []uint64
	Donate  []bool // by input; a donated handle is gone, whatever happens
	Outputs []uint64
	Bind    []Binding // names that take the outputs, all at once, when the program has succeeded
}

// Binding gives output number Output of a program the name Name.
type Binding struct {
	Output uint32
	Name   string
}

// DownloadBody asks for the data of an array, in the reply when Window is 0,
// else in that window at Offset.
type DownloadBody struct {
	Handle uint64
	Window uint32
	Offset uint64
}

// CopyBody copies an array to another device.
type CopyBody struct {
	From, To uint64
	Device   uint32
}

func (p *ProgramBody) Append(b []byte) []byte {
	b = putU64(b, p.Handle)
	b = append(b, p.Hash[:]...)
	b = putString(b, p.Name)
	b = putString(b, p.Origin)
	b = putU32(b, p.Replicas)
	b = putU32(b, uint32(len(p.Devices)))
	for _, d := range p.Devices {
		b = putU32(b, d)
	}
	b = putString(b, p.Flags)
	b = putTypes(b, p.Inputs)
	b = putTypes(b, p.Outputs)
	return putBytes(b, p.Text)
}

// Decode fills p from b. The slices of p do not alias b.
func (p *ProgramBody) Decode(b []byte) error {
	d := decoder{b: b}
	p.Handle = d.u64()
	copy(p.Hash[:], d.take(32))
	p.Name, p.Origin = d.str(), d.str()
	p.Replicas = d.u32()
	p.Devices = nil
	for range d.count(4) {
		p.Devices = append(p.Devices, d.u32())
	}
	p.Flags = d.str()
	p.Inputs, p.Outputs = d.types(), d.types()
	p.Text = append([]byte(nil), d.bytes()...)
	return d.end(Program)
}

func (r ProgramReply) Append(b []byte) []byte { return putU64(append(b, byte(r.From)), r.Nanoseconds) }

// Decode fills r from b.
func (r *ProgramReply) Decode(b []byte) error {
	d := decoder{b: b}
	r.From, r.Nanoseconds = Source(d.u8()), d.u64()
	return d.end(Reply)
}

func (w WindowBody) Append(b []byte) []byte { return putU64(putU32(b, w.Window), w.Size) }

// Decode fills w from b.
func (w *WindowBody) Decode(b []byte) error {
	d := decoder{b: b}
	w.Window, w.Size = d.u32(), d.u64()
	return d.end(Window)
}

func (u *UploadBody) Append(b []byte) []byte {
	b = putU64(b, u.Handle)
	b = putType(b, u.Type)
	b = putU32(b, u.Device)
	b = putU32(b, u.Window)
	b = putU64(b, u.Offset)
	return putBytes(b, u.Data)
}

// Decode fills u from b. Data aliases b.
func (u *UploadBody) Decode(b []byte) error {
	d := decoder{b: b}
	u.Handle, u.Type, u.Device = d.u64(), d.typ(), d.u32()
	u.Window, u.Offset = d.u32(), d.u64()
	u.Data = d.bytes()
	return d.end(Upload)
}

func (x DoneBody) Append(b []byte) []byte { return putU32(b, x.Window) }

// Decode fills x from b.
func (x *DoneBody) Decode(b []byte) error {
	d := decoder{b: b}
	x.Window = d.u32()
	return d.end(Done)
}

func (e *ExecuteBody) Append(b []byte) []byte {
	b = putU64(b, e.Program)
	b = putU32(b, e.Device)
	b = putHandles(b, e.Inputs)
	at := len(b)
	b = append(b, make([]byte, (len(e.Inputs)+7)/8)...)
	for i, yes := range e.Donate {
		if yes {
			b[at+i/8] |= 1 << (i % 8)
		}
	}
	b = putHandles(b, e.Outputs)
	b = putU32(b, uint32(len(e.Bind)))
	for _, x := range e.Bind {
		b = putString(putU32(b, x.Output), x.Name)
	}
	return b
}

// Decode fills e from b. It reuses the slices that e has.
func (e *ExecuteBody) Decode(b []byte) error {
	d := decoder{b: b}
	e.Program, e.Device = d.u64(), d.u32()
	e.Inputs = d.handles(e.Inputs[:0])
	bits := d.take((len(e.Inputs) + 7) / 8)
	e.Donate = e.Donate[:0]
	for i := range e.Inputs {
		e.Donate = append(e.Donate, bits != nil && bits[i/8]>>(i%8)&1 == 1)
	}
	e.Outputs = d.handles(e.Outputs[:0])
	e.Bind = e.Bind[:0]
	for range d.count(8) {
		e.Bind = append(e.Bind, Binding{d.u32(), d.str()})
	}
	return d.end(Execute)
}

// ExecuteProgram is the program that an Execute's body names, 0 for a torn one.
func ExecuteProgram(b []byte) uint64 {
	d := decoder{b: b}
	return d.u64()
}

func (x DownloadBody) Append(b []byte) []byte {
	return putU64(putU32(putU64(b, x.Handle), x.Window), x.Offset)
}

// Decode fills x from b.
func (x *DownloadBody) Decode(b []byte) error {
	d := decoder{b: b}
	x.Handle, x.Window, x.Offset = d.u64(), d.u32(), d.u64()
	return d.end(Download)
}

func (x CopyBody) Append(b []byte) []byte { return putU32(putU64(putU64(b, x.From), x.To), x.Device) }

// Decode fills x from b.
func (x *CopyBody) Decode(b []byte) error {
	d := decoder{b: b}
	x.From, x.To, x.Device = d.u64(), d.u64(), d.u32()
	return d.end(Copy)
}

// AppendHandles appends the body of Free to b.
func AppendHandles(b []byte, handles []uint64) []byte { return putHandles(b, handles) }

// DecodeHandles reads the body of Free.
func DecodeHandles(b []byte) ([]uint64, error) {
	d := decoder{b: b}
	hs := d.handles(nil)
	return hs, d.end(Free)
}

// JSON is the body of a cold message.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("wire: " + err.Error()) // our own structs of strings and numbers always encode
	}
	return b
}

func putU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
func putU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }
func putString(b []byte, s string) []byte {
	return append(putU32(b, uint32(len(s))), s...)
}
func putBytes(b, s []byte) []byte { return append(putU32(b, uint32(len(s))), s...) }
func putHandles(b []byte, hs []uint64) []byte {
	b = putU32(b, uint32(len(hs)))
	for _, h := range hs {
		b = putU64(b, h)
	}
	return b
}
func putType(b []byte, t Type) []byte {
	b = append(b, byte(t.DType), byte(len(t.Dims)))
	for _, d := range t.Dims {
		b = putU64(b, uint64(d))
	}
	return b
}
func putTypes(b []byte, ts []Type) []byte {
	b = putU32(b, uint32(len(ts)))
	for _, t := range ts {
		b = putType(b, t)
	}
	return b
}

// Key is the hash that names a program: SHA-256 of its text and of all that
// changes what the compiler makes of it.
func Key(text []byte, flags string, replicas uint32, devices []uint32) (key [32]byte) {
	h := sha256.New()
	b := putU32(nil, max(1, replicas))
	b = putU32(b, uint32(len(devices)))
	for _, d := range devices {
		b = putU32(b, d)
	}
	h.Write(putString(b, flags))
	h.Write(text)
	h.Sum(key[:0])
	return key
}
