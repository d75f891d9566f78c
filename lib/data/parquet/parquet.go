// Package parquet reads Parquet files, such as those of pandas and Hugging Face, into tables
// of package data.
//
//	table, err := parquet.ReadTable("houses.parquet")
//	encoder, err := table.Encoder("price")
//
// Numbers, times, text and bools, which are text, become columns; so do the fields of structs,
// their names joined by points. Lists, maps and bytes are errors that name the column. The
// index that pandas has written is left out, and Table.Notes says so.
//
// It reads with parquet-go. A cell that uses this package links 11 MB more than one that does
// not; its first use compiles parquet-go, which takes half a minute on two cores. arrow-go reads
// Parquet too, but brings gRPC: 28 MB and three minutes.
//
// # What it refuses
//
// It reads whole files, and does not write. Files that are damaged are errors, not panics. So are
// LZ4, and bools in runs, as pages of version 2 have them, which parquet-go does not decode rightly.
package parquet

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes/float16"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"gaiden/lib/data"
)

// ReadTable reads a file.
func ReadTable(path string) (*data.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	t, err := read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	t.Name = path
	return t, nil
}

func read(r io.ReaderAt, size int64) (t *data.Table, err error) {
	defer func() { // parquet-go trusts files
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("damaged: %v", p)
		}
	}()
	var start, end [8]byte
	if _, err := r.ReadAt(start[:4], 0); err != nil || string(start[:4]) != "PAR1" {
		return nil, fmt.Errorf("no Parquet: it does not begin with PAR1")
	}
	if _, err := r.ReadAt(end[:], max(size-8, 4)); err != nil || string(end[4:]) != "PAR1" || int64(binary.LittleEndian.Uint32(end[:])) > size-12 {
		return nil, fmt.Errorf("no footer of Parquet at the end: the file is cut off, or not written to its end")
	}
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	var elements []format.SchemaElement // of the leaves, in their order
	for _, e := range f.Metadata().Schema {
		if e.Type.Valid {
			elements = append(elements, e)
		}
	}
	leaves, err := leavesOf(f.Root(), "", elements)
	if err != nil {
		return nil, err
	}
	rows := f.NumRows()
	// Values that repeat take next to no room, but so many would be a damaged file's.
	if most := 1<<24 + 20000*size; rows < 1 || rows > most/int64(len(leaves)+1) {
		return nil, fmt.Errorf("%d rows of %d columns in %d bytes: want 1 or more rows, and no damage", rows, len(leaves), size)
	}
	if err := checkPages(r, f, size); err != nil {
		return nil, err
	}
	t = &data.Table{}
	for _, l := range leaves {
		if strings.HasPrefix(l.name, "__index_level_") {
			t.Notes = append(t.Notes, l.name+", the index of pandas: left out")
			continue
		}
		c, err := l.read(int(rows))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", l.name, err)
		}
		t.Columns = append(t.Columns, c)
	}
	return t.With() // checks it
}

// checkPages refuses column chunks and pages that say they are larger than any that compression
// makes, because parquet-go would take the memory for them first, and those of which parquet-go
// returns other values: of LZ4 it drops what it has decompressed where that is less than three
// times as long, and in runs of bools it takes a byte for eight.
func checkPages(r io.ReaderAt, f *parquet.File, size int64) error {
	most := func(compressed int64) int64 { return 1<<22 + 20000*compressed }
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			m := c.MetaData
			name := strings.Join(m.PathInSchema, ".")
			damaged := fmt.Errorf("column %s of %d bytes in %d: damaged", name, m.TotalUncompressedSize, size)
			if m.Codec == format.Lz4Raw || m.Codec == format.Lz4 {
				return fmt.Errorf("column %s is compressed with LZ4: want Zstandard, Snappy, gzip, Brotli or none: write the file again, in pandas with compression=\"zstd\"", name)
			}
			if m.TotalUncompressedSize < 0 || m.TotalUncompressedSize > most(size) || m.TotalCompressedSize < 0 || m.TotalCompressedSize > size {
				return damaged
			}
			at := m.DataPageOffset
			if m.DictionaryPageOffset > 0 && m.DictionaryPageOffset < at {
				at = m.DictionaryPageOffset
			}
			for end := min(at+m.TotalCompressedSize, size); at >= 0 && at < end; {
				section := io.NewSectionReader(r, at, end-at)
				buffered := bufio.NewReaderSize(section, 512)
				var page format.PageHeader
				if thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(buffered)).Decode(&page) != nil {
					break // parquet-go says why
				}
				if page.CompressedPageSize < 0 || int64(page.UncompressedPageSize) > most(int64(page.CompressedPageSize)) {
					return damaged
				}
				if m.Type == format.Boolean && (page.DataPageHeader.V.Encoding == format.RLE || page.DataPageHeaderV2.V.Encoding == format.RLE) {
					return fmt.Errorf("column %s has bools in runs (RLE): want them plain, as pages of version 1 have them: write the file again, in pandas with data_page_version=\"1.0\"", name)
				}
				read, _ := section.Seek(0, io.SeekCurrent)
				at += read - int64(buffered.Buffered()) + int64(page.CompressedPageSize)
			}
		}
	}
	return nil
}

type leaf struct {
	*parquet.Column
	name string
	add  func(b *data.Builder, v parquet.Value) error
}

// leavesOf are the columns of values below one of the schema.
func leavesOf(c *parquet.Column, prefix string, elements []format.SchemaElement) (l []leaf, err error) {
	for _, child := range c.Columns() {
		name := prefix + child.Name()
		if child.Repeated() || child.Type().LogicalType() != nil && isList(child.Type().LogicalType()) {
			return nil, fmt.Errorf("column %s is a list or a map: want numbers, text, bools or times: take it apart with pandas' explode, or save it as .npy", name)
		}
		if !child.Leaf() {
			more, err := leavesOf(child, name+".", elements)
			if err != nil {
				return nil, err
			}
			l = append(l, more...)
			continue
		}
		add := adderOf(child.Type(), elements[child.Index()].LogicalType.Value)
		if add == nil {
			return nil, fmt.Errorf("column %s is %s: want numbers, text, bools or times", name, child.Type())
		}
		l = append(l, leaf{child, name, add})
	}
	return l, nil
}

func isList(t *format.LogicalType) bool {
	switch t.Value.(type) {
	case *format.ListType, *format.MapType:
		return true
	}
	return false
}

// read reads the column from all row groups.
func (l leaf) read(rows int) (c data.Column, err error) {
	var b data.Builder
	pages, values, n := l.Pages(), make([]parquet.Value, 1024), 0
	defer pages.Close()
	for n < rows {
		page, err := pages.ReadPage()
		if err != nil {
			return c, fmt.Errorf("row %d: %w", n+1, err)
		}
		for r := page.Values(); ; {
			read, err := r.ReadValues(values)
			for _, v := range values[:read] {
				if n++; n > rows {
					return c, fmt.Errorf("more values than the %d rows of the file", rows)
				}
				if v.IsNull() {
					b.AddMissing()
				} else if err := l.add(&b, v); err != nil {
					return c, fmt.Errorf("row %d: %w", n, err)
				}
			}
			if err != nil || read == 0 {
				break
			}
		}
		parquet.Release(page)
	}
	return b.Column(l.name, rows), nil
}

// adderOf puts values of a type into a column; nil for types that are none of a table.
func adderOf(t parquet.Type, logical format.LogicalTypeValue) func(b *data.Builder, v parquet.Value) error {
	if l := t.LogicalType(); l != nil && logical == nil { // files of old programs
		logical = l.Value
	}
	integer := func(v parquet.Value) int64 {
		if t.Kind() == parquet.Int32 {
			return int64(v.Int32())
		}
		return v.Int64()
	}
	switch l := logical.(type) {
	case *format.DateType:
		return adds(func(b *data.Builder, v parquet.Value) { b.AddTime(time.Unix(86400*int64(v.Int32()), 0).UTC()) })
	case *format.TimestampType:
		if l.Unit.Value == nil {
			return nil
		}
		second := int64(time.Second / l.Unit.Value.Duration())
		return adds(func(b *data.Builder, v parquet.Value) {
			b.AddTime(time.Unix(v.Int64()/second, v.Int64()%second*int64(l.Unit.Value.Duration())).UTC())
		})
	case *format.TimeType: // of a day
		if l.Unit.Value == nil {
			return nil
		}
		return adds(func(b *data.Builder, v parquet.Value) {
			b.AddNumber(float64(integer(v)) * l.Unit.Value.Duration().Seconds())
		})
	case *format.DecimalType:
		return decimals(t.Kind(), l.Scale, integer)
	case *format.IntType:
		if !l.IsSigned {
			return adds(func(b *data.Builder, v parquet.Value) {
				if t.Kind() == parquet.Int32 {
					b.AddUnsigned(uint64(v.Uint32()))
				} else {
					b.AddUnsigned(v.Uint64())
				}
			})
		}
	case *format.Float16Type:
		return adds(func(b *data.Builder, v parquet.Value) {
			bits := v.ByteArray()
			b.AddNumber(float16.Float16(uint16(bits[0]) | uint16(bits[1])<<8).Float64())
		})
	case *format.NullType: // no value is there
		return adds(func(*data.Builder, parquet.Value) {})
	case *format.BsonType, *format.UUIDType, *format.VariantType, *format.GeometryType, *format.GeographyType:
		return nil
	}
	switch t.Kind() {
	case parquet.Boolean:
		return adds(func(b *data.Builder, v parquet.Value) { b.AddText(strconv.FormatBool(v.Boolean())) })
	case parquet.Int32, parquet.Int64:
		return adds(func(b *data.Builder, v parquet.Value) { b.AddInteger(integer(v)) })
	case parquet.Int96: // nanoseconds of a day of the Julian calendar
		return adds(func(b *data.Builder, v parquet.Value) {
			x := v.Int96()
			b.AddTime(time.Unix((int64(x[2])-2440588)*86400, int64(uint64(x[1])<<32|uint64(x[0]))).UTC())
		})
	case parquet.Float:
		return adds(func(b *data.Builder, v parquet.Value) { b.AddNumber(float64(v.Float())) })
	case parquet.Double:
		return adds(func(b *data.Builder, v parquet.Value) { b.AddNumber(v.Double()) })
	case parquet.ByteArray:
		known := map[string]string{} // text that repeats is there once
		return func(b *data.Builder, v parquet.Value) error {
			s, is := known[string(v.ByteArray())]
			if !is {
				if s = string(v.ByteArray()); !utf8.ValidString(s) {
					return fmt.Errorf("bytes that are not UTF-8: want text: leave the column out when the file is written")
				}
				known[s] = s
			}
			b.AddText(s)
			return nil
		}
	}
	return nil
}

func adds(f func(b *data.Builder, v parquet.Value)) func(b *data.Builder, v parquet.Value) error {
	return func(b *data.Builder, v parquet.Value) error {
		f(b, v)
		return nil
	}
}

// decimals are integers over a power of ten, the bytes with the highest first.
func decimals(kind parquet.Kind, scale int32, integer func(parquet.Value) int64) func(b *data.Builder, v parquet.Value) error {
	if scale < 0 || scale > 38 {
		return nil
	}
	tens := new(big.Float).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
	return adds(func(b *data.Builder, v parquet.Value) {
		x := new(big.Int)
		if kind == parquet.Int32 || kind == parquet.Int64 {
			x.SetInt64(integer(v))
		} else {
			bytes := slices.Clone(v.ByteArray())
			if x.SetBytes(bytes); len(bytes) > 0 && bytes[0] > 127 {
				x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))))
			}
		}
		f, _ := new(big.Float).Quo(new(big.Float).SetInt(x), tens).Float64()
		b.AddNumber(f)
	})
}
