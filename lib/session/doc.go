// Package session connects a cell to the device session: a separate process that owns
// arrays, compiled programs and devices, so that they survive the cell. The first
// [Open] starts it.
//
//	s, err := session.Open()                      // this notebook's name space
//	x, err := s.Put([]float32{1, 2, 3}, shapes.Make(dtypes.Float32, 3), 0)
//	err = s.Bind([]string{"x"}, []*session.Array{x})
//
// The next cell is another process:
//
//	s, err := session.Open()
//	x, err := s.Array("x")
//	v := make([]float32, 3)
//	err = x.Values(v)                             // [1 2 3]
//
// Importing the package registers the backend "gaiden":
// compute.NewWithConfig("gaiden") runs GoMLX code on the session. [Session.Backend]
// returns the same backend for an open connection.
//
// Put, Run and CopyToDevice are asynchronous: they return at once. An error of theirs
// on the device is reported when a result is read, or by Wait or Close. Errors of the
// session are *wire.Error, with a code for errors.Is and a Hint for the reader.
//
// # State
//
// The session makes automatic snapshots of each name space. After a crash, a stop or
// a restart of the machine it restores the newest one; Welcome().Note says what was
// restored and what was not. A snapshot that cannot be restored, for example because
// the device is full, stays on disk: the next client tries again, and so does
// Rollback.
//
// [Session.Snapshot] makes a named snapshot. A training loop that wants to keep each
// epoch calls
//
//	go s.Save()
//
// after it, which makes an automatic snapshot unless the last one was too expensive
// for the time since then. Programs need not wait for a snapshot, even if they donate
// the arrays that it saves. [Session.Rollback], [Session.Diff], [Session.Export] and
// [Session.Import] work on snapshots and on safetensors files. [Session.Undo] reverts
// the changes of the last cell, without a snapshot.
//
// A [Job] is a loop that the session runs on its own, so it continues after this
// process has ended. After a crash it resumes from the arrays, the position and the
// log of the last snapshot; each step is in the log once.
//
// # Another machine
//
// While gaiden session --ssh USER@HOST runs, this package connects to the session of
// that machine. Programs need no changes. Data is sent through SSH instead of shared
// memory. After a dropped connection, calls wait for a new one; handles and names
// stay valid.
//
// # What it refuses
//
// It serves one user: it does not connect to another user's socket. It does not read
// device memory in place, and it knows nothing about nets or training; package fit
// builds on it.
package session
