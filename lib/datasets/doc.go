// Package datasets brings the pictures and the surfaces that the notebooks
// train on: MNIST, Fashion-MNIST, CIFAR-10, synthetic images, a sine wave and
// the peaks surface.
//
// A data set is plain Go values: bytes for pixels, int32 for labels, float32
// for curves. Nothing here knows a device; package session uploads, package
// fit scales and shuffles. So a cell that only loads data stays small.
//
//	images, err := datasets.MNIST(ctx, datasets.Options{})
//	if err != nil {
//		return err // says what was tried and what to do instead
//	}
//	fmt.Println(images) // MNIST: 60,000 train and 10,000 test images, 28×28×1, 10 classes
//	x := images.Train.Pixels // n·h·w·c bytes, row by row, channels last
//	y := images.Train.Labels // n labels
//
// # Where the data comes from
//
// MNIST, Fashion-MNIST and CIFAR-10 are fetched from their public homes and
// mirrors at the first use and kept in Options.Dir, by default $GAIDEN_DATA or
// the user's cache directory. What is kept is checked against a SHA-256 sum at
// every load; a file that fails is named in Images.Warnings and fetched again.
// An interrupted download goes on where it stopped. Two programs that want the
// same file at once fetch it once.
//
// The sums of MNIST and Fashion-MNIST are those of the unpacked IDX files,
// because distributions pack the same bytes in different ways: Debian's package
// dataset-fashion-mnist differs from the authors' files only in its gzip.
//
// # Stand-ins are named
//
// Where no mirror of MNIST can be reached, [MNIST] returns Fashion-MNIST, which
// has the same shapes; on Debian it can come from the system's package archive,
// without root. Images.Name then says Fashion-MNIST, Images.StandsFor says
// MNIST, and String shows both. Set Options.Exact to get an error instead.
// [Synthetic] images have "synthetic" in their name.
//
// # What it refuses
//
// It has no augmentation, no loaders, no batches: those are programs on the
// device. It asks no questions and prints nothing; progress goes to
// Options.Progress. It never trusts a file: damaged or foreign ones are errors.
package datasets
