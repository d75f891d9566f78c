package fit

import (
	"strings"
	"time"

	"gaiden/lib/fit/result"
)

// record collects the results of steps in a History, for Fit and for who reads a job's
// log.
type record struct {
	history     *History
	labels      bool
	answers     int // of an example: its labels, or 1
	epoch       Epoch
	step        int // of the epoch
	sum, weight float64
	measured    measured
	sums        []float64 // of the epoch's metrics
	goal        goal
	validation  *Score // of the last epoch that has one
}

// begin begins an epoch: the next step is its first.
func (r *record) begin(epoch int) {
	r.epoch = Epoch{Number: epoch, Train: Score{Labels: r.labels}}
	r.step, r.sum, r.weight = 0, 0, 0
	r.sums = make([]float64, r.measured.size())
}

// add adds the result of a step: its mean loss, the number it was divided by, and the
// correct ones of so many answers.
func (r *record) add(loss, weight float64, right, answers int) {
	r.step++
	r.sum += loss * weight
	r.weight += weight
	r.epoch.Train.Right += right
	r.epoch.Train.N += answers
	if r.epoch.Train.Loss = loss; r.step > 1 {
		r.epoch.Train.Loss = mean(r.sum, r.weight)
	}
	r.history.Steps++
	r.history.Losses = append(r.history.Losses, float32(loss))
	if r.labels {
		r.history.Right = append(r.history.Right, int32(right))
		r.history.Answers = append(r.history.Answers, int32(answers))
	}
}

// columns is how many numbers are the result of a step.
func (r *record) columns() int { return lossColumns + r.measured.size() }

// addRow adds the result of a step.
func addRow[T float32 | float64](r *record, row []T, examples int) {
	sums := make([]float64, len(row)-lossColumns)
	for i, x := range row[lossColumns:] {
		sums[i] = float64(x)
		r.sums[i] += sums[i]
	}
	r.add(float64(row[0]), float64(row[1]), int(row[2]), r.measured.answers(sums, r.answers*examples))
}

// end ends an epoch.
func (r *record) end(elapsed time.Duration, validation *Score) {
	r.epoch.Elapsed, r.epoch.Train.Metrics = elapsed, r.measured.values(r.sums)
	r.history.Epochs = append(r.history.Epochs, r.epoch)
	if validation != nil {
		r.validated(validation)
	}
}

// validated sets the validation of the last epoch that has ended.
func (r *record) validated(s *Score) {
	r.history.Epochs[len(r.history.Epochs)-1].Validation = s
	r.epoch.Validation, r.validation = s, s
}

// note adds to the history's note.
func (r *record) note(text string) {
	r.history.Note = strings.TrimPrefix(r.history.Note+"; "+text, "; ")
}

// progress is where a training of so many epochs of so many steps is.
func (r *record) progress(phase string, epochs, steps int) Progress {
	var now []result.Metric
	if r.step > 0 {
		now = r.measured.values(r.sums)
	}
	return Progress{Trained: r.history.Steps, Metrics: now, Phase: phase, Epoch: max(1, r.epoch.Number), Epochs: epochs, Step: r.step, Steps: steps, Loss: r.epoch.Train.Loss,
		Accuracy: r.epoch.Train.Accuracy(), Labels: r.labels, Validation: r.validation, History: r.history}
}

// mean is a loss over several batches; 0 where nothing counted yet.
func mean(sum, weight float64) float64 {
	if weight == 0 {
		return 0
	}
	return sum / weight
}
