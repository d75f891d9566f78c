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
	for name, want := range map[string]int{"MR": rows, "NR": panel, "WIDE": wide, "TALL": tall, "KC": depth, "NC": cols, "HEAD": header} {
		if !regexp.MustCompile(fmt.Sprintf(`\b%s = %d\b`, name, want)).Match(source) {
			t.Errorf("C has no %s = %d", name, want)
		}
	}
}
