package fit

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit/step"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/losses"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/sampling"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// Net is a model with a name in the session. Goroutines may share it.
type Net struct {
	*core
	ctx context.Context // nil: the cell's
}

// core is what a Net shares with those that differ in their context only.
type core struct {
	name   string
	model  models.Net
	config Config

	mu   sync.Mutex // protects following, and the arrays while a program runs
	hold hold
	attachment
	traits
	caches
	hooks
}

// hold is who may change a net's arrays.
type hold int

const (
	unlocked hold = iota // any program
	locked               // this one
	calling              // nobody: a callback of its training runs
)

// attachment is what a net is in the session.
type attachment struct {
	session    *session.Session
	target     lower.Target
	whole      *Net // that it is a part of; nil: it is none
	ready      bool
	readOnly   bool // another program's: its arrays are neither created nor removed
	arrayCount int  // of the net, in the session
	inferred   bool // the model's Input is that of examples, not the user's
	encoded    bool // the session has the encoder of its examples
	layout     layout
}

// traits are what a net is made of, as its layout is built.
type traits struct {
	addsLoss    bool              // layers add to the loss
	vocab       map[string]int    // of inputs that an Embedding takes, by name
	convolves   bool              // it has convolutions
	mixes       bool              // it has a models.MixUp
	masks       bool              // some of its sequences have masks
	feedForward bool              // it has neither those nor loops
	output      []int             // dimensions of one result
	forward     float64           // FLOPs of the forward pass of an example, as the net is written
	attentions  []lower.Attention // of one example
	recurrences []string          // why each recurrence has no kernels, or ""
}

// caches are what a Net keeps between calls.
type caches struct {
	generator    *generator
	programs     map[string]*future
	sets         map[string]*Set
	deviceCopies map[onDevice]*session.Array // of data
	stepTime     map[string]time.Duration    // in the last run of its kind
	stepCost     map[string]hlo.Cost
	outlining    sync.Mutex // protects outlines
	outlines     map[string]*stepOutline
	metricErrors map[bool]error // for labels, and for numbers
	table        *tiling.Table  // of the net that this one is a clone of; nil: the session's
}

// hooks are for tests.
type hooks struct {
	packing, testBuckets bool              // whatever the size of the net
	streamed             func(pending int) // a block of a stream is uploaded
	options              lower.Options
	loop                 plan.Loop
	growth               int // finite steps that double the loss scale; 0: goodSteps
	unroll               int // steps in the body of a loop; 0: chosen
	decided              func(*plan.Plan)
	drawn, turns         int // tokens that are generated at a time, and before the host looks; 0: chosen
}

// Config says how a net is trained.
type Config struct {
	Optimizer optim.Optimizer  // default: Adam{}
	Loss      losses.Loss      // default: CrossEntropy for labels, MSE for numbers
	Step      func(*step.Step) // a training step of your own, in place of Loss, called while programs are written
	Metrics   []metrics.Metric
	Seed      int64 // of the first weights, the order of examples, and dropout
	// BF16 computes in bfloat16, F16 in float16 with a loss scale; weights and optimizer state stay
	// float32. Integers in the examples that would be rounded, such as ids above 256, are refused.
	BF16, F16 bool
	Kernels   Kernels // default: AutoKernels
	// Devices train together, each on its part of a batch; default: 1. If one is expected
	// to be faster, it is used alone, and History.Note says so, unless AllDevices is set.
	Devices    int
	AllDevices bool
	OneDNN     bool               // convolutions on a CPU by oneDNN, in programs not kept on disk; its gradient of 1×1 ones to one channel is wrong, which Conv2D avoids
	FirstLook  bool               // compile faster, to slower programs, for a few steps
	Flags      map[string]any     // XLA options for every program of the net
	Session    *session.Session   // default: the notebook's, opened at the first use
	Origin     string             // shown in the session's lists of programs
	Tokenizer  sampling.Tokenizer // for Generate: text to tokens and back
}

// New returns a net with a name in the session, which its first use opens.
func New(name string, model models.Net, config Config) *Net {
	if config.Optimizer == nil {
		config.Optimizer = optim.Adam{}
	}
	model = model.Listed()
	model.Name = cmp.Or(model.Name, name)
	return &Net{core: &core{name: name, model: model, config: config, caches: caches{programs: map[string]*future{}, sets: map[string]*Set{},
		deviceCopies: map[onDevice]*session.Array{}, stepTime: map[string]time.Duration{}, stepCost: map[string]hlo.Cost{}}}}
}

// WithContext is the same net, whose calls end with ctx, not the cell's.
func (n *Net) WithContext(ctx context.Context) *Net { return &Net{core: n.core, ctx: ctx} }

// Context is what the net's calls end with: WithContext's, or else the cell's.
func (n *Net) Context() context.Context {
	if n.ctx != nil {
		return n.ctx
	}
	return session.Context()
}

// Attach is New in an open session, with the net's arrays found or created.
func Attach(s *session.Session, name string, model models.Net, config Config) (*Net, error) {
	config.Session = s
	n := New(name, model, config)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n, n.open()
}

// Name is the net's name in the session.
func (n *Net) Name() string { return n.name }

func (n *Net) String() string {
	var in []string
	for _, i := range n.model.AllInputs() {
		in = append(in, fmt.Sprint(i.Dims))
	}
	of := ""
	if n.model.Name != n.name {
		of = n.model.Name + " on "
	}
	return fmt.Sprintf("%s: %s%s, %s", n.name, of, strings.Join(in, ", "), units.Plural(len(n.model.Layers), "layer"))
}

// Model is the net's layers.
func (n *Net) Model() models.Net { return n.model }

// Config is what the net was made with, its defaults filled in.
func (n *Net) Config() Config { return n.config }

// Summary describes the net as Keras does; what is frozen is not trainable.
func (n *Net) Summary() (models.Summary, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recall()
	s, err := n.summary()
	if err == nil {
		var names []string
		for _, r := range s.Rows {
			for _, v := range r.Variables {
				names = append(names, v.Name)
			}
		}
		err = n.patternsFit(names)
	}
	s.Freeze(func(v models.Variable) bool { return n.optimizerOf(slot{name: v.Name, shape: v.Shape}) == nil })
	return s, n.wantInput(err)
}

// recall is recallInput where nothing has been opened. What fails, fails again when it is.
func (n *Net) recall() {
	if n.model.Input == nil && n.model.Inputs == nil && n.connect() == nil {
		n.recallInput()
	}
}

// wantInput adds to the error of a net without an Input of its own that it may want one.
func (n *Net) wantInput(err error) error {
	switch {
	case err == nil || n.model.Inputs != nil || len(n.model.Layers) == 0 && n.model.Function == nil || n.model.Input != nil && !n.inferred:
		return err
	case n.inferred:
		return fmt.Errorf("fit: %s: Input of models.Net is not set, and examples were taken for %v: want it, such as []int{28, 28, 1} for images: %w", n.name, n.model.Input, err)
	}
	return fmt.Errorf("fit: %s: Input of models.Net is not set, and there are no examples as rows to take it from: want it, such as []int{12} for 12 numbers, or examples such as [][]float32: %w", n.name, err)
}

func (n *Net) summary() (models.Summary, error) { return models.Summarize(&writer{}, n.model) }

// Session is the session the net lives in, opened if need be.
func (n *Net) Session() (*session.Session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.session, n.connect()
}

// Reset removes the net's arrays from the session; its next use makes others.
func (n *Net) Reset() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.connect(); err != nil {
		return err
	}
	if err := n.wholeOnly(); err != nil {
		return err
	}
	done, err := n.lockUnlessTraining(context.Background(), "resets")
	if err != nil {
		return err
	}
	defer done()
	n.ready = false
	if n.inferred {
		n.model.Input, n.inferred = nil, false
	}
	_, err = n.session.Delete(n.name + "/*")
	return err
}

// connect opens the session.
func (n *Net) connect() error {
	if n.session != nil {
		return nil
	}
	if n.name == "" || n.name == "data" || n.name == "chat" || strings.ContainsAny(n.name, "/* ") {
		return fmt.Errorf("fit: net name is %q: want a word without spaces, / or *, other than data and chat", n.name)
	}
	if n.config.Devices < 0 {
		return fmt.Errorf("fit: %s: Devices %d: want 1 or more, or 0 for the default", n.name, n.config.Devices)
	}
	s := n.config.Session
	if s == nil {
		var err error
		if s, err = sharedSession(); err != nil {
			return err
		}
	}
	n.session, n.target = s, lower.TargetOf(s.Welcome())
	return nil
}

// open makes the net ready to be used.
func (n *Net) open() error { return n.openUntil(context.Background()) }

// openUntil is open that stops waiting for others when ctx ends.
func (n *Net) openUntil(ctx context.Context) error {
	if err := n.connect(); err != nil || n.ready {
		return err
	}
	if err := n.config.check(); err != nil {
		return fmt.Errorf("fit: %s: %w", n.name, err)
	}
	if len(n.model.Parts()) > 0 && n.config.Step == nil {
		return fmt.Errorf("fit: %s: %s is made of parts, %s, and has no Config.Step: want one, which says what goes into each", n.name, n.model.Name, strings.Join(n.model.Names(), ", "))
	}
	if err := n.recallInput(); err != nil {
		return err
	}
	if err := n.attach(ctx); err != nil {
		return n.wantInput(err)
	}
	n.ready = true
	return nil
}

// shared is the session of the nets that were not given one: one connection a
// process.
var shared struct {
	sync.Mutex
	s *session.Session
}

func sharedSession() (*session.Session, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.s == nil {
		s, err := session.Open()
		if err != nil {
			return nil, err
		}
		shared.s = s
	}
	return shared.s, nil
}

// explicit is the session that somebody gave, or nil if s is the notebook's.
func explicit(s *session.Session) *session.Session {
	shared.Lock()
	defer shared.Unlock()
	if s == shared.s {
		return nil
	}
	return s
}
