package lstm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestAssembled holds that lstm_amd64.s was made of its sources as they are. What it computes
// is tested in package hlo.
func TestAssembled(t *testing.T) {
	hash := sha256.New()
	for _, p := range []string{"c/lstm.c", "c/block.h", "c/ffi.h"} {
		source, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(source)
	}
	code, err := os.ReadFile("lstm_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x", hash.Sum(nil)); !strings.Contains(string(code), want) {
		t.Errorf("lstm_amd64.s is not of these sources, %s: go generate", want)
	}
}
