// Package data turns files into examples that a net can train on: tables, texts, folders of
// images and NumPy arrays. Everything is plain Go values on the host; package fit uploads
// them.
//
//	book, err := data.Text("book.txt")                    // one token a character
//	train, test := book.Windows(256).Split(0.9)           // [n 256] ids, and at each position the next one
//	set, err := net.Upload("book/train", train)
//	fmt.Println(book.Vocab(), book.Decode(prediction.Classes))
//
//	table, err := data.CSV{}.Read("houses.csv")           // header, types and missing values are found
//	rows, others := table.Shuffle(1).Split(0.8)
//	encoder, err := rows.Encoder("price")                 // means, deviations and categories of these rows
//	examples, err := encoder.Encode(others)               // an input of numbers, and one of each category
//
//	images, err := data.Images{Height: 64, Width: 64}.Read("flowers") // a folder for each class
//	arrays, err := data.NPZ("arrays.npz")                 // by name, with their dimensions
//
// Batches makes an iterator for package fit's Stream, where not all examples fit in memory:
//
//	stream, err := net.Stream("photos", data.Batches(1000, func(k int) (data.Examples, error) { return read(k) }), 4096)
//
// Split, Shuffle and First exist for [Examples] and for [Table]. They panic where their
// arguments mean nothing.
//
// # What it refuses
//
// It knows no device and no net. Files that cannot be understood are errors with the file and
// the line; nothing is skipped.
package data
