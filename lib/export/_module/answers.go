package NAME

import "MODULE/internal/portable/tabular"

// Answer is what the net says of an example: ANSWERTEXT.
type Answer = tabular.Answer

// Answers reads what Predict has returned, an Answer for each example.
func Answers(out []float32) ([]Answer, error) {
	net, err := Load()
	if err != nil {
		return nil, err
	}
	return net.Answers(out), nil
}
