// Package lower decides how a net becomes programs. Definitions (packages models, losses and
// optim) say what is computed, the session says what it runs on, and this package has the
// choices in between, as values and pure functions:
//
//   - [Target] is what programs are written for: platform, compute capability, devices, and
//     what the session can run besides XLA's own operations. A new accelerator is a new
//     value, for which everything runs on XLA's.
//   - [Convolution.Choose] and the functions like it choose the form of a layer, by its shapes,
//     the target and [Options]. Package xla in a folder of this one writes what was chosen.
//   - Package plan in a folder of this one decides how a net is trained.
//
// Train, jobs, the profiler and the tuner take the plan; none of them decides. Thresholds
// are in cost.go. Nothing else asks what device a program is for.
package lower
