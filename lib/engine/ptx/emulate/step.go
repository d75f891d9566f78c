package emulate

import (
	"math"
	"math/bits"
)

// code is an instruction's number.
type code uint8

const (
	mov code = iota
	add
	sub
	mul
	mad
	high
	least
	leastSigned
	most
	and
	or
	xor
	shl
	shr
	addFloat
	subFloat
	mulFloat
	fma
	leastFloat
	mostFloat
	toFloat
	halves
	brains
	rsqrt
	rcp
	ex2
	lg2
	choose
	other
	of
	threadID
	blockID
	ofWords // all before it set a register of 32 bits
	less
	greater
	equal
	lessFloat
	greaterFloat
	equalFloat
	movCondition
	andCondition
	orCondition
	xorCondition
	notCondition
	ofConditions
	movAddress
	parameter
	mulWide
	madWide
	addAddress
	ofAddresses
	load
	store
	loadShared
	storeShared
	release
	acquire
	barrier
	branch
	trap
	end
	ofWarps // all after it want all threads of the warp
	dot
	dotHalves
	dotBrain
	matrices
	turned
)

// row is a register's 32 numbers, one for each thread, or a constant's.
func (w *warp) row(i int32) *[lanes]uint32 {
	if i < 0 {
		return &w.constants[^i]
	}
	return &w.words[i]
}

// step runs an instruction for the threads of mask, which are not none.
func (w *warp) step(in *instruction, mask uint32) error {
	if (in.code == other || in.code == of || in.code == barrier || in.code > ofWarps) && mask != everyone {
		return w.fail(in, w.lane(), "got %d threads of the warp, want all 32", bits.OnesCount32(mask))
	}
	switch {
	case in.code < ofWords:
		w.arithmetic(in, mask)
		return nil
	case in.code < ofConditions:
		w.condition(in, mask)
		return nil
	case in.code < ofAddresses:
		w.address(in, mask)
		return nil
	}
	switch in.code {
	case load, store:
		return w.memory(in, mask, in.code == store)
	case loadShared, storeShared:
		return w.sharedMemory(in, mask, in.code == storeShared)
	case release:
		return w.release(in, mask)
	case acquire:
		return w.acquire(in, mask)
	case barrier:
		w.barrier()
	case dot:
		w.dot(in)
	case dotHalves, dotBrain:
		w.dotHalves(in)
	case matrices, turned:
		return w.matrices(in)
	case trap:
		return w.fail(in, w.lane(), "the kernel ends the program")
	}
	return nil
}

// arithmetic sets a register of 32 bits. It is computed for all threads, which
// does no harm, and kept for those of mask.
func (w *warp) arithmetic(in *instruction, mask uint32) {
	out, a, b := &w.words[in.at[0]], w.row(in.at[1]), w.row(in.at[2])
	kept := out
	var scratch [lanes]uint32
	if mask != everyone || in.code == other || in.code == of {
		out = &scratch // shuffles read what they set
	}
	switch in.code {
	case mov:
		*out = *a
	case add:
		for i := range out {
			out[i] = a[i] + b[i]
		}
	case sub:
		for i := range out {
			out[i] = a[i] - b[i]
		}
	case mul:
		for i := range out {
			out[i] = a[i] * b[i]
		}
	case mad:
		c := w.row(in.at[3])
		for i := range out {
			out[i] = a[i]*b[i] + c[i]
		}
	case high:
		for i := range out {
			out[i] = uint32(uint64(a[i]) * uint64(b[i]) >> 32)
		}
	case least:
		for i := range out {
			out[i] = min(a[i], b[i])
		}
	case leastSigned:
		for i := range out {
			out[i] = uint32(min(int32(a[i]), int32(b[i])))
		}
	case most:
		for i := range out {
			out[i] = max(a[i], b[i])
		}
	case and:
		for i := range out {
			out[i] = a[i] & b[i]
		}
	case or:
		for i := range out {
			out[i] = a[i] | b[i]
		}
	case xor:
		for i := range out {
			out[i] = a[i] ^ b[i]
		}
	case shl:
		for i := range out {
			out[i] = a[i] << b[i]
		}
	case shr:
		for i := range out {
			out[i] = a[i] >> b[i]
		}
	case addFloat:
		for i := range out {
			out[i] = math.Float32bits(math.Float32frombits(a[i]) + math.Float32frombits(b[i]))
		}
	case subFloat:
		for i := range out {
			out[i] = math.Float32bits(math.Float32frombits(a[i]) - math.Float32frombits(b[i]))
		}
	case mulFloat:
		for i := range out {
			out[i] = math.Float32bits(math.Float32frombits(a[i]) * math.Float32frombits(b[i]))
		}
	case fma:
		c := w.row(in.at[3])
		for i := range out {
			out[i] = math.Float32bits(fused(math.Float32frombits(a[i]), math.Float32frombits(b[i]), math.Float32frombits(c[i])))
		}
	case leastFloat, mostFloat:
		for i := range out {
			out[i] = math.Float32bits(extreme(math.Float32frombits(a[i]), math.Float32frombits(b[i]), in.code == mostFloat))
		}
	case toFloat:
		for i := range out {
			out[i] = math.Float32bits(float32(a[i]))
		}
	case halves:
		for i := range out {
			out[i] = half(a[i])<<16 | half(b[i])
		}
	case brains:
		for i := range out {
			out[i] = brain(a[i])<<16 | brain(b[i])
		}
	case rsqrt, rcp, ex2, lg2:
		f := approximate[in.code]
		for i := range out {
			out[i] = math.Float32bits(flushed(float32(f(float64(flushed(math.Float32frombits(a[i])))))))
		}
	case choose:
		holds := w.conditions[in.at[3]]
		for i := range out {
			out[i] = b[i]
			if holds>>i&1 != 0 {
				out[i] = a[i]
			}
		}
	case other:
		for i := range out {
			out[i] = a[(uint32(i)^b[i])%lanes]
		}
	case of:
		for i := range out {
			out[i] = a[b[i]%lanes]
		}
	case threadID:
		for i := range out {
			out[i] = uint32(w.first + i)
		}
	case blockID:
		for i := range out {
			out[i] = uint32(w.block.number)
		}
	}
	if out == kept {
		return
	}
	for i := range kept {
		if mask>>i&1 != 0 {
			kept[i] = out[i]
		}
	}
}

func bit(is bool) uint32 {
	if is {
		return 1
	}
	return 0
}

// condition sets a condition.
func (w *warp) condition(in *instruction, mask uint32) {
	var is uint32
	x, y := in.at[1], in.at[2]
	switch c := w.conditions; in.code {
	case movCondition:
		is = c[x]
	case andCondition:
		is = c[x] & c[y]
	case orCondition:
		is = c[x] | c[y]
	case xorCondition:
		is = c[x] ^ c[y]
	case notCondition:
		is = ^c[x]
	case less:
		a, b := w.row(x), w.row(y)
		for i := range a {
			is |= bit(a[i] < b[i]) << i
		}
	case greater:
		a, b := w.row(x), w.row(y)
		for i := range a {
			is |= bit(a[i] > b[i]) << i
		}
	case equal:
		a, b := w.row(x), w.row(y)
		for i := range a {
			is |= bit(a[i] == b[i]) << i
		}
	default:
		a, b := w.row(x), w.row(y)
		for i := range a {
			f, g := math.Float32frombits(a[i]), math.Float32frombits(b[i])
			is |= bit(in.code == lessFloat && f < g || in.code == greaterFloat && f > g || in.code == equalFloat && f == g) << i
		}
	}
	kept := &w.conditions[in.at[0]]
	*kept = *kept&^mask | is&mask
}

// address sets an address.
func (w *warp) address(in *instruction, mask uint32) {
	out := &w.addresses[in.at[0]]
	kept := out
	var scratch [lanes]uint64
	if mask != everyone {
		out = &scratch
	}
	switch in.code {
	case parameter:
		for i := range out {
			out[i] = w.parameters[in.n]
		}
	case movAddress:
		*out = w.addresses[in.at[1]]
	case mulWide:
		a, b := w.row(in.at[1]), w.row(in.at[2])
		for i := range out {
			out[i] = uint64(a[i]) * uint64(b[i])
		}
	case madWide:
		a, b, c := w.row(in.at[1]), w.row(in.at[2]), &w.addresses[in.at[3]]
		for i := range out {
			out[i] = uint64(a[i])*uint64(b[i]) + c[i]
		}
	default: // addAddress
		a, b := &w.addresses[in.at[1]], &w.addresses[in.at[2]]
		for i := range out {
			out[i] = a[i] + b[i]
		}
	}
	if out == kept {
		return
	}
	for i := range kept {
		if mask>>i&1 != 0 {
			kept[i] = out[i]
		}
	}
}
