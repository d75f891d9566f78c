// Package runner executes notebook files through an interpreter, in this process
// and without sockets, and writes the outputs into them as Jupyter would:
//
//	doc, err := runner.Read(data)
//	if err != nil {
//		return err
//	}
//	run := runner.Run{Interpreter: n, Progress: func(s runner.Step) { fmt.Println(s) }}
//	err = run.Execute(ctx, doc) // *runner.CellError for the first cell that fails
//	data, encodeErr := doc.Bytes()
//
// All outputs are removed first, so that none is left of another run. Each cell
// notes when it ran. What a notebook has besides code cells and their outputs
// stays as it is. Two tags mean
// what they mean to nbclient: a cell tagged skip-execution is not run, and one
// tagged raises-exception may fail.
//
// It refuses notebooks that are not of format 4, and those of another language.
// Nobody is there to be asked: a cell that reads its input finds the end of it.
package runner
