// Package device is the session's server: the supervisor, which owns the socket
// and has no device context, and the worker, which owns the devices.
//
// The supervisor listens on a Unix socket in a directory of mode 0700 and hands
// the listener to the worker it starts. The worker accepts, checks the peer's
// user, and serves each client with two goroutines: one reads frames and
// answers what must not wait, the other obeys in order. When the worker dies, clients
// lose their connections and new ones wait in the listener's queue until the
// next worker, of the next generation, takes them: nobody is refused and
// nobody hangs on a dead process.
//
// What a worker keeps:
//
//   - arrays: device buffers, counted by the handles and names that hold them;
//   - names: bound when a program has been accepted, all at once, and given
//     back when it fails on the device and the old arrays still exist;
//   - programs: by hash, compiled once however many ask.
//
// Package device imports pjrt and wire; what a cell links is package session.
//
//	s := device.Supervisor{Version: "0.1", Command: []string{"/proc/self/exe", "session", "worker"}}
//	err := s.Run() // returns when a client asks to stop
package device
