package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/fit"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// tensors shows arrays, such as weights or activations: shape, statistics and a histogram of
// each, and images of those that are matrices, filters [height width in out], images [n height
// width channels] or attention's weights [n heads length keys]. A cell whose last line is a
// fit.Tensor shows it so.
type tensors []fit.Tensor

const (
	mostArrays = 50 // of one display

	mostNumbers = 100 // of a tensor that are written out
	mostImages  = 8   // tensors with images, of one display
	mostTiles   = 64  // matrices of one image
	mostPixels  = 256 // rows or columns of one matrix
	bins        = 24  // of a histogram
)

func (l tensors) String() string { return l.table().String() }

// HTML is the table, and below it the images.
func (l tensors) HTML() string {
	s := l.table().HTML()
	shown := 0
	for _, t := range l {
		if picture := tilesOf(t); picture != "" && shown < mostImages {
			s += picture
			shown++
		}
	}
	return s
}

func (l tensors) table() Table {
	t := Table{Head: []string{"", "shape", "numbers", "mean", "std", "min", "max", "zeros", "histogram"}}
	for _, a := range l {
		s := statisticsOf(a.Data)
		row := []any{a.Name, fmt.Sprint(a.Dims), units.Count(len(a.Data)), "", "", "", "", "", ""}
		if s.count > 0 {
			row = []any{a.Name, fmt.Sprint(a.Dims), units.Count(len(a.Data)), s.mean, s.std, s.low, s.high, units.Percent(float64(s.zeros) / float64(len(a.Data))), s.histogram(a.Data)}
		}
		t.Add(row...)
		if bad := len(a.Data) - s.count; bad > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s of %s numbers are not finite", a.Name, units.Count(bad), units.Count(len(a.Data))))
		}
	}
	return t
}

// statistics are those of finite numbers.
type statistics struct {
	count, zeros         int
	mean, std, low, high float64
}

func statisticsOf(values []float32) statistics {
	s := statistics{low: math.Inf(1), high: math.Inf(-1)}
	sum, squares := 0.0, 0.0
	for _, x := range values {
		v := float64(x)
		if !finite(v) {
			continue
		}
		s.count++
		if v == 0 {
			s.zeros++
		}
		sum, s.low, s.high = sum+v, min(s.low, v), max(s.high, v)
	}
	s.mean = sum / float64(max(1, s.count))
	for _, x := range values {
		if v := float64(x); finite(v) {
			squares += (v - s.mean) * (v - s.mean)
		}
	}
	s.std = math.Sqrt(squares / float64(max(1, s.count)))
	return s
}

// place is where a value is between the least and the greatest, 0 to 1.
func (s statistics) place(v float64) float64 {
	if s.high == s.low {
		return 0.5
	}
	return (v - s.low) / (s.high - s.low)
}

// histogram is a line of blocks, from the least to the greatest value.
func (s statistics) histogram(values []float32) string {
	counts, most := make([]int, bins), 1
	for _, x := range values {
		if v := float64(x); finite(v) {
			i := min(bins-1, int(s.place(v)*bins))
			counts[i]++
			most = max(most, counts[i])
		}
	}
	var b strings.Builder
	for _, n := range counts {
		mark := ' '
		if n > 0 {
			mark = []rune("▁▂▃▄▅▆▇█")[n*7/most]
		}
		b.WriteRune(mark)
	}
	return b.String()
}

// mostShown is how many numbers ArrayHTML reads from the device at most.
const mostShown = 1 << 24

// ArrayHTML shows arrays of GoMLX and of the session as it shows a net's weights, for the last
// line of a cell. It is "" for other values, and for arrays that cannot be read.
func ArrayHTML(v any) string {
	l := reflect.ValueOf(v)
	if l.Kind() != reflect.Slice {
		l = reflect.Append(reflect.MakeSlice(reflect.TypeFor[[]any](), 0, 1), l)
	}
	var all tensors
	for i := range min(l.Len(), mostArrays) {
		t, is := tensorOf(l.Index(i))
		if !is {
			return ""
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return ""
	}
	s := all.HTML()
	for _, t := range all {
		s += numbersOf(t)
	}
	if more := l.Len() - len(all); more > 0 {
		s += small(fmt.Sprintf("and %d more", more))
	}
	return s
}

// numbersOf are all numbers of a tensor that has few, a line for each row.
func numbersOf(t fit.Tensor) string {
	if len(t.Data) == 0 || len(t.Data) > mostNumbers {
		return ""
	}
	width := 1
	if len(t.Dims) > 0 {
		width = t.Dims[len(t.Dims)-1]
	}
	text := ""
	for row := range slices.Chunk(t.Data, width) {
		for _, x := range row {
			text += fmt.Sprintf("%10.5g ", x)
		}
		text += "\n"
	}
	return fmt.Sprintf("<pre>%s %s\n%s</pre>", t.Name, fmt.Sprint(t.Dims), text)
}

// tensorOf is an array of numbers on the host, by the methods of GoMLX's and the session's ones.
func tensorOf(v reflect.Value) (t fit.Tensor, is bool) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct { // its methods are the pointer's
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		v = p
	}
	if !v.IsValid() || v.Kind() != reflect.Pointer || v.IsNil() {
		return t, false
	}
	var shape shapes.Shape
	take := func(flat any) { // GoMLX lends it for the time of the call
		all := reflect.ValueOf(flat)
		t.Data = make([]float32, all.Len())
		for i := range t.Data {
			t.Data[i] = float32Of(all.Index(i))
		}
	}
	switch a := v.Interface().(type) {
	case *session.Array:
		var err error
		if shape, err = a.Shape(); err != nil || !showable(shape) {
			return t, false
		}
		flat := dtypes.MakeAnySlice(shape.DType, shape.Size())
		if a.Values(flat) != nil {
			return t, false
		}
		take(flat)
	case interface {
		Ok() bool
		Shape() shapes.Shape
		ConstFlatData(func(flat any)) error
	}:
		if !a.Ok() || !showable(a.Shape()) {
			return t, false
		}
		if shape = a.Shape(); a.ConstFlatData(take) != nil {
			return t, false
		}
	default:
		return t, false
	}
	t.Name, t.Dims = strings.ToLower(shape.DType.String()), shape.Dimensions
	return t, true
}

// showable says whether arrays of a shape are shown: real numbers, and not too many.
func showable(s shapes.Shape) bool {
	return s.Size() <= mostShown && !s.DType.IsComplex() && (s.DType.Bits() >= 8 || s.DType == dtypes.Bool)
}

// float32Of is a number of any type; true is 1.
func float32Of(v reflect.Value) float32 {
	switch narrow, is := v.Interface().(interface{ Float32() float32 }); {
	case is:
		return narrow.Float32()
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case v.CanInt():
		return float32(v.Int())
	case v.CanUint():
		return float32(v.Uint())
	}
	return float32(v.Float())
}

// matrices are how a tensor is cut into images: so many matrices, of which number i has value
// (r, c) at at(i, r, c). colours says that three values next to each other are one pixel.
type matrices struct {
	count, rows, columns int
	colours              bool
	at                   func(i, r, c int) int
}

// cut says how a tensor is cut into matrices; count is 0 where it is not.
func cut(t fit.Tensor) (m matrices) {
	size := 1
	for _, d := range t.Dims {
		size *= d
	}
	d := t.Dims
	for len(d) > 2 && d[0] == 1 { // of one example
		d = d[1:]
	}
	if size != len(t.Data) || size == 0 {
		return m
	}
	if len(d) == 3 && d[2] == 1 { // a gray image
		d = d[:2]
	}
	last := func(rows, columns int) matrices {
		return matrices{count: size / (rows * columns), rows: rows, columns: columns, at: func(i, r, c int) int { return (i*rows+r)*columns + c }}
	}
	named := strings.HasSuffix(t.Name, "weights")
	switch {
	case len(d) == 4 && named && d[0] == d[1] && d[0] <= 15: // filters [height width in out]
		return matrices{count: d[2] * d[3], rows: d[0], columns: d[1], at: func(i, r, c int) int { return (r*d[1]+c)*d[2]*d[3] + i }}
	case len(d) == 4 && !named && d[3] == 3, len(d) == 3 && !named && d[2] == 3 && d[0] > 7 && d[1] > 7:
		rows, columns := d[len(d)-3], d[len(d)-2]
		return matrices{count: size / (3 * rows * columns), rows: rows, columns: columns, colours: true, at: func(i, r, c int) int { return ((i*rows+r)*columns + c) * 3 }}
	case len(d) == 4 && !named: // images [n height width channels]
		return matrices{count: d[0] * d[3], rows: d[1], columns: d[2], at: func(i, r, c int) int { return ((i/d[3]*d[1]+r)*d[2]+c)*d[3] + i%d[3] }}
	case len(d) >= 2 && d[len(d)-1] > 1 && d[len(d)-2] > 1: // attention's weights, sequences, matrices
		return last(d[len(d)-2], d[len(d)-1])
	}
	return matrices{}
}

// tilesOf are a tensor's matrices in one image, "" where it has none. All have one scale.
func tilesOf(t fit.Tensor) string {
	m := cut(t)
	if m.count == 0 {
		return ""
	}
	s := statisticsOf(t.Data)
	shown := min(m.count, mostTiles)
	rows, columns := thinned(m.rows, mostPixels), thinned(m.columns, mostPixels)
	across := min(shown, max(1, int(math.Ceil(math.Sqrt(float64(shown)*float64(len(rows))/float64(len(columns)))))))
	down := (shown + across - 1) / across
	wide, high := across*(len(columns)+1)-1, down*(len(rows)+1)-1 // a pixel between two
	picture := image.NewNRGBA(image.Rect(0, 0, wide, high))
	for i := range shown {
		x, y := i%across*(len(columns)+1), i/across*(len(rows)+1)
		for r, row := range rows {
			for c, column := range columns {
				at := m.at(i, row, column)
				pixel := color.NRGBA{A: 255}
				if m.colours {
					part := func(k int) uint8 { return uint8(255*min(max(s.place(float64(t.Data[at+k])), 0), 1) + 0.5) }
					pixel.R, pixel.G, pixel.B = part(0), part(1), part(2)
				} else if v := float64(t.Data[at]); finite(v) {
					pixel.R, pixel.G, pixel.B = rgb(s.place(v))
				} else {
					pixel = color.NRGBA{255, 0, 0, 255}
				}
				picture.SetNRGBA(x+c, y+r, pixel)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return ""
	}
	what := fmt.Sprintf("%s: %s, %s to %s", t.Name, tilesText(m, shown), number(s.low), number(s.high))
	scale := min(max(1, 480/wide), max(1, 320/high), 24)
	return fmt.Sprintf(`<div style="display:inline-block;vertical-align:top;margin:6px 12px 6px 0"><img src="data:image/png;base64,%s" width="%d" height="%d" style="image-rendering:pixelated" alt="%s"><br><small>%s</small></div>`,
		base64.StdEncoding.EncodeToString(b.Bytes()), wide*scale, high*scale, escape(what), escape(what))
}

func tilesText(m matrices, shown int) string {
	size := fmt.Sprintf("%d×%d", m.rows, m.columns)
	switch {
	case m.count == 1:
		return size
	case shown < m.count:
		return fmt.Sprintf("%d of %s of %s", shown, units.Count(m.count), size)
	}
	return fmt.Sprintf("%d of %s", m.count, size)
}

// Attention shows which keys each query looks at, a heat map for each head: weights are one of
// those that net.Activations(x, "*/weights") returns, and labels the texts of the tokens. Of
// several examples it shows the first.
func Attention(weights fit.Tensor, labels ...string) Rich {
	d := weights.Dims
	if len(d) != 4 || len(weights.Data) != d[0]*d[1]*d[2]*d[3] || len(weights.Data) == 0 {
		return caption(fmt.Sprintf("report.Attention got %s %v: want weights [n heads length keys], as net.Activations(x, \"*/weights\") returns", weights.Name, d))
	}
	var names []string
	for _, l := range labels {
		names = append(names, fmt.Sprintf("%q", l))
	}
	var heads Row
	for h := range d[1] {
		m := Heat{Title: fmt.Sprintf("%s, head %d", strings.TrimSuffix(weights.Name, "/weights"), h), X: "key", Y: "query", Rows: names, Columns: names, Width: 340}
		for q := range d[2] {
			row := make([]float64, d[3])
			for k := range row {
				row[k] = float64(weights.Data[(h*d[2]+q)*d[3]+k])
			}
			m.Values = append(m.Values, row)
		}
		heads = append(heads, m)
	}
	return heads
}
