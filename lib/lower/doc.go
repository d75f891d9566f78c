// Package lower decides how a net becomes programs. Definitions (package models, losses,
// optimizers) say what is computed; the session says what it runs on; this package has
// the choices in between:
//
//   - [Target] is what programs are written for, as a value: platform, compute
//     capability, devices, and what the session can run besides XLA's own operations.
//   - [Options] are what the net's user and the program's builder have chosen.
//   - [Convolution.Choose] and the functions like it are the choices: pure functions of
//     shapes, target and options. Their limits stand in limits.go.
//   - Package xla in a folder of this one writes what was chosen.
//
// Nothing outside of these asks what device a program is for.
package lower
