// Package fit trains the nets of package models. Weights, optimizer state and data live in
// the session under names, so they survive the cell that made them.
//
//	var net = fit.New("cnn", models.SeedCNN(), fit.Config{Seed: 1})
//
//	train, err := net.Load("mnist/train", fit.Data{X: images.Train.Pixels, Y: images.Train.Labels})
//	history, err := net.Train(ctx, train, fit.Train{Epochs: 5, Batch: 8})
//
// In any later cell, or another process:
//
//	test, err := net.Find("mnist/test")
//	score, err := net.Test(ctx, test)
//	answer, err := net.Predict(ctx, test)
//
// The first use of a net creates its arrays (cnn/conv/weights, cnn/adam/m/conv/weights,
// cnn/step, …); later uses find them.
//
// # Training
//
// [Net.Plan] says how Train runs the steps of an epoch: as a loop in one program or as one
// run each, with which kernels, on which devices, and why. Train gives the device chunks
// of about 40 ms, the next one before the last has ended, so the device does not wait and
// another notebook's short cell waits 100 ms at most. A chunk's weights get their names
// together, once its losses are known to be finite: when a run is stopped, its cell is
// killed or a loss is NaN, the net has the weights of the last good chunk. After an epoch,
// every few seconds, a run requests a snapshot from the session.
//
// [Net.TrainJob] trains in the session itself, without the cell. [Net.Phases] has the same
// step as separate programs, to be looked at and timed. [Net.Tune] measures which kernels
// are fastest.
//
// # Reproducibility
//
// A seed decides the first weights, the order of examples and dropout, and so every loss,
// bit for bit, on one device, for as long as the programs stay in the cache. When XLA
// compiles convolutions for a GPU again, it may choose other algorithms, some of which add
// up in no fixed order; this excludes them:
//
//	fit.Config{Flags: map[string]any{"xla_gpu_exclude_nondeterministic_ops": true}}
//
// # Errors
//
// Data or settings that do not fit are refused before training starts, with what was given,
// what is expected and what to do next: see [ArchitectureError], [ShapeError],
// [NotFiniteError] and [MemoryError], which names a batch that would fit.
package fit
