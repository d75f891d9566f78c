package gemm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestAssembled holds that gemm_amd64.s was made of gemm.c as it is. What it computes is
// tested in package hlo.
func TestAssembled(t *testing.T) {
	source, err := os.ReadFile("c/gemm.c")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("gemm_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(source)); !strings.Contains(string(code), want) {
		t.Errorf("gemm_amd64.s is not of this gemm.c, %s: go generate", want)
	}
	// The same sizes on both sides.
	for _, want := range []string{fmt.Sprintf("MR = %d,", rows), fmt.Sprintf("NR = %d,", panel), fmt.Sprintf("WIDE = %d,", wide), fmt.Sprintf("KC = %d,", depth), fmt.Sprintf("NC = %d,", cols), fmt.Sprintf("HEAD = %d,", header)} {
		if !strings.Contains(string(source), want) {
			t.Errorf("gemm.c has no %q", want)
		}
	}
}
