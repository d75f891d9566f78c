// Package session is a cell's way to the devices. What lives there outlives
// the cell: arrays have names, programs are known by the hash of their text,
// and both are kept by a process of their own, the session, which the first
// Open starts.
//
//	s, err := session.Open()                      // this notebook's name space
//	x, err := s.Put([]float32{1, 2, 3}, shapes.Make(dtypes.Float32, 3), 0)
//	err = s.Bind([]string{"x"}, []*session.Array{x})
//
// and in the next cell, which is another process:
//
//	s, err := session.Open()
//	x, err := s.Array("x")
//	v := make([]float32, 3)
//	err = x.Values(v)                             // [1 2 3]
//
// Importing the package registers the backend "gaiden", so GoMLX code runs on
// the session with compute.NewWithConfig("gaiden"), and a Session that is open
// gives the same by its Backend method.
//
// Nothing waits that need not: Put, Run and CopyToDevice return at once, and
// what fails in them is reported when a result is read, by Wait and by Close.
// Errors are *wire.Error with a class for errors.Is and a Hint for people.
//
// # State
//
// Named arrays outlive the worker too: the session makes automatic snapshots of
// each name space, and brings the newest one back after a crash, a stop or a
// restart of the machine; Welcome().Note tells what came back and what did not.
// A snapshot that cannot be restored, because the device is full for example, stays
// on disk until it can be: the next client tries again, and so does Rollback.
// [Session.Snapshot] makes one that has a name, or makes an automatic one now: a
// training that wants its epochs safe calls
//
//	go s.Save()
//
// after each, which makes one where the last was cheap against the time since.
// Nothing waits for it, also not programs that give away the arrays it saves.
// [Session.Rollback], [Session.Diff], [Session.Export] and [Session.Import] work on
// snapshots and on safetensors files.
//
// [Session.Undo] takes back what the last cell has changed, without a snapshot.
//
// A loop that shall go on without this process is a [Job]. It is resumed after a
// crash from the arrays, the place and the log of the last snapshot, so that its
// log has each step once.
//
// # Another machine
//
// While gaiden session --ssh USER@HOST runs, the session here is that of the other
// machine: nothing in a program changes. Data go through SSH in place of shared
// memory. When the line breaks, calls wait until there is a new one; handles and
// names live on.
//
// The package knows nothing of nets or training; package fit stands on it.
package session
