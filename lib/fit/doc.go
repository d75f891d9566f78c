// Package fit trains the nets of package models. Weights, optimizer state and data live in
// the session under names, so they survive the cell that made them.
//
//	var net = fit.New("cnn", model, fit.Config{Seed: 1}) // model is a models.Net
//
//	train, err := net.Upload("mnist/train", fit.Data{X: images.Train.Pixels, Y: images.Train.Labels})
//	history, err := net.Fit(train, fit.Train{Epochs: 5, Batch: 8})
//
// In any later cell, or another process:
//
//	test, err := net.Data("mnist/test")
//	score, err := net.Evaluate(test)
//	answer, err := net.Predict(test)
//
// The first use of a net creates its arrays (cnn/conv/weights, cnn/adam/m/conv/weights,
// cnn/step, …); later uses find them.
//
// Fit runs short chunks of steps, so that cells of other notebooks get their turn. A
// chunk's weights are bound to their names once its losses are known to be finite: a run
// that is stopped, or whose loss is NaN, leaves the last good ones.
//
// With a fixed seed, losses on one device are the same bit for bit, as long as the compiled
// programs stay in the cache, except those of transformers in 16 bits on a GPU.
package fit
