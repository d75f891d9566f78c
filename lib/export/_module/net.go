// Package NAME predicts with the net NET, which was trained with Gaiden for STEPS steps.
//
//	CALL
//
// INPUTSTEXT
// The result has OUTPUT numbers for each example, one after another: shape OUTPUTDIMS.
//
// It runs on GoMLX's pure-Go backend, or built with -tags xla on XLA: see README.md. Then
// GOMLX_BACKEND=go, xla:cpu or xla:cuda chooses.
package NAME

import (
	"embed"
	"fmt"
	"sync"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"

	"MODULE/internal/portable"
)

//go:embed program.json weights.safetensors
var files embed.FS

// Load reads the net, once. Predict does it, too.
var Load = sync.OnceValues(func() (net *portable.Net, err error) {
	defer func() {
		if r := recover(); r != nil { // as package compute does for a backend that it does not know
			err = fmt.Errorf("NAME: %v: backends are %v; -tags xla adds xla", r, compute.List())
		}
	}()
	backend, err := compute.New()
	if err != nil {
		return nil, err
	}
	return portable.Open(files, backend)
})

// Predict runs the net on any number of examples. Goroutines may call it.
func Predict(PARAMETERS) ([]float32, error) {
	net, err := Load()
	if err != nil {
		return nil, err
	}
	return net.Predict(INPUTS)
}
