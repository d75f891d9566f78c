package wire

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"time"
)

// JobBody is a loop that the session runs by itself: its client may go.
//
// A job is Turns turns of the Steps in their order, each of them Repeat times.
// Period turns make a period (an epoch of so many chunks, say): some steps are
// for its first or last turn only, and what is done now and then, saving and
// looking whether the end has come, is done after one. All wiring is by names of arrays in the job's space: a step
// looks its inputs up, runs its program, and binds its outputs, so whatever a
// later step needs, counters included, is an array with a name. Where the job
// is in its loop moves with the names, in one go, and is part of every snapshot
// of the space: a job that is resumed after a crash continues from the snapshot's
// arrays at the snapshot's place.
type JobBody struct {
	Name     string
	Programs []ProgramBody // with their text, so that the job can be resumed anywhere
	Steps    []JobStep
	Turns    int    // 0 is 1
	Period   int    // turns; 0 is 1
	Until    *Until // ends the job before its last turn
	Save     int    // periods from one snapshot to the next, more where they are short; 0 is 1
	Scratch  string // prefix of names that are deleted when the job has ended; "" is none
	Copies   string // prefix, which begins with Scratch, of names that no snapshot has: steps at the moment AtStart give them; "" is none
	Origin   string // notebook and cell, for lists
	About    string // for the client that reads the log; the session does not look at it
}

// Moment says in which turns of a period a step is done.
type Moment string

// The moments.
const (
	EachTurn  Moment = ""
	FirstTurn Moment = "first"
	LastTurn  Moment = "last"
	// AtStart is the moment when the job begins, and when it continues after a pause or a
	// crash: its steps are done then, once, before the step that the job is at.
	AtStart Moment = "start"
	// NotFinite is the moment when the numbers of a Finite step have ended the job:
	// the steps that stand right behind that one and wait for it are done then, once,
	// and may say why in its log. Their programs are compiled no sooner. An error of
	// theirs is not the job's.
	NotFinite Moment = "not finite"
	// AtEnd is the moment when the job has ended, however it did: its steps are done then,
	// once. An error of theirs is the job's, if it has none.
	AtEnd Moment = "end"
)

// Holds says whether turn number turn of a job is such a moment.
func (m Moment) Holds(turn, period int) bool {
	period = max(1, period)
	switch m {
	case FirstTurn:
		return turn%period == 0
	case LastTurn:
		return turn%period == period-1
	case AtStart, NotFinite, AtEnd:
		return false
	}
	return true
}

// JobStep is one program of a turn.
type JobStep struct {
	Program int     // index in JobBody.Programs
	Repeat  int     // times a turn; 0 is 1
	When    Moment  // default: each turn
	Inputs  []Input // one for each parameter
	Names   []string
	Donate  []bool // by input; only inputs whose names the outputs replace; nil is none
	Read    []Read
	// Finite binds the names only when all floats of what is read are finite,
	// and ends the job when they are not: its log ends with them. Nothing can be
	// donated then.
	Finite bool
	Device int
}

// Input is what a parameter of a step takes: an array by its name.
type Input struct {
	Name string   `json:",omitempty"`
	Each []string `json:",omitempty"` // instead: one name for each repetition, from the first again after the last
}

// Read is an output that goes into the job's log.
type Read struct {
	Output int
	Name   string
}

// Until ends a job after a period by what its last entry of that name says.
type Until struct {
	Read     string  // name of a Read
	Element  int     // of its data
	Below    float64 // ends when the value is below, unless 0
	Patience int     // ends when it has not become smaller for so many periods, unless 0
	Maximize bool    // larger values are better: above and larger in place of below and smaller
}

// JobState is what a job does.
type JobState string

// The states.
const (
	JobRuns    JobState = "running"
	JobPaused  JobState = "paused"
	JobWaits   JobState = "waiting" // on disk, until its snapshot is restored
	JobDone    JobState = "done"    // all turns, or Until
	JobStopped JobState = "stopped" // on request
	JobFailed  JobState = "failed"  // see Error
)

// Over says whether a job in that state has ended.
func (s JobState) Over() bool { return s == JobDone || s == JobStopped || s == JobFailed }

// Place is where a job is in its loop: what comes next.
type Place struct {
	Turn, Step, Repeat int
}

// JobInfo describes a job.
type JobInfo struct {
	Name, Space, Origin string
	State               JobState
	Place               Place
	Turns, Period       int
	About               string
	Entries             int // in its log
	Started, Changed    time.Time
	Error               *Error `json:",omitempty"`
	Why                 string `json:",omitempty"` // how it came to its end, or what it went on from
}

// JobEntry is one line of a job's log: data that a step read.
type JobEntry struct {
	Number int // from 0
	Place  Place
	Name   string
	Values Floats // at most MaxEntry of them
	Time   time.Time
}

// Floats are numbers that JSON carries bit by bit, NaN too.
type Floats []float64

// MarshalJSON writes base64 of little-endian float64.
func (f Floats) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 8*len(f))
	for _, v := range f {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return json.Marshal(b)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Floats) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if len(b)%8 != 0 {
		return Errorf(BadFrame, "wire: %d bytes are not a list of float64", len(b))
	}
	*f = make(Floats, len(b)/8)
	for i := range *f {
		(*f)[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return nil
}

// MaxEntry bounds the values of a log entry.
const MaxEntry = 1 << 16
