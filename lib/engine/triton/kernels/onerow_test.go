package kernels

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise"
)

// TestOneRow holds dense layers of one row against float64, with sizes that fill no tile, and
// with every tiling.
func TestOneRow(t *testing.T) {
	for i, f := range []OneRow{
		{In: 33, Units: [3]int{40}, Biases: true, Act: activations.GELU},
		{In: 600, Units: [3]int{7, 64, 33}, Norm: true, Offset: true, Epsilon: 1e-5, Biases: true},
		{In: 70, Units: [3]int{20, 20}, Norm: true, Epsilon: 1e-6, Act: activations.SiLU, X: dtypes.BFloat16, W: dtypes.BFloat16, Scale: dtypes.BFloat16},
		{In: 16, Units: [3]int{1}, Residual: true, Biases: true},
		{In: 2100, Units: [3]int{48}, Residual: true, Biases: true, Act: activations.ReLU},
		{In: 1, Units: [3]int{3}, X: dtypes.BFloat16},
	} {
		low := f.X != dtypes.InvalidDType
		some := func(seed uint64, n int) []float64 {
			l := numbers(seed, n)
			for i := range l {
				l[i] = math.Round(l[i]*16) / 16 // exact in bfloat16
			}
			return l
		}
		x, in := some(1, f.In), [][]float64(nil)
		in = append(in, x)
		rows := x
		if f.Norm {
			scale, offset := some(2, f.In), make([]float64, f.In)
			if in = append(in, scale); f.Offset {
				offset = some(3, f.In)
				in = append(in, offset)
			}
			rows, _, _, _ = plainNorm(Norm{Width: f.In, Offset: f.Offset, Epsilon: f.Epsilon}, x, scale, offset, make([]float64, len(x)))
		}
		var want [][]float64
		for k, units := range f.layers() {
			w, biases := some(uint64(10+k), f.In*units), make([]float64, units)
			if in = append(in, w); f.Biases {
				biases = some(uint64(20+k), units)
				in = append(in, biases)
			}
			y := matmul(rows, w, 1, f.In, units, false, false)
			for j := range y {
				y[j] = activations.Apply(elementwise.Float64, f.Act, y[j]+biases[j%units])
			}
			want = append(want, y)
		}
		if f.Residual {
			residual := some(4, len(want[0]))
			in = append(in, residual)
			for j := range residual {
				want[0][j] += residual[j]
			}
		}
		limit := 2e-6
		if low {
			limit = 6e-3
		}
		for _, tile := range f.Tiles() {
			got := run(t, f.With(tile).(OneRow).Kernel(), in...)
			for k := range want {
				near(t, name(i, " ", tile, " layer ", k), got[k], want[k], limit)
			}
		}
	}
}

// TestCachedAttention holds attention to a cache against float64: sequences of other lengths,
// slots that hold nothing, groups of heads, windows and a soft cap.
func TestCachedAttention(t *testing.T) {
	for i, c := range []CachedAttention{
		{Rows: 1, Heads: 2, Groups: 2, Size: 16, Slots: 40},
		{Rows: 3, Heads: 6, Groups: 2, Size: 20, Slots: 33, SoftCap: 2},
		{Rows: 2, Heads: 4, Groups: 1, Size: 64, Slots: 128, Window: 5, X: dtypes.BFloat16},
		{Rows: 1, Heads: 1, Groups: 1, Size: 1, Slots: 1},
	} {
		c.Scale = 1 / math.Sqrt(float64(c.Size))
		each, one := c.Heads/c.Groups, c.Rows*c.Groups*c.Size
		q, k, v := numbers(1, c.Rows*c.Heads*c.Size), numbers(2, one), numbers(3, one)
		keys, values := numbers(4, one*c.Slots), numbers(5, one*c.Slots)
		for _, l := range [][]float64{q, k, v, keys, values} {
			for i := range l {
				l[i] = math.Round(l[i]*32) / 32
			}
		}
		slot := c.Slots * 2 / 3
		at, position := make([]float64, c.Rows*c.Slots), make([]float64, c.Rows)
		for r := range c.Rows {
			next := 0.0
			for s := range c.Slots {
				at[r*c.Slots+s] = -1
				if s <= slot && (s == slot || (s+r)%3 > 0) {
					at[r*c.Slots+s] = next
					next++
				}
			}
			position[r] = next - 1
		}
		if c.Rows > 2 { // a sequence that has ended: nothing is in the slot
			at[2*c.Slots+slot] = -1
		}
		wantKeys, wantValues := append([]float64(nil), keys...), append([]float64(nil), values...)
		y := make([]float64, len(q))
		for p := range c.Rows * c.Groups {
			for s := range c.Size {
				wantKeys[(p*c.Slots+slot)*c.Size+s], wantValues[(p*c.Slots+slot)*c.Size+s] = k[p*c.Size+s], v[p*c.Size+s]
			}
			r := p / c.Groups
			for h := range each {
				of := (p*each + h) * c.Size
				total := 0.0
				for j := range c.Slots {
					place := at[r*c.Slots+j]
					if place < 0 || place > position[r] || c.Window > 0 && place <= position[r]-float64(c.Window) {
						continue
					}
					score := 0.0
					for s := range c.Size {
						score += q[of+s] * wantKeys[(p*c.Slots+j)*c.Size+s] * c.Scale
					}
					if c.SoftCap > 0 {
						score = c.SoftCap * math.Tanh(score/c.SoftCap)
					}
					total += math.Exp(score)
					for s := range c.Size {
						y[of+s] += math.Exp(score) * wantValues[(p*c.Slots+j)*c.Size+s]
					}
				}
				for s := range c.Size {
					y[of+s] /= total
				}
			}
		}
		limit := 2e-6
		if c.X != dtypes.InvalidDType {
			limit = 4e-3
		}
		for _, tile := range c.Tiles() {
			got := run(t, c.With(tile).(CachedAttention).Kernel(), q, k, v, keys, values, at, position, []float64{float64(slot)})
			near(t, name(i, " ", tile, " y"), got[0], y, limit)
			near(t, name(i, " ", tile, " keys"), got[1], wantKeys, 0)
			near(t, name(i, " ", tile, " values"), got[2], wantValues, 0)
		}
	}
}
