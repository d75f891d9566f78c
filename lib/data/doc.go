// Package data turns files into examples that a net can train on: tables, images, sounds,
// texts and NumPy arrays. Everything is plain Go values on the host; package fit uploads them.
//
//	table, err := data.CSV{}.Read("passengers.csv")        // header, types and missing values are found
//	rows, others := table.Shuffle(1).Split(0.8)
//	encoder, err := rows.Encoder("port")                   // means, deviations and categories of these rows
//	encoder.OneHot = true                                  // X is one array; else categories are inputs of their own
//	examples, err := encoder.Encode(others)
//	answers, err := net.Predict(others)                    // of a net trained on such examples: answers.Names
//	answers, err = net.Predict(data.Row{"age": 30, "class": "first"})
//
// Tables come from [CSV], [JSONLines], [TableOf] a slice of structs, and packages data/parquet
// and data/arrow. Classes come from folders, one for each:
//
//	images, err := data.Images{Height: 64, Width: 64}.Read("flowers")
//	sounds, err := data.Sounds{Rate: 16000, Mono: true}.Read("words")
//	texts, err := data.Texts{}.Read("reviews")
//	words := data.WordsOf(texts.Texts, 5000).Rows(texts.Texts, 64)
//
// Text for nets that write, and arrays:
//
//	book, err := data.Text("book.txt")                    // one token a character
//	train, test := book.Windows(256).Split(0.9)           // [n 256] ids, and at each position the next one
//	arrays, err := data.NPZ("arrays.npz")                 // by name, with their dimensions
//
// What does not fit in memory is read by an iterator, for package fit's Stream: [CSV.Chunks]
// with [Encoder.Stream], [Images.Stream], [Sounds.Stream], or [Batches] of a function:
//
//	stream, err := net.Stream("photos", data.Batches(1000, func(k int) (data.Examples, error) { return read(k) }), 4096)
//
// Split, Shuffle and First exist for [Examples] and for [Table]. They panic where their
// arguments mean nothing.
//
// # What it refuses
//
// It knows no device and no net. Files that cannot be understood are errors with the file, the
// line, what was found and what is wanted; nothing is skipped. Text that is perhaps meant to be
// numbers is shown below the table, and [Table.Encoder] refuses it.
package data
