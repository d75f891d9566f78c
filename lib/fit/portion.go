package fit

import (
	"fmt"
	"slices"

	"gaiden/lib/engine/hlo"
)

// portion is the steps of an epoch that one program does.
type portion struct {
	chunk
	steps *steps
	first int // example of the epoch
	turns int // in an epoch
}

// key tells portions apart whose steps differ in pace.
func (p *portion) key(s *Set) string { return fmt.Sprintf("%s/%d/%d", s.key(), p.Batch, p.Devices) }

// light is the work of a step, in FLOPs, up to which the loop is counted on a
// GPU: about a millisecond. Nor may the counted steps of one turn be more than a
// share of time. Heavier steps are programs of their own on one GPU: they hide
// what it costs to run a program. On two they do not, as the host runs it twice
// while the work of each is half: ResNet152 at 2,048 took 34 to 42 ms so, and 30
// to 38 as a loop, where the state was not packed; see packs.
const light = 2e10

// lightProducts is light for a net of products on a Hopper GPU, which does so much of
// those in about a millisecond. The FCN, of 58 GFLOP, takes an H100 343 µs a step as a
// counted loop, and 347 while 20 threads keep the host's 16 cores busy. As a program for
// each step it took 352 to 406, and 655: such a host does not get ready in time.
const lightProducts = 1.5e11

// intense is how many FLOPs a byte a step has at least whose time is its products', as
// package hlo counts both. The FCN has 47, and 25 with Adam. With less, memory's time
// could make the counted steps of a turn more than Stop may wait for.
const intense = 20

// lightest is the work of a fused step, in FLOPs, up to which a loop's body holds
// several of them: about 100 µs. Heavier ones gain next to nothing, and take that
// much longer to compile.
const lightest = 2e9

// slow is the work of a step on a CPU, in FLOPs, from which a chunk holds so few
// steps that they are better not done in place: a chunk of those begins with a copy
// of the state, and the system looks for memory for it. ResNet14 at 32 took 76 to 92
// ms a step so on 2 cores, of which the system 22, and 68 to 75, of which 7, without;
// LeNet5, which has 0.4 GFLOP, as long in both ways, SeedCNN 0.50 ms in place and 0.56.
const slow = 2e9

// heavyState is the size of a state, in bytes, from which a loop on a CPU is Peeled.
// To copy the MLP's 21 MB took 3.6 ms of a chunk's 40 on 2 cores.
const heavyState = 4 << 20

// counted is the number of light steps from which a program counts them. In a loop
// that it does not count, the host looks at the device before each turn.
const counted = 16

// bodies are how many steps a body may hold, the best first.
var bodies = []int{10, 8, 5, 4}

// shortest and longest are how many steps a resident kernel does: it takes the net's state
// to its processors and back, which costs an H200 what a step does.
const (
	shortest = 20
	longest  = 200
)

// stay is how many of an epoch's steps one resident kernel does, 0 if they are too few:
// as many as divide them, or else so many that few are left.
func stay(steps int) int {
	for k := min(longest, steps); k >= shortest; k-- {
		if steps%k == 0 {
			return k
		}
	}
	if steps < shortest {
		return 0
	}
	return longest / 2
}

// Loop is what an epoch's steps are.
type Loop int

const (
	// AutoLoop is SingleSteps for steps of 20 GFLOP and more on one GPU (150 of
	// products on a Hopper) and for nets with convolutions on a CPU, where they
	// are faster, and LoopedSteps for others.
	AutoLoop Loop = iota
	// LoopedSteps are a loop in one program.
	LoopedSteps
	// SingleSteps are a program that is run for each.
	SingleSteps
)

// lightFor is the work of a step, in FLOPs, up to which the net's loop is counted on its GPU.
func (n *Net) lightFor(step hlo.Cost) float64 {
	if n.target.Hopper() && n.straight && step.FLOPs >= intense*step.Bytes {
		return lightProducts
	}
	return light
}

// loops decides for Config.Loop.
func (n *Net) loops(step hlo.Cost, devices int) (single bool) {
	switch n.config.Loop {
	case LoopedSteps:
		return false
	case SingleSteps:
		return true
	}
	return n.single || !n.target.CPU() && step.FLOPs >= n.lightFor(step) && devices == 1
}

// split chooses how the steps of an epoch are cut. On a GPU inner turns of light
// steps are counted by XLA: as many as divide the epoch, for what is left over
// needs a program of its own. Such a program does one turn: between two of them the
// device would wait until the host has seen that there is another, and the host, busy
// with looking, could not ask for the chunk after it (on an H200 Peaks took 46.9 µs a
// step so and 44.9 with one turn, the MLP in bf16 43.2 and 42.7). Not on several
// devices: XLA 0.11.2 ends the process when it finds an all_reduce in a counted loop.
//
// The body of a loop of fused steps holds some: their batches are one kernel, and
// so is the loop's count, each of about a microsecond.
//
// With resident kernels the body is one of them.
func (n *Net) split(steps, batch, devices int, step hlo.Cost, fused, resident bool) chunk {
	c := n.once(batch, 1)
	work, limit := step.FLOPs, n.lightFor(step)
	c.Single = n.loops(step, devices)
	c.Fresh = c.Single && (!n.target.CPU() || work >= slow)
	c.Peeled = !c.Single && n.target.CPU() && n.weighs() >= heavyState
	c.Unroll = min(max(1, n.config.Unroll), steps)
	if fused && n.config.Unroll == 0 && work <= lightest && !c.Single {
		if i := slices.IndexFunc(bodies, func(k int) bool { return steps%k == 0 }); i >= 0 {
			c.Unroll = bodies[i]
		}
		if k := stay(steps); resident && k > 0 {
			c.Unroll, c.Resident = k, true
		}
	}
	turns := steps / c.Unroll
	if !n.target.CPU() && !c.Single && devices == 1 && work < limit && turns*c.Unroll > counted {
		most := min(max(128, 256/c.Unroll), turns, max(16, int(50*limit/max(1, work*float64(c.Unroll)))))
		c.Inner = min(64, most)
		for k := most; k >= min(16, turns); k-- {
			if turns%k == 0 {
				c.Inner = k
				break
			}
		}
	}
	if c.Inner == 1 {
		c.Limit = max(1, min(turns, 8192/c.turn()))
	}
	return c
}

// once is a chunk of steps that are not counted beforehand.
func (n *Net) once(batch, limit int) chunk {
	return chunk{Batch: batch, Inner: 1, Unroll: 1, Limit: limit, Single: n.single, Devices: 1}
}
