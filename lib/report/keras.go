package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/timing/units"
)

// Keras shows a history in the output format of Keras, two lines per epoch:
//
//	Epoch 1/12
//	469/469 [==============================] - 4s 9ms/step - loss: 2.2889 - accuracy: 0.1426 - val_loss: 2.2611 - val_accuracy: 0.2889
//
// The time of an epoch includes its steps and its validation, but not compiling.
type Keras struct {
	*fit.History
	Epochs int // requested; 0 means the completed epochs
}

// String returns all lines.
func (k Keras) String() string {
	if k.History == nil || len(k.History.Epochs) == 0 {
		return "no epoch was finished"
	}
	epochs := k.Epochs
	if epochs == 0 {
		epochs = k.History.Last().Number
	}
	var b strings.Builder
	steps := len(k.Losses) / len(k.History.Epochs)
	before := k.Compile // all of it falls into the first epoch, roughly
	first, rest, between := k.Shown()
	for i, e := range slices.Concat(first, rest) {
		if between > 0 && i == len(first) {
			fmt.Fprintf(&b, "… %s between them are in History.Epochs\n", units.Plural(between, "epoch"))
			before = k.History.Epochs[i+between-1].Elapsed
		}
		took := max(e.Elapsed-before, 0)
		before = e.Elapsed
		fmt.Fprintf(&b, "Epoch %d/%d\n%d/%d [%s] - %s %s/step - loss: %s", e.Number, epochs, steps, steps, strings.Repeat("=", 30),
			rough(took), rough(took/time.Duration(max(1, steps))), kerasNumber(e.Train.Loss))
		if e.Train.Labels {
			fmt.Fprintf(&b, " - accuracy: %s", kerasNumber(e.Train.Accuracy()))
		}
		for _, m := range e.Train.Metrics {
			fmt.Fprintf(&b, " - %s: %s", m.Name, kerasNumber(m.Value))
		}
		if v := e.Validation; v != nil {
			fmt.Fprintf(&b, " - val_loss: %s", kerasNumber(v.Loss))
			if v.Labels {
				fmt.Fprintf(&b, " - val_accuracy: %s", kerasNumber(v.Accuracy()))
			}
			for _, m := range v.Metrics {
				fmt.Fprintf(&b, " - val_%s: %s", m.Name, kerasNumber(m.Value))
			}
		}
		b.WriteByte('\n')
	}
	if k.Stopped != "" {
		b.WriteString("stopped: " + oneLine(k.Stopped) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (k Keras) HTML() string {
	return `<pre style="white-space:pre;margin:0">` + escape(k.String()) + "</pre>"
}

// kerasNumber is a number as Keras prints it, with an exponent where it is small.
func kerasNumber(x float64) string {
	if math.Abs(x) > 1e-3 {
		return fmt.Sprintf("%.4f", x)
	}
	return fmt.Sprintf("%.4e", x)
}

// rough is a duration as Keras prints it, two digits at least: 4s, 9ms, 310us.
func rough(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0fms", d.Seconds()*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0fus", d.Seconds()*1e6)
}
