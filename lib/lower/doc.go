// Package lower decides how a net becomes programs. Definitions (package models, losses,
// optimizers) say what is computed, the session says what it runs on, and this package has
// the choices in between, as values:
//
//   - [Target] is what programs are written for: platform, compute capability, devices, and
//     what the session can run besides XLA's own operations. A new accelerator is a new
//     value, for which everything runs on XLA's.
//   - [Training] is what is known of a net, its data and a call of Train.
//   - [Plan] is what [Decide] makes of it, once for each call: how the steps of an epoch are
//     cut into [Part]s, whether they are a loop, with which kernels, on how many devices, and
//     whether the state is packed. Its String gives the reason of each choice.
//
// Train, jobs, the profiler and the tuner take the plan; none of them decides. The
// thresholds are in cost.go.
package lower
