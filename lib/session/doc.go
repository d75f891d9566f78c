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
// The package knows nothing of nets or training; package fit stands on it.
package session
