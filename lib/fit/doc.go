// Package fit trains the nets of package models in the session: weights,
// optimizer state and data live there under names, and outlive the cell that
// made them.
//
// At the top of a notebook, once:
//
//	var net = fit.New("cnn", models.SeedCNN(), fit.Config{Seed: 1})
//
// Nothing happens until the net is used. The first use creates its arrays
// (cnn/conv/weights, cnn/adam/m/conv/weights, cnn/step, …); every later one,
// in any cell and any process, finds them. In a cell:
//
//	images, err := datasets.MNIST(…)
//	train, err := net.Load("mnist/train", fit.Data{X: images.Train.Pixels, Y: images.Train.Labels})
//	test, err := net.Load("mnist/test", fit.Data{X: images.Test.Pixels, Y: images.Test.Labels})
//
//	history, err := net.Train(ctx, train, fit.Train{Epochs: 5, Batch: 8, Validation: test,
//		Progress: func(p fit.Progress) { … }})
//	fmt.Println(history)                 // Chainer's columns
//
// and in the next one, which need not load the images again:
//
//	test, err := net.Find("mnist/test")
//	score, err := net.Test(ctx, test)    // loss 0.0717, accuracy 98.03 % (9803/10000)
//	answer, err := net.Predict(ctx, test)
//	fmt.Println(answer.Classes[:16])
//
// # How it runs
//
// Train runs whole epochs as one program: a loop over shuffled batches of a
// data set that stays on the device. (On a CPU, nets with convolutions run as
// one program a step, without waiting in between: XLA's loops are slow there.
// So do steps of a millisecond and more on a GPU; see [Loop].)
// It is run in chunks of a twentieth of a second. While the devices work on one,
// the next is asked for, so that they never wait for the host, and a short cell of
// another notebook waits for the two of them at most. (For steps of a millisecond
// and more that is a lot: ResNet152's 32 ms took 57 when each chunk was looked at
// before the next was begun.) Where memory has no room for what two of them make,
// the next is asked for when the first has ended. A long run asks
// the session for a snapshot after an epoch, every few seconds, and does not wait
// for it. A chunk's weights take their names, all at once, when its losses
// have been seen to be finite; so a stopped run, a killed cell and a loss that
// is not a number all leave the weights of the last good chunk. Only a chunk's
// end waits for the device.
//
// [Net.Phases] gives the same step as programs of their own (forward, loss,
// backward, update, and each layer), so that each can be timed. They compute
// the same numbers.
//
// The order of the examples comes from the seed and the number of steps the net
// has done, dropout from the seed and the state cnn/rng. So one seed gives the
// same losses twice, bit for bit, on one device: seen on an H200, of FCN on an H100,
// for every net of package models, with the kernels that it has there by default, and
// for ResNet14 with fused batch norms. It holds in later sessions, and after a crash, for
// as long as the programs are in the cache on the disk. Compiled anew, they may have
// other algorithms, if XLA finds others the fastest: in two sessions on H100s,
// ResNet14's first epoch had a mean loss of 1.117 and of 1.039. What it finds for a
// large convolution may also add up in no fixed order, which would break it for a net
// of one's own. This excludes such algorithms, and tries out none; ResNet14's losses
// were then the same in two sessions without a cache:
//
//	fit.Config{Flags: map[string]any{"xla_gpu_exclude_nondeterministic_ops": true}}
//
// The first weights of a seed are the same on a CPU and on the H200, bit for bit.
//
// A net with an LSTM layer that is Stateful learns long sequences piece by piece:
// a batch goes on with the state in which the one before it ended. Train then
// wants the examples in order, begins each epoch with zeros unless
// Train.KeepState is set, and [Net.ResetState] does it at any time. Test and
// Predict begin with zeros and leave the state alone.
//
// With Config.Devices, several devices share each batch and add up their
// gradients inside the program. Small nets are faster on one, and then use one.
// Heavy nets of many arrays are trained there on a packed state, in place: the
// names follow every half second (every two of a state of 128 MiB), before each
// epoch's test and at the end, so a killed cell may lose so much work. A step whose
// loss or weights are not finite is not taken.
//
// # What it refuses
//
// Package fit prints nothing: results are values with a String method,
// progress goes to a function. It does not read files; package datasets does.
// Bad input is an error that says what, got, want and what next; the ones
// somebody decides on are [ArchitectureError], [NotFiniteError], [ShapeError] and
// [MemoryError], which names a batch that would fit.
package fit
