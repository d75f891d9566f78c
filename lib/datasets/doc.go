// Package datasets loads the images and curves that the notebooks train on: MNIST,
// Fashion-MNIST, CIFAR-10, synthetic images, a sine wave and the peaks surface.
//
// A data set is plain Go values: bytes for pixels, int32 for labels, float32 for
// curves. The package does not use a device: package session uploads, package fit
// scales and shuffles. A cell that only loads data therefore stays small.
//
//	images, err := datasets.MNIST(datasets.Options{})
//	if err != nil {
//		return err // says what was tried and what to do instead
//	}
//	fmt.Println(images) // MNIST: 60,000 train and 10,000 test images, 28×28×1, 10 classes
//	train, validation := images.Train.Data().Shuffle(1).Split(0.9) // for package fit
//	x := images.Train.Pixels // n·h·w·c bytes, row by row, channels last
//	y := images.Train.Labels // n labels
//
// # Where the data comes from
//
// The first use downloads MNIST, Fashion-MNIST and CIFAR-10 from their public sites
// and mirrors to Options.Dir, by default $GAIDEN_DATA or the user's cache directory.
// Every load checks the files against their SHA-256 checksums; a file that fails is
// listed in Images.Warnings and downloaded again. Interrupted downloads are resumed.
// Two programs that need the same file at the same time download it once.
//
// The checksums of MNIST and Fashion-MNIST are those of the unpacked IDX files,
// because distributions compress the same bytes differently.
//
// # Substitutes
//
// If no mirror of MNIST can be reached, [MNIST] returns Fashion-MNIST, which has the
// same shapes; on Debian it can come from the system's package archive, without root.
// Images.Name is then Fashion-MNIST, Images.StandsFor is MNIST, and String shows
// both. Set Options.Exact to get an error instead. The names of [Synthetic] images
// contain "synthetic".
//
// # What it refuses
//
// It has no augmentation, no loaders and no batches: these are programs on the
// device. It prints nothing; progress is reported to Options.Progress. It trusts no
// file: damaged or unknown files are errors.
package datasets
