package NAME

import "MODULE/internal/portable/tabular"

// Row is an example as the table that the net was trained on has it: a value for each of its
// columns, nil where it is not known. Other columns do not matter.
//
// COLUMNS
type Row = tabular.Row

// PredictRows encodes rows as the training data were encoded, runs the net, and reads what it
// returns. A column that is missing, or has a value that the training data did not have, is an
// error. Goroutines may call it.
func PredictRows(rows ...Row) ([]Answer, error) {
	net, err := Load()
	if err != nil {
		return nil, err
	}
	inputs, err := net.Rows(rows...)
	if err != nil {
		return nil, err
	}
	out, err := net.Predict(inputs...)
	if err != nil {
		return nil, err
	}
	return net.Answers(out), nil
}
