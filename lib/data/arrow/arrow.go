// Package arrow reads files of Apache Arrow, which pandas and Polars call Feather, and streams
// of Arrow's records, into tables of package data.
//
//	table, err := arrow.ReadTable("houses.feather")
//	encoder, err := table.Encoder("price")
//
// Numbers, times, text, dictionaries of text and bools, which are text, become columns. Lists,
// structs and bytes are errors that name the column.
//
// It reads with the Arrow project's arrow-go, of which it takes arrays and IPC and neither
// Parquet nor Flight: a cell that uses this package links 3 MB more than one that does not,
// and its first use compiles it, which takes a quarter of a minute on two cores.
//
// # What it refuses
//
// It reads whole files, and does not write. Files that are damaged are errors, not panics.
package arrow

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"gaiden/lib/data"
)

// ReadTable reads a file.
func ReadTable(path string) (*data.Table, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	t, err := read(b)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	t.Name = path
	return t, nil
}

// records are those of a file or of a stream.
func records(b []byte, mem memory.Allocator) (schema *arrow.Schema, next func() (arrow.RecordBatch, error), err error) {
	switch {
	case bytes.HasPrefix(b, []byte("FEA1")):
		return nil, nil, fmt.Errorf("Feather of version 1: want version 2: write it with pandas' to_feather(version=2)")
	case bytes.HasPrefix(b, []byte("PAR1")):
		return nil, nil, fmt.Errorf("a Parquet file: want Arrow: read it with parquet.ReadTable")
	case bytes.HasPrefix(b, []byte("ARROW1")):
		r, err := ipc.NewFileReader(bytes.NewReader(b), ipc.WithAllocator(mem))
		if err != nil {
			return nil, nil, err
		}
		return r.Schema(), r.Read, nil
	}
	r, err := ipc.NewReader(bytes.NewReader(b), ipc.WithAllocator(mem))
	if err != nil {
		return nil, nil, fmt.Errorf("neither a file of Arrow, which begins with ARROW1, nor a stream: %w", err)
	}
	return r.Schema(), r.Read, nil
}

func read(b []byte) (t *data.Table, err error) {
	defer func() { // arrow-go trusts files
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("damaged: %v", p)
		}
	}()
	// What decompression may need: no more than a damaged file's sizes.
	mem := &limited{Allocator: memory.NewGoAllocator(), left: 1<<24 + 2000*len(b)}
	schema, next, err := records(b, mem)
	if err != nil {
		return nil, err
	}
	builders, rows := make([]data.Builder, schema.NumFields()), 0
	for {
		r, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("after row %d: %w", rows, err)
		}
		n := int(r.NumRows())
		if n < 0 || n > 1<<20+8*len(b)-rows { // of columns without values
			return nil, fmt.Errorf("%d rows in %d bytes: damaged", n, len(b))
		}
		for k, column := range r.Columns() {
			if err := add(&builders[k], column, n); err != nil {
				return nil, fmt.Errorf("column %s: %w", schema.Field(k).Name, err)
			}
		}
		rows += n
	}
	if rows == 0 {
		return nil, fmt.Errorf("no rows: want at least one")
	}
	t = &data.Table{}
	for k := range builders {
		t.Columns = append(t.Columns, builders[k].Column(schema.Field(k).Name, rows))
	}
	return t.With() // checks it
}

// limited is memory for a file, which ends.
type limited struct {
	memory.Allocator
	left int
}

func (l *limited) Allocate(size int) []byte {
	if l.left -= size; l.left < 0 || size < 0 {
		panic("it wants more memory than its size allows")
	}
	return l.Allocator.Allocate(size)
}

func (l *limited) Reallocate(size int, b []byte) []byte {
	if l.left -= size - len(b); l.left < 0 || size < 0 {
		panic("it wants more memory than its size allows")
	}
	return l.Allocator.Reallocate(size, b)
}

// add adds so many values to a column.
func add(b *data.Builder, column arrow.Array, n int) error {
	value := adder(b, column)
	switch {
	case value == nil:
		return fmt.Errorf("%s: want numbers, text, bools or times", column.DataType())
	case column.Len() != n:
		return fmt.Errorf("%d values, want %d: damaged", column.Len(), n)
	}
	for i := range n {
		if column.IsNull(i) {
			b.AddMissing()
		} else {
			value(i)
		}
	}
	return nil
}

// adder adds a value to the column; nil for types that are none of a table.
func adder(b *data.Builder, column arrow.Array) func(i int) {
	switch a := column.(type) {
	case *array.Null:
		return func(int) {}
	case *array.Boolean:
		return func(i int) { b.AddText(strconv.FormatBool(a.Value(i))) }
	case *array.Int8:
		return func(i int) { b.AddInteger(int64(a.Value(i))) }
	case *array.Int16:
		return func(i int) { b.AddInteger(int64(a.Value(i))) }
	case *array.Int32:
		return func(i int) { b.AddInteger(int64(a.Value(i))) }
	case *array.Int64:
		return func(i int) { b.AddInteger(a.Value(i)) }
	case *array.Uint8:
		return func(i int) { b.AddUnsigned(uint64(a.Value(i))) }
	case *array.Uint16:
		return func(i int) { b.AddUnsigned(uint64(a.Value(i))) }
	case *array.Uint32:
		return func(i int) { b.AddUnsigned(uint64(a.Value(i))) }
	case *array.Uint64:
		return func(i int) { b.AddUnsigned(a.Value(i)) }
	case *array.Float16:
		return func(i int) { b.AddNumber(float64(a.Value(i).Float32())) }
	case *array.Float32:
		return func(i int) { b.AddNumber(float64(a.Value(i))) }
	case *array.Float64:
		return func(i int) { b.AddNumber(a.Value(i)) }
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(i int) { b.AddNumber(a.Value(i).ToFloat64(scale)) }
	case *array.Date32:
		return func(i int) { b.AddTime(a.Value(i).ToTime()) }
	case *array.Date64:
		return func(i int) { b.AddTime(a.Value(i).ToTime()) }
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType).Unit
		return func(i int) { b.AddTime(a.Value(i).ToTime(unit)) }
	case *array.Duration:
		second := a.DataType().(*arrow.DurationType).Unit.Multiplier().Seconds()
		return func(i int) { b.AddNumber(float64(a.Value(i)) * second) }
	case *array.Time32:
		unit := a.DataType().(*arrow.Time32Type).Unit
		return func(i int) { b.AddNumber(a.Value(i).ToTime(unit).Sub(time.Unix(0, 0)).Seconds()) }
	case *array.Time64:
		unit := a.DataType().(*arrow.Time64Type).Unit
		return func(i int) { b.AddNumber(a.Value(i).ToTime(unit).Sub(time.Unix(0, 0)).Seconds()) }
	case *array.String:
		return func(i int) { b.AddText(a.Value(i)) }
	case *array.LargeString:
		return func(i int) { b.AddText(a.Value(i)) }
	case *array.StringView:
		return func(i int) { b.AddText(a.Value(i)) }
	case *array.Dictionary:
		value := adder(b, a.Dictionary())
		if value == nil {
			return nil
		}
		return func(i int) {
			if k := a.GetValueIndex(i); a.Dictionary().IsNull(k) {
				b.AddMissing()
			} else {
				value(k)
			}
		}
	}
	return nil
}
