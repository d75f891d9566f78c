package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
)

// Sound is what a WAV file holds.
type Sound struct {
	Rate     int // samples a second
	Channels int
	Samples  []float32 // from -1 to 1 [n channels]
}

// Len is how many samples each channel has.
func (s *Sound) Len() int { return len(s.Samples) / max(s.Channels, 1) }

// String describes the sound.
func (s *Sound) String() string {
	return fmt.Sprintf("%.4g s of sound, %d Hz, %d channels", float64(s.Len())/float64(max(s.Rate, 1)), s.Rate, s.Channels)
}

// WAV reads a sound: PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64.
func WAV(path string) (*Sound, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError(err)
	}
	s, err := readWAV(b)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return s, nil
}

func readWAV(b []byte) (*Sound, error) {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, fmt.Errorf("no WAV: it does not begin with RIFF and WAVE: want WAV, as ffmpeg -i FILE out.wav makes it")
	}
	s := &Sound{}
	format, bits := 0, 0
	for rest := b[12:]; ; {
		if len(rest) < 8 {
			return nil, fmt.Errorf("no samples: want a chunk named data: the file may be cut off")
		}
		name, size := string(rest[:4]), int(binary.LittleEndian.Uint32(rest[4:]))
		rest = rest[8:]
		chunk := rest[:min(size, len(rest))]
		switch name {
		case "fmt ":
			if len(chunk) < 16 {
				return nil, fmt.Errorf("a format of %d bytes: want 16 or more", len(chunk))
			}
			format, s.Channels = int(binary.LittleEndian.Uint16(chunk)), int(binary.LittleEndian.Uint16(chunk[2:]))
			s.Rate, bits = int(binary.LittleEndian.Uint32(chunk[4:])), int(binary.LittleEndian.Uint16(chunk[14:]))
			if format == 0xfffe && len(chunk) >= 26 { // extensible
				format = int(binary.LittleEndian.Uint16(chunk[24:]))
			}
			if s.Channels == 0 || s.Rate == 0 {
				return nil, fmt.Errorf("%d channels of %d samples a second: want 1 or more of each", s.Channels, s.Rate)
			}
		case "data":
			if s.Channels == 0 {
				return nil, fmt.Errorf("samples before their format: want the chunk named fmt first")
			}
			if size > len(rest) && size < 0xffffff00 { // a program that writes to a pipe does not know the size
				return nil, fmt.Errorf("%d bytes of samples, want %d: the file is cut off", len(rest), size)
			}
			sample := samples(format, bits)
			if sample == nil {
				return nil, fmt.Errorf("samples of %d bits in format %d: want PCM of 8, 16, 24 or 32 bits, or floats: ffmpeg -i FILE -c:a pcm_s16le out.wav converts it", bits, format)
			}
			chunk = chunk[:len(chunk)-len(chunk)%(bits/8*s.Channels)]
			s.Samples = make([]float32, 0, len(chunk)/(bits/8))
			for ; len(chunk) > 0; chunk = chunk[bits/8:] {
				v := sample(chunk)
				if v != v || math.Abs(float64(v)) > math.MaxFloat32 {
					return nil, fmt.Errorf("sample %d is %v: want finite numbers", len(s.Samples)/s.Channels, v)
				}
				s.Samples = append(s.Samples, v)
			}
			if len(s.Samples) == 0 {
				return nil, fmt.Errorf("no samples: want at least one")
			}
			return s, nil
		}
		rest = rest[min(size+size%2, len(rest)):]
	}
}

// samples reads a sample of a format; nil for others.
func samples(format, bits int) func(b []byte) float32 {
	order := binary.LittleEndian
	switch [2]int{format, bits} {
	case [2]int{1, 8}:
		return func(b []byte) float32 { return (float32(b[0]) - 128) / 128 }
	case [2]int{1, 16}:
		return func(b []byte) float32 { return float32(int16(order.Uint16(b))) / (1 << 15) }
	case [2]int{1, 24}:
		return func(b []byte) float32 {
			return float32(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)>>8) / (1 << 23)
		}
	case [2]int{1, 32}:
		return func(b []byte) float32 { return float32(int32(order.Uint32(b))) / (1 << 31) }
	case [2]int{3, 32}:
		return func(b []byte) float32 { return math.Float32frombits(order.Uint32(b)) }
	case [2]int{3, 64}:
		return func(b []byte) float32 { return float32(math.Float64frombits(order.Uint64(b))) }
	}
	return nil
}

// WriteWAV writes a sound as PCM of 16 bits; samples beyond -1 and 1 are cut.
func (s *Sound) WriteWAV(w io.Writer) error {
	var b bytes.Buffer
	head := struct {
		RIFF     [4]byte
		Size     uint32
		WAVE     [8]byte
		Format   uint32
		PCM      uint16
		Channels uint16
		Rate     uint32
		Bytes    uint32
		Frame    uint16
		Bits     uint16
		Data     [4]byte
		Samples  uint32
	}{[4]byte([]byte("RIFF")), uint32(36 + 2*len(s.Samples)), [8]byte([]byte("WAVEfmt ")), 16, 1, uint16(s.Channels), uint32(s.Rate), uint32(2 * s.Channels * s.Rate), uint16(2 * s.Channels), 16, [4]byte([]byte("data")), uint32(2 * len(s.Samples))}
	binary.Write(&b, binary.LittleEndian, head)
	for _, v := range s.Samples {
		binary.Write(&b, binary.LittleEndian, int16(max(-1<<15, min(1<<15-1, math.Round(float64(v)*(1<<15))))))
	}
	_, err := w.Write(b.Bytes())
	return err
}
