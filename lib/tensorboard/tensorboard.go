// Package tensorboard writes event files, which TensorBoard shows.
//
//	w, err := tensorboard.Create("runs/first")
//	w.Scalar("loss", step, 0.25)
//	w.Histogram("conv/weights", step, weights)
//	w.Image("sample", step, sample)
//	w.Text("settings", step, "| batch | 32 |")
//	err = w.Close()
//
// Then, where TensorBoard is installed: tensorboard --logdir runs. Training with
// fit.Train.Log writes such files itself; see package runs.
//
// The format is that of TFRecord, whose records have masked CRC-32C sums, and of the
// messages Event and Summary (tensorflow/core/util/event.proto, framework/summary.proto).
//
// A Writer may be used by several goroutines. An error of writing stays, is returned by all
// later calls and by Close, and nothing more is written: the file is whole up to there.
package tensorboard

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Writer writes one event file.
type Writer struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error
	now  func() time.Time
}

// Create makes a folder, unless it is there, and an event file in it. TensorBoard shows all
// that a folder has as one run.
func Create(folder string) (*Writer, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	file, err := os.CreateTemp(folder, fmt.Sprintf("events.out.tfevents.%d.%s.*", now.Unix(), host))
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	if err := file.Chmod(0o644); err != nil {
		file.Close()
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	w := &Writer{file: file, out: bufio.NewWriter(file), now: time.Now}
	return w, w.event(0, 3, []byte("brain.Event:2"))
}

// Scalar adds a point of a curve.
func (w *Writer) Scalar(tag string, step int, value float64) error {
	v := text(nil, 1, tag)
	v = protowire.AppendTag(v, 2, protowire.Fixed32Type)
	return w.summary(step, protowire.AppendFixed32(v, math.Float32bits(float32(value))))
}

// Histogram adds the distribution of values; those that are not finite are left out.
func (w *Writer) Histogram(tag string, step int, values []float32) error {
	return w.summary(step, message(text(nil, 1, tag), 5, histogram(values)))
}

// Image adds an image.
func (w *Writer) Image(tag string, step int, picture image.Image) error {
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return fmt.Errorf("tensorboard: image %s: %w", tag, err)
	}
	size := picture.Bounds().Size()
	const rgba = 4
	i := number(number(number(nil, 1, size.Y), 2, size.X), 3, rgba)
	return w.summary(step, message(text(nil, 1, tag), 4, message(i, 4, b.Bytes())))
}

// Text adds text in Markdown.
func (w *Writer) Text(tag string, step int, markdown string) error {
	const typeString = 7
	plugin := message(nil, 1, text(nil, 1, "text")) // SummaryMetadata.plugin_data.plugin_name
	v := message(text(nil, 1, tag), 9, plugin)
	tensor := text(number(nil, 1, typeString), 8, markdown)
	return w.summary(step, message(v, 8, tensor))
}

// A Node is an operation or a layer of a graph.
type Node struct {
	Name, Op string // names with a slash are shown as groups
	Inputs   []string
}

// Graph adds the graph of a net. A file has one.
func (w *Writer) Graph(nodes []Node) error {
	var g []byte
	for _, n := range nodes {
		b := text(text(nil, 1, n.Name), 2, n.Op)
		for _, in := range n.Inputs {
			b = text(b, 3, in)
		}
		g = message(g, 1, b)
	}
	g = message(g, 4, number(nil, 1, 22)) // versions.producer: of graphs since 2016
	return w.event(0, 4, g)
}

// Flush writes what has been added to the file.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if err := w.out.Flush(); w.err == nil && err != nil {
		w.err = fmt.Errorf("tensorboard: %w", err)
	}
	return w.err
}

// Close ends the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return w.err
	}
	w.flush()
	if err := w.file.Close(); w.err == nil && err != nil {
		w.err = fmt.Errorf("tensorboard: %w", err)
	}
	w.file = nil
	return w.err
}

// summary writes an event with one value.
func (w *Writer) summary(step int, value []byte) error {
	return w.event(step, 5, message(nil, 1, value))
}

// event writes an Event whose field number what is content.
func (w *Writer) event(step int, what protowire.Number, content []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil && w.err == nil {
		return fmt.Errorf("tensorboard: the writer is closed")
	}
	if w.err != nil {
		return w.err
	}
	e := double(nil, 1, float64(w.now().UnixMicro())/1e6)
	e = message(number(e, 2, step), what, content)
	if _, err := w.out.Write(record(e)); err != nil {
		w.err = fmt.Errorf("tensorboard: %w", err)
	}
	return w.err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is data as TFRecord has it: its length and it, each with its sum.
func record(data []byte) []byte {
	sum := func(b []byte) uint32 {
		c := crc32.Checksum(b, castagnoli)
		return (c>>15 | c<<17) + 0xa282ead8
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, sum(b))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, sum(data))
}

// histogram is a HistogramProto of 30 buckets, as TensorBoard's own summary.histogram has.
func histogram(values []float32) []byte {
	const buckets = 30
	finite := slices.DeleteFunc(slices.Clone(values), func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
	low, high, sum, squares := 0.0, 0.0, 0.0, 0.0
	if len(finite) > 0 {
		low, high = float64(slices.Min(finite)), float64(slices.Max(finite))
	}
	counts, width := make([]float64, buckets), (high-low)/buckets
	for _, f := range finite {
		v, at := float64(f), 0
		if width > 0 {
			at = min(int((v-low)/width), buckets-1)
		}
		counts[at]++
		sum, squares = sum+v, squares+v*v
	}
	var b, limits, packed []byte
	for i, v := range []float64{low, high, float64(len(finite)), sum, squares} {
		b = double(b, protowire.Number(i+1), v)
	}
	for i, n := range counts {
		limits = protowire.AppendFixed64(limits, math.Float64bits(low+float64(i+1)*width))
		packed = protowire.AppendFixed64(packed, math.Float64bits(n))
	}
	return message(message(b, 6, limits), 7, packed)
}

// The fields of messages; see protowire.

func message(b []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
}

func text(b []byte, field protowire.Number, s string) []byte { return message(b, field, []byte(s)) }

func number(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

func double(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}
