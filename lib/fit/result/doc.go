// Package result holds what package fit returns: the history of a training, scores,
// predictions and weights on the host, and the errors that say which number, layer or size
// is to blame. They are plain values, whose String methods print them for people:
//
//	history, err := net.Fit(train, fit.Train{Epochs: 5})
//	fmt.Println(history.Last().Train.Accuracy())
//
// Package fit has all of them under the same names, such as fit.History.
package result
