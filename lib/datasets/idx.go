package datasets

import (
	"encoding/binary"
	"fmt"
)

// IDX is the format of the MNIST files: two zero bytes, the element type, the
// number of dimensions, each dimension as a big-endian uint32, then the data.
// Source: http://yann.lecun.com/exdb/mnist/ ("the IDX file format").

// decodeIDX returns the dimensions and the data of an IDX file of bytes with
// the given number of dimensions. The data is not copied.
func decodeIDX(file []byte, rank int) (dims []int, data []byte, err error) {
	const unsignedByte = 0x08
	if len(file) < 4 {
		return nil, nil, fmt.Errorf("idx: got %d bytes, want a header of at least 4", len(file))
	}
	if file[0] != 0 || file[1] != 0 || file[2] != unsignedByte {
		return nil, nil, fmt.Errorf("idx: header starts with % x, want 00 00 08: not an IDX file of bytes", file[:3])
	}
	if got := int(file[3]); got != rank {
		return nil, nil, fmt.Errorf("idx: got %d dimensions, want %d", got, rank)
	}
	data = file[4:]
	size := uint64(1)
	for range rank {
		if len(data) < 4 {
			return nil, nil, fmt.Errorf("idx: header ends after %d of %d dimensions", len(dims), rank)
		}
		d := binary.BigEndian.Uint32(data)
		dims, data = append(dims, int(d)), data[4:]
		if size *= uint64(d); size > 1<<40 {
			return nil, nil, fmt.Errorf("idx: dimensions %v are too large", dims)
		}
	}
	if uint64(len(data)) != size {
		return nil, nil, fmt.Errorf("idx: got %d bytes of data, want %d for %v", len(data), size, dims)
	}
	return dims, data, nil
}

// decodeIDXSplit joins a file of images and a file of labels.
func decodeIDXSplit(images, labels []byte) (s Split, height, width int, err error) {
	dims, pixels, err := decodeIDX(images, 3)
	if err != nil {
		return Split{}, 0, 0, fmt.Errorf("images: %w", err)
	}
	count, classes, err := decodeIDX(labels, 1)
	if err != nil {
		return Split{}, 0, 0, fmt.Errorf("labels: %w", err)
	}
	if dims[0] != count[0] {
		return Split{}, 0, 0, fmt.Errorf("got %d images but %d labels", dims[0], count[0])
	}
	return Split{Pixels: pixels, Labels: widen(classes)}, dims[1], dims[2], nil
}

// widen makes labels of the type that losses take.
func widen(labels []byte) []int32 {
	wide := make([]int32, len(labels))
	for i, l := range labels {
		wide[i] = int32(l)
	}
	return wide
}
