package hlo

import (
	"bytes"
	"strconv"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
)

// Program is one finished computation: plain data, and immutable.
type Program struct {
	Name       string              // as given to the builder, for messages; not part of the text
	InputNames []string            // names of the parameters, in order; not part of the text
	Inputs     []shapes.Shape      // shapes of the parameters, of one replica
	Outputs    []shapes.Shape      // shapes of the results, of one replica
	Replicas   int                 // how many devices run the program at once; 1 unless DistributedSPMD was called
	Devices    []compute.DeviceNum // the devices that run it, one for each replica; nil leaves the choice to the backend

	// Building is the time from the builder's beginning to its end; not part of
	// the text.
	Building time.Duration

	head  string   // the module's first line
	types []string // of the parameters
	tail  string   // everything after the parameters of main
	costs []counted
	main  *Function // what it was written from, for Operations
}

// Compile is what a backend does with a finished program.
type Compile func(*Program) (compute.Executable, error)

// Text returns the program as StableHLO text. The parameters i for which
// donate[i] is true are marked as donated: XLA then writes results into
// their memory, and each execution may still choose to keep them. A missing
// donate[i] counts as false.
func (p *Program) Text(donate []bool) []byte {
	const mark = " {jax.buffer_donor = true}"
	size := len(p.head) + len(p.tail)
	for _, t := range p.types {
		size += len(t) + len(mark) + len("%arg1234: , ")
	}
	text := append(make([]byte, 0, size), p.head...)
	for i, t := range p.types {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, "%arg"...)
		text = strconv.AppendInt(text, int64(i), 10)
		text = append(text, ": "...)
		text = append(text, t...)
		if i < len(donate) && donate[i] {
			text = append(text, mark...)
		}
	}
	return append(text, p.tail...)
}

// Has says whether the program has an operation of StableHLO, such as convolution.
func (p *Program) Has(op string) bool {
	return bytes.Contains(p.Text(nil), []byte("stablehlo."+op))
}
