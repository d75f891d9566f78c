package safetensors

import "bytes"

// foreign says what a file that begins with b is, where it is a known one of another
// format, and what to do; "" for all others.
func foreign(b []byte) string {
	for _, f := range []struct{ magic, what string }{
		{"version https://git-lfs", "a git-lfs pointer, not the data: git lfs pull fetches them"},
		{"PK\x03\x04", "a zip archive, as torch.save, numpy.savez and Keras write: save the weights with safetensors.torch.save_file"},
		{"\x80\x02", "a Python pickle, as an old torch.save writes: save the weights with safetensors.torch.save_file"},
		{"\x80\x03", "a Python pickle: save the weights with safetensors.torch.save_file"},
		{"\x80\x04", "a Python pickle: save the weights with safetensors.torch.save_file"},
		{"\x80\x05", "a Python pickle: save the weights with safetensors.torch.save_file"},
		{"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes: save the weights with safetensors.numpy.save_file"},
		{"\x93NUMPY", "a numpy array: save the weights with safetensors.numpy.save_file"},
		{"GGUF", "a GGUF file: want the safetensors file that it was made from"},
		{"\x1f\x8b", "compressed with gzip: gunzip it first"},
		{"\x28\xb5\x2f\xfd", "compressed with zstd: unzstd it first"},
		{"<!DOCTYPE", "an HTML page, perhaps of a download that failed: fetch the file again"},
		{"<!doctype", "an HTML page, perhaps of a download that failed: fetch the file again"},
		{"<html", "an HTML page, perhaps of a download that failed: fetch the file again"},
	} {
		if bytes.HasPrefix(b, []byte(f.magic)) && !plausible(b) {
			return f.what
		}
	}
	return ""
}

// plausible says whether b could be the beginning of this format: a length of 8 bytes
// that is not too large, and a bracket. "\x80\x02" may be the length 640.
func plausible(b []byte) bool {
	return len(b) > 8 && b[8] == '{' && b[4]|b[5]|b[6]|b[7] == 0
}
