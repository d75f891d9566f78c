package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gaiden/lib/engine/pjrt"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/models"
)

// step is loss and gradients of a batch from the formula's weights.
func step(t *testing.T, n *Net, d Data, batch int) (float64, map[string][]float32) {
	t.Helper()
	if err := n.SetWeights(formulaWeights(n)); err != nil {
		t.Fatal(err)
	}
	p, err := n.Phases(context.Background(), load(t, n, n.name, d), batch)
	if err != nil {
		t.Fatal(err)
	}
	p.inOrder = true
	if err := errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward()); err != nil {
		t.Fatal(err)
	}
	loss, err := p.Value()
	if err != nil {
		t.Fatal(err)
	}
	gradients, err := p.Gradients()
	if err != nil {
		t.Fatal(err)
	}
	return loss, gradients
}

// TestLowerings holds that every way to pool and to convolve gives the same,
// for kernels, strides and padding of each kind.
func TestLowerings(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := formulaData("SeedCNN", 4, 12*12*2, 0)
	type convolution struct{ kernel, pad, stride int }
	tests := []struct {
		c2, c3  convolution
		pooling models.Pooling
	}{
		{convolution{3, 1, 1}, convolution{3, 0, 2}, models.Mask},
		{convolution{4, 0, 1}, convolution{4, 1, 2}, models.SelectAndScatter},
		{convolution{5, 2, 1}, convolution{2, 2, 1}, models.IndexedFill}, // padding that no window needs
	}
	for i, tt := range tests {
		var loss [4]float64
		var gradients [4]map[string][]float32
		for k, lowering := range []models.Lowering{models.Patches, models.Library, models.Products, models.Winograd} {
			net := models.Net{Name: "net", Input: []int{12, 12, 2}, Layers: []models.Layer{
				models.Conv2D{Name: "c1", Channels: 3, Kernel: 3, Same: true, Act: models.ReLU, Lowering: lowering},
				models.MaxPool2D{Name: "p1", Window: 2, Gradient: []models.Pooling{models.Mask, tt.pooling, models.Mask, models.Mask}[k]},
				models.Conv2D{Name: "c2", Channels: 4, Kernel: tt.c2.kernel, Pad: tt.c2.pad, Stride: tt.c2.stride, Lowering: lowering},
				models.Conv2D{Name: "c3", Channels: 3, Kernel: tt.c3.kernel, Pad: tt.c3.pad, Stride: tt.c3.stride, Lowering: lowering},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			n := attach(t, s, fmt.Sprintf("net%d.%d", i, k), net, Config{FirstLook: true})
			loss[k], gradients[k] = step(t, n, d, 4)
		}
		for k := 1; k < len(loss); k++ {
			if math.Abs(loss[0]-loss[k]) > 1e-5 {
				t.Errorf("%+v: got loss %v, want %v", tt, loss[k], loss[0])
			}
			compare(t, gradients[k], gradients[0], 1e-4)
		}
	}
}

// TestParts holds that a gradient of weights that is taken part by part of the batch is
// the one that XLA's convolution gives at once, with oneDNN too. The images of 135×132
// have columns that no window reaches.
func TestParts(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ height, width, kernel, pad, stride int }{
		{64, 64, 3, 1, 1},
		{135, 132, 5, 0, 2},
		{129, 129, 6, 2, 2},
	} {
		const batch, channels = 5, 256 // 5 M outputs: parts of one image or two, the last one not full
		d := formulaData("SeedCNN", batch, tt.height*tt.width*2, 0)
		var loss [3]float64
		var gradients [3]map[string][]float32
		for k, lowering := range []models.Lowering{models.Library, models.Automatic, models.Automatic} {
			net := models.Net{Name: "net", Input: []int{tt.height, tt.width, 2}, Layers: []models.Layer{
				models.Conv2D{Name: "c1", Channels: channels, Kernel: tt.kernel, Pad: tt.pad, Stride: tt.stride, Act: models.ReLU, Lowering: lowering},
				models.Conv2D{Name: "c2", Channels: 2, Kernel: 8, Stride: 8, Lowering: models.Library},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			loss[k], gradients[k] = step(t, attach(t, s, fmt.Sprintf("parts%d.%d", i, k), net, Config{FirstLook: true, OneDNN: k == 2}), d, batch)
			if math.Abs(loss[k]-loss[0]) > 1e-5 {
				t.Errorf("%+v: got loss %v, want %v", tt, loss[k], loss[0])
			}
			compare(t, gradients[k], gradients[0], 1e-4)
		}
	}
}

// TestWinograd holds that Winograd's way gives what XLA's convolution gives, for tiles of
// each size, some over the image's edge, and a batch of two parts and a rest.
func TestWinograd(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ height, width, kernel, pad int }{
		{64, 61, 3, 1},
		{13, 13, 3, 0},
		{7, 6, 3, 2},
		{27, 30, 5, 2},
		{20, 24, 4, 1},
	} {
		const batch, channels = 5, 256
		d := formulaData("SeedCNN", batch, tt.height*tt.width*2, 0)
		var loss [2]float64
		var gradients [2]map[string][]float32
		for k, lowering := range []models.Lowering{models.Library, models.Winograd} {
			net := models.Net{Name: "net", Input: []int{tt.height, tt.width, 2}, Layers: []models.Layer{
				models.Conv2D{Name: "c1", Channels: channels, Kernel: tt.kernel, Pad: tt.pad, Act: graph.Tanh, Lowering: lowering},
				models.Conv2D{Name: "c2", Channels: 3, Kernel: tt.kernel, Pad: tt.pad, Act: graph.Tanh, Lowering: lowering},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			loss[k], gradients[k] = step(t, attach(t, s, fmt.Sprintf("winograd%d.%d", i, k), net, Config{FirstLook: true}), d, batch)
		}
		if math.Abs(loss[1]-loss[0]) > 1e-5*math.Abs(loss[0]) {
			t.Errorf("%+v: got loss %v, want %v", tt, loss[1], loss[0])
		}
		compare(t, gradients[1], gradients[0], 1e-4)
	}
}

// TestBiases holds that the gradient of biases, a sum of sums for a GPU, is the sum: of
// rows that are cut and of some that are not, in float32 and bfloat16.
func TestBiases(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "net", Input: []int{6, 6, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "conv", Channels: 4, Kernel: 3, Act: graph.Tanh},
		models.Flatten{Name: "flatten"},
		models.Dense{Name: "hidden", Units: 32, Act: graph.Tanh},
		models.Dense{Name: "output", Units: 10}}}
	for i, batch := range []int{17, 128, 384, 1024} {
		d := formulaData("SeedCNN", batch, 36, 0)
		for k, config := range []Config{{Kernels: XLAKernels, FirstLook: true}, {Kernels: XLAKernels, FirstLook: true, BF16: true}} {
			var gradients [2]map[string][]float32
			for j, platform := range []string{"cpu", "cuda"} {
				n := attach(t, s, fmt.Sprintf("biases%d.%d.%d", i, k, j), net, config)
				n.platform = platform
				_, gradients[j] = step(t, n, d, batch)
			}
			compare(t, gradients[1], gradients[0], []float64{1e-5, 2e-2}[k])
		}
	}
}

// TestWholeImage holds that a convolution whose outputs each see the whole image,
// which is one product, gives what XLA's convolution gives.
func TestWholeImage(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ side, kernel, pad, stride int }{
		{2, 3, 1, 1}, // as in ResNet152
		{1, 3, 1, 1},
		{3, 5, 2, 1},
		{3, 3, 0, 1}, // one output
		{2, 4, 2, 2},
	} {
		d := formulaData("SeedCNN", 4, tt.side*tt.side*2, 0)
		var loss [2]float64
		var gradients [2]map[string][]float32
		for k, lowering := range []models.Lowering{models.Automatic, models.Library} {
			conv := models.Conv2D{Kernel: tt.kernel, Pad: tt.pad, Stride: tt.stride, Lowering: lowering}
			first, second := conv, conv
			first.Name, first.Channels, first.Act = "c1", 3, models.ReLU
			second.Name, second.Channels = "c2", 2
			layers := []models.Layer{first, second, models.Flatten{Name: "f"}, models.Dense{Name: "output", Units: 10}}
			if (tt.side+2*tt.pad-tt.kernel)/tt.stride+1 != tt.side {
				layers = slices.Delete(layers, 1, 2)
			}
			net := models.Net{Name: "net", Input: []int{tt.side, tt.side, 2}, Layers: layers}
			loss[k], gradients[k] = step(t, attach(t, s, fmt.Sprintf("whole%d.%d", i, k), net, Config{FirstLook: true}), d, 4)
		}
		if math.Abs(loss[0]-loss[1]) > 1e-5 {
			t.Errorf("%+v: got loss %v, want %v", tt, loss[0], loss[1])
		}
		compare(t, gradients[0], gradients[1], 1e-5)
	}
}

// TestVisibility holds that the gradient the article writes down is the one
// that is derived.
func TestVisibility(t *testing.T) {
	s := open(t)
	d := formulaData("Peaks", 20, 2, 1)
	a, ga := step(t, attach(t, s, "derived", models.Peaks(), Config{Loss: Visibility{}}), d, 20)
	b, gb := step(t, attach(t, s, "explicit", models.Peaks(), Config{Loss: Visibility{Explicit: true}}), d, 20)
	if math.Abs(a-b) > 1e-6*a {
		t.Errorf("loss: explicit %v, derived %v", b, a)
	}
	compare(t, gb, ga, 1e-6)
	c, _ := step(t, attach(t, s, "blind", models.Peaks(), Config{Loss: Visibility{Blind: true}}), d, 20)
	if c == a {
		t.Errorf("blind: got the same loss %v, want another", c)
	}
}

// TestDropout holds that dropout zeroes its part while the net is trained,
// scales the rest, and does nothing otherwise.
func TestDropout(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	const rate = 0.3
	net := models.Net{Name: "net", Input: []int{1000}, Layers: []models.Layer{
		models.Dropout{Name: "dropout", Rate: rate}, models.Dense{Name: "scale", Units: 1, NoBias: true}}}
	wide := net
	wide.Layers = []models.Layer{models.Dense{Name: "one", Units: 1000, NoBias: true, Init: models.Fill(0.001)}, models.Dropout{Name: "dropout", Rate: rate}}
	n := attach(t, s, "net", wide, Config{Seed: 4})
	x := slices.Repeat([]float32{1}, 8000)
	data := load(t, n, "ones", Data{X: x, Y: slices.Clone(x)})
	p, err := n.Phases(ctx, data, 8)
	if err != nil {
		t.Fatal(err)
	}
	var last []float32
	for range 2 {
		if err := errors.Join(p.Next(), p.Forward()); err != nil {
			t.Fatal(err)
		}
		out, err := p.Output()
		if err != nil {
			t.Fatal(err)
		}
		zeros := 0
		for i, y := range out {
			if y == 0 {
				zeros++
			} else if math.Abs(float64(y)-1/(1-rate)) > 1e-4 {
				t.Fatalf("output %d: got %v, want 0 or %v", i, y, 1/(1-rate))
			}
		}
		if part := float64(zeros) / 8000; math.Abs(part-rate) > 0.03 {
			t.Errorf("zeros: got %.3f of all, want %v", part, rate)
		}
		if slices.Equal(out, last) {
			t.Error("second batch: got the same zeros, want others")
		}
		last = out
		for i := range p.space { // phases keep random numbers where the epoch program has them
			if strings.HasPrefix(i, "next//") {
				p.space[strings.TrimPrefix(i, "next/")] = p.space[i]
			}
		}
	}
	answer, err := n.Predict(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range answer.Output {
		if math.Abs(float64(y)-1) > 1e-4 {
			t.Fatalf("prediction %d: got %v, want 1", i, y)
		}
	}
}

// TestBatchNorm holds that a net that is not trained uses the running means.
func TestBatchNorm(t *testing.T) {
	s := open(t)
	net := models.Net{Name: "net", Input: []int{2}, Layers: []models.Layer{models.BatchNorm{Name: "bn"}}}
	n := attach(t, s, "net", net, Config{})
	if err := n.SetWeights([]Tensor{
		{"bn/scale", []int{2}, []float32{2, 3}}, {"bn/offset", []int{2}, []float32{10, 20}},
		{"bn/mean", []int{2}, []float32{1, -1}}, {"bn/variance", []int{2}, []float32{4, 9}},
	}); err != nil {
		t.Fatal(err)
	}
	p, err := n.Predict(context.Background(), []float32{5, 5, 1, -1})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{14, 26, 10, 20} { // (x-mean)/√variance·scale + offset
		if math.Abs(float64(p.Output[i])-want) > 1e-4 {
			t.Errorf("output %d: got %v, want %v", i, p.Output[i], want)
		}
	}
}

// TestLSTMLength holds that a step is not written out place by place: neither its
// text, nor what XLA makes of it, which its compile time goes by.
func TestLSTMLength(t *testing.T) {
	s := open(t)
	plugin, err := pjrt.Load(os.Getenv("GAIDEN_PLUGIN"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := plugin.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sizes := func(length int) (text, compiled int) {
		n := attach(t, s, fmt.Sprint("l", length), models.SineLSTM(5, length), Config{})
		data := load(t, n, fmt.Sprint("d", length), numbers(8, length, length, 1))
		p, err := n.epochProgram(data, n.once(4, 2))
		if err != nil {
			t.Fatal(err)
		}
		x, err := client.Compile(p.Text(nil), pjrt.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		optimized, _, err := x.Optimized()
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Text(nil)), len(optimized)
	}
	shortText, shortCompiled := sizes(10)
	longText, longCompiled := sizes(1000)
	for _, tt := range []struct {
		what        string
		short, long int
		most        float64
	}{{"text", shortText, longText, 1.02}, {"compiled program", shortCompiled, longCompiled, 1.05}} {
		if d := float64(tt.long) / float64(tt.short); d > tt.most {
			t.Errorf("%s: got %d bytes for 1000 places and %d for 10, want the same but for digits", tt.what, tt.long, tt.short)
		}
	}
}

// TestBF16 holds that a net that computes in bfloat16 learns, with weights in
// float32.
func TestBF16(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.MLP(20), Config{BF16: true, Seed: 1})
	data := load(t, n, "bars", digits(400, n.model.Input, 1))
	h, err := n.Train(context.Background(), data, Train{Epochs: 6, Batch: 20, Validation: data})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.Last().Validation.Accuracy(); a < 0.9 {
		t.Errorf("accuracy: got %v, want 0.9 or more", a)
	}
	weights, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	fine := false
	for _, x := range weights[0].Data {
		fine = fine || math.Float32bits(x)&0xffff != 0
	}
	if !fine {
		t.Error("weights: got bfloat16, want float32")
	}
}

// TestSafetensors holds that weights come back from a file, and that PyTorch
// finds its own names and layouts there.
func TestSafetensors(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	for i, tt := range tiny() {
		t.Run(tt.net.Name, func(t *testing.T) {
			n := attach(t, s, fmt.Sprint("net", i), tt.net, Config{Seed: 1, FirstLook: true})
			data := load(t, n, fmt.Sprint("data", i), tt.data)
			if _, err := n.Train(ctx, data, Train{Batch: 8}); err != nil {
				t.Fatal(err)
			}
			want, err := n.Weights()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "net.safetensors")
			if err := n.Save(path); err != nil {
				t.Fatal(err)
			}
			m := attach(t, s, fmt.Sprint("copy", i), tt.net, Config{Seed: 2, FirstLook: true})
			if err := m.Restore(path); err != nil {
				t.Fatal(err)
			}
			got, err := m.Weights()
			if err != nil {
				t.Fatal(err)
			}
			for k := range want {
				if got[k].Name != want[k].Name || !slices.Equal(got[k].Data, want[k].Data) {
					t.Errorf("%s: not what was saved", want[k].Name)
				}
			}
		})
	}
}

// TestPyTorchNames holds the layouts of each kind of layer.
func TestPyTorchNames(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.Net{Name: "net", Input: []int{4, 4, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "c", Channels: 3, Kernel: 3}, models.BatchNorm{Name: "bn"},
		models.Flatten{}, models.Dense{Name: "fc", Units: 5}}}, Config{})
	r, err := n.rules()
	if err != nil {
		t.Fatal(err)
	}
	count := func(name string, dims ...int) Tensor {
		v := Tensor{Name: name, Dims: dims}
		size := 1
		for _, d := range dims {
			size *= d
		}
		for i := range size {
			v.Data = append(v.Data, float32(i))
		}
		return v
	}
	conv := r["c/weights"].out(count("c/weights", 3, 3, 2, 3))
	if conv.Name != "c.weight" || !slices.Equal(conv.Dims, []int{3, 2, 3, 3}) {
		t.Errorf("convolution: got %s %v", conv.Name, conv.Dims)
	}
	if got, want := conv.Data[((1*2+1)*3+2)*3+0], float32(((2*3+0)*2+1)*3+1); got != want {
		t.Errorf("convolution: out 1, in 1, row 2, column 0: got %v, want %v", got, want)
	}
	dense := r["fc/weights"].out(count("fc/weights", 2*2*3, 5))
	if dense.Name != "fc.weight" || !slices.Equal(dense.Dims, []int{5, 12}) {
		t.Errorf("dense: got %s %v", dense.Name, dense.Dims)
	}
	// channel 2, row 0, column 1 → unit 4
	if got, want := dense.Data[4*12+(2*2+0)*2+1], float32(((0*2+1)*3+2)*5+4); got != want {
		t.Errorf("dense: got %v, want %v", got, want)
	}
	if got := r["bn/variance"].name; got != "bn.running_var" {
		t.Errorf("batch norm: got %s", got)
	}
	lstm := rules{}
	lstm.add(models.LSTM{}, "l2", nil)
	in := lstm.in([]Tensor{{"l2.bias_ih_l0", []int{4}, []float32{1, 2, 3, 4}}, {"l2.bias_hh_l0", []int{4}, []float32{1, 1, 1, 1}}})
	if len(in) != 1 || in[0].Name != "l2/biases" || !slices.Equal(in[0].Data, []float32{2, 3, 4, 5}) {
		t.Errorf("LSTM: got %v", in)
	}
}

func TestRestoreRefuses(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.Peaks(), Config{})
	other := attach(t, s, "other", models.MLP(3), Config{})
	path := filepath.Join(t.TempDir(), "w")
	if err := other.Save(path); err != nil {
		t.Fatal(err)
	}
	err := n.Restore(path)
	var wrong *ArchitectureError
	if !errors.As(err, &wrong) || !wrong.Weights {
		t.Errorf("weights of another net: got error %v, want an ArchitectureError", err)
	}
	if err := n.Restore(path + "x"); err == nil {
		t.Error("no file: got no error")
	}
	pipe := filepath.Join(t.TempDir(), "pipe") // nobody writes to it
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Restore(pipe); err == nil {
		t.Error("pipe: got no error")
	}
}

func FuzzReadSafetensors(f *testing.F) {
	var b bytes.Buffer
	if err := WriteSafetensors(&b, []Tensor{{"a", []int{2}, []float32{1, 2}}, {"b", nil, []float32{3}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:20])
	f.Add([]byte("\x20\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"F32\",\"shape\":[-1]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ReadSafetensors(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteSafetensors(&out, all); err != nil {
			t.Fatal(err)
		}
		again, err := ReadSafetensors(&out)
		if err != nil || len(again) != len(all) {
			t.Fatalf("written again: got %d tensors, %v, want %d", len(again), err, len(all))
		}
	})
}

// TestWork holds that a step counts for what its convolutions are, however they are
// computed.
func TestWork(t *testing.T) {
	t.Parallel()
	s := open(t)
	var got []float64
	for i, lowering := range []models.Lowering{models.Library, models.Automatic, models.Patches, models.Products} {
		n := attach(t, s, fmt.Sprint("work", i), models.SeedCNN().Lowered(lowering), Config{})
		work, err := n.Work(load(t, n, "digits", digits(8, n.model.Input, 1)), 8)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, work)
	}
	// A convolution of 3×3 on 28×28 in a frame of zeros, 82·82 taps, and the layer of
	// 1960·100, both with their gradients; Adam's update of 197,110 weights is most of
	// the rest.
	least := 2*8*2.*82*82*10 + 3*8*2.*1960*100
	for _, work := range got {
		if work != got[0] || work < least || work > 1.3*least {
			t.Errorf("got %.4g FLOPs, want %.4g for each, above %.4g", work, got[0], least)
		}
	}
}
