// Package lower decides how a net becomes programs. Definitions (package models, losses,
// optimizers) say what is computed; the session says what it runs on; this package has
// the choices in between:
//
//   - [Target] is what programs are written for, as a value: platform, compute
//     capability, devices, and what the session can run besides XLA's own operations.
//
// Nothing outside this package asks what device a program is for.
package lower
