package gemm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAssembled holds that gemm_amd64.s was made of its sources as they are. What it computes is
// tested in package hlo.
func TestAssembled(t *testing.T) {
	var source []byte
	for _, p := range []string{"c/gemm.c", "c/block.h", "c/ffi.h"} {
		part, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, part...)
	}
	code, err := os.ReadFile("gemm_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(source)); !strings.Contains(string(code), want) {
		t.Errorf("gemm_amd64.s is not of these sources, %s: go generate", want)
	}
	// The same sizes on both sides.
	for name, want := range map[string]int{"MR": Rows, "NR": Panel, "WIDE": wide, "TALL": tall, "KC": depth, "NC": cols, "HEAD": header} {
		if !regexp.MustCompile(fmt.Sprintf(`\b%s = %d\b`, name, want)).Match(source) {
			t.Errorf("C has no %s = %d", name, want)
		}
	}
}

// TestWorthwhile holds which nets' products are package gemm's, with which vectors.
func TestWorthwhile(t *testing.T) {
	for _, tt := range []struct {
		name    string
		m, n, k int
		with512 bool
		with256 bool
	}{
		{"FCN's least", 1024, 2048, 784, true, true},
		{"FCN's last", 1024, 10, 2048, false, false},
		{"MLP's first", 100, 1000, 784, false, true},
		{"MLP's way back", 784, 1000, 100, false, true},
		{"MLP's last", 100, 10, 1000, false, false},
		{"few examples", 32, 1000, 1000, false, false},
		{"Keras' dense layer", 128, 128, 9216, false, false},
		{"an LSTM's inputs", 6400, 512, 128, false, false},
		{"square", 256, 256, 256, false, false},
	} {
		for bits, want := range map[int]bool{512: tt.with512, 256: tt.with256, 0: tt.with512} {
			if got := worthwhile(bits, tt.m, tt.n, tt.k); got != want {
				t.Errorf("%s with %d bits: got %v, want %v", tt.name, bits, got, want)
			}
		}
	}
}
