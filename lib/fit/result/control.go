package result

// Control is where a training is, for the functions of a user that it calls: OnEpoch and
// OnStep of its settings. Meanwhile the net can be used, to evaluate, predict or save it.
type Control struct {
	Epoch Epoch // so far; with its validation for OnEpoch
	Step  int   // steps done in this run
	// LearningRate is that of the next steps, before a schedule. Set it to change it.
	LearningRate float64
	History      *History // so far

	stopped string
}

// Stop ends the training when the function has returned. History.Stopped will say why.
func (c *Control) Stop(why string) {
	if c.stopped = why; why == "" {
		c.stopped = "by a callback"
	}
}

// Stopped is what Stop was called with; "" if it was not.
func (c *Control) Stopped() string { return c.stopped }
