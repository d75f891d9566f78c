package emulate

import (
	"math"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
)

// approximate are the functions of which a device has the first 22 bits.
var approximate = map[code]func(float64) float64{
	rsqrt: func(x float64) float64 { return 1 / math.Sqrt(x) },
	rcp:   func(x float64) float64 { return 1 / x },
	ex2:   math.Exp2,
	lg2:   math.Log2,
}

// flushed is x without the numbers that are nearly 0.
func flushed(x float32) float32 {
	if -0x1p-126 < x && x < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// fused is x·y + z, rounded once. The product of two float32 is a float64; where
// the sum rounds to what lies between two float32, the bit that it lost decides.
func fused(x, y, z float32) float32 {
	product, c := float64(x)*float64(y), float64(z)
	sum := product + c
	bits := math.Float64bits(sum)
	if bits&(1<<29-1) != 1<<28 && math.Abs(sum) >= 0x1p-126 {
		return float32(sum)
	}
	back := sum - product
	lost := (product - (sum - back)) + (c - back)
	if lost != 0 && bits&1 == 0 && lost == lost {
		if (lost > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}

// extreme is the smaller or the larger one, of a NaN and a number the number.
func extreme(x, y float32, larger bool) float32 {
	switch {
	case x != x:
		return y
	case y != y:
		return x
	case larger:
		return max(x, y)
	}
	return min(x, y)
}

// dot is mma.m16n8k8 for .tf32: thread 4g+t has the elements that ptx.Block.Dot
// says. Factors are cut, the sum is rounded at the end.
func (w *warp) dot(in *instruction) {
	var x [16][16]float64
	var y [8][16]float64 // by columns
	cut := func(i int, lane int) float64 {
		return float64(math.Float32frombits(w.row(in.at[i])[lane] &^ (1<<13 - 1)))
	}
	for lane := range lanes {
		g, t := lane/4, lane%4
		x[g][t], x[g+8][t], x[g][t+4], x[g+8][t+4] = cut(4, lane), cut(5, lane), cut(6, lane), cut(7, lane)
		y[g][t], y[g][t+4] = cut(8, lane), cut(9, lane)
	}
	w.add(in, 8, &x, &y)
}

// add adds the product of factors of such a depth to the sums of an instruction of package
// ptx's Dot and DotHalves. It is rounded once, at the end.
func (w *warp) add(in *instruction, depth int, x *[16][16]float64, y *[8][16]float64) {
	var out [4][lanes]uint32
	for i := range out {
		sum := w.row(in.at[10+i])
		for lane := range lanes {
			row, column := x[lane/4+i/2*8][:depth], &y[lane%4*2+i%2]
			v := float64(math.Float32frombits(sum[lane]))
			for k := range row {
				v += row[k] * column[k]
			}
			out[i][lane] = math.Float32bits(float32(v))
		}
	}
	for i := range out {
		w.words[in.at[i]] = out[i]
	}
}

// dotHalves is mma.m16n8k16: thread 4g+t has the elements that ptx.Block.DotHalves says.
func (w *warp) dotHalves(in *instruction) {
	var x [16][16]float64
	var y [8][16]float64 // by columns
	pair := func(i, lane int) (low, high float64) {
		v := w.row(in.at[i])[lane]
		if in.code == dotBrain {
			return float64(bfloat16.FromBits(uint16(v)).Float32()), float64(bfloat16.FromBits(uint16(v >> 16)).Float32())
		}
		return float64(float16.FromBits(uint16(v)).Float32()), float64(float16.FromBits(uint16(v >> 16)).Float32())
	}
	for lane := range lanes {
		g, t := lane/4, lane%4*2
		x[g][t], x[g][t+1] = pair(4, lane)
		x[g+8][t], x[g+8][t+1] = pair(5, lane)
		x[g][t+8], x[g][t+9] = pair(6, lane)
		x[g+8][t+8], x[g+8][t+9] = pair(7, lane)
		y[g][t], y[g][t+1] = pair(8, lane)
		y[g][t+8], y[g][t+9] = pair(9, lane)
	}
	w.add(in, 16, &x, &y)
}

// half rounds the float32 of these bits to 16 bits of IEEE's. FromFloat32 of GoMLX's
// compute v0.1.2 makes zeros of what is below 2⁻¹⁴.
func half(bits uint32) uint32 {
	x := float64(math.Float32frombits(bits))
	switch size := math.Abs(x); {
	case size < 0x1p-14:
		return bits>>16&0x8000 | uint32(math.RoundToEven(size*0x1p24))
	case size >= 65520:
		return bits>>16&0x8000 | 0x7C00
	}
	return uint32(float16.FromFloat32(float32(x)).Bits())
}

// brain rounds it to its high half.
func brain(bits uint32) uint32 {
	return uint32(bfloat16.FromFloat32(math.Float32frombits(bits)).Bits())
}
