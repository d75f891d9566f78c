package jupyter

import (
	"context"
	"errors"
	"fmt"
)

// An Interpreter runs cells: it is what a language author writes. It knows
// nothing of sockets and messages. Execute is called again while it runs only for
// the cells of subshells; the other methods may be called while it runs, Complete
// and Inspect one at a time. A method that panics fails its request only.
type Interpreter interface {
	// Execute runs one cell. ctx is cancelled by an interrupt_request, SIGINT or
	// the kernel's shutdown; Execute then ends as soon as it can and returns an
	// Error that says so. What it sends to out is published in order, and all of
	// it before the cell is idle.
	Execute(ctx context.Context, req ExecuteRequest, out Output) ExecuteResult

	// Complete lists what may stand at the cursor, counted in Unicode code
	// points.
	Complete(ctx context.Context, code string, cursor int) Completion

	// Inspect describes what stands at the cursor; detail is 0 or 1.
	Inspect(ctx context.Context, code string, cursor, detail int) Inspection

	// IsComplete says whether the code can run as it is. It must be quick.
	IsComplete(code string) Completeness

	// Info describes the language. It is called once, before all else.
	Info() LanguageInfo

	// Shutdown is called last, when Execute has ended; after three seconds of
	// waiting for Execute it is called in any case.
	Shutdown(restart bool)
}

// A CommHandler is an Interpreter that takes comm messages from front ends.
// Without it their comms are closed at once. Calls come one at a time, in order
// of arrival, and may come while Execute runs.
type CommHandler interface {
	// Comm handles kind comm_open, comm_msg or comm_close. An error closes a
	// comm that is being opened, and is logged.
	Comm(ctx context.Context, kind string, c Comm, out Output) error
}

// A Debugger is an Interpreter whose cells can be debugged. Without it debug requests
// are refused.
type Debugger interface {
	// CanDebug reports whether they can be here. It is called once, before all else.
	CanDebug() bool

	// Debug answers a request of the Debug Adapter Protocol, or of Jupyter's additions
	// to it. event publishes an event; it may be called after Debug has returned, until
	// the next call.
	Debug(ctx context.Context, request map[string]any, event func(map[string]any)) (response map[string]any)
}

// An ExecuteRequest is a cell to run.
type ExecuteRequest struct {
	Code            string
	Silent          bool // no output, count or history; the core sees to it
	StoreHistory    bool
	AllowStdin      bool              // Output.Input may be used
	StopOnError     bool              // an Error aborts the cells that are queued
	UserExpressions map[string]string // to be evaluated after the cell, by name
	Count           int               // execution_count of this cell, from 1
	Cell            string            // the front end's id of the cell, empty if it sent none
	Left            <-chan struct{}   // closed when a cell of another page waits: this one's may have been loaded again
}

// An ExecuteResult says how a cell ended.
type ExecuteResult struct {
	Err             *Error           // nil when all went well
	Payload         []map[string]any // pager, set_next_input; see the specification
	UserExpressions map[string]any   // by name, what the front end requested
}

// An Error is what a front end shows of a cell that failed.
type Error struct {
	Name      string   // ename: its kind, in a word
	Value     string   // evalue: its text
	Traceback []string // what is shown, lines that may hold ANSI colours
}

func (e *Error) Error() string { return e.Name + ": " + e.Value }

// A Completion replaces the code from Start to End, in code points, with one
// of Matches.
type Completion struct {
	Matches    []string
	Start, End int
	Metadata   map[string]any // _jupyter_types_experimental, for one
}

// An Inspection describes a name, in one or more MIME types.
type Inspection struct {
	Found    bool
	Data     map[string]any
	Metadata map[string]any
}

// A Completeness says whether code can run: Status is complete, incomplete,
// invalid or unknown; Indent starts the next line of incomplete code.
type Completeness struct {
	Status string
	Indent string
}

// LanguageInfo is what kernel_info_reply says of the kernel and its language.
type LanguageInfo struct {
	Implementation        string
	ImplementationVersion string
	Banner                string
	Language              Language
	HelpLinks             []HelpLink
}

// A Language is the language_info of a notebook; front ends choose highlighting
// and file names by it.
type Language struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	MIMEType      string `json:"mimetype"`
	FileExtension string `json:"file_extension"` // with its dot
	PygmentsLexer string `json:"pygments_lexer,omitempty"`
	CodeMirror    any    `json:"codemirror_mode,omitempty"`
	Exporter      string `json:"nbconvert_exporter,omitempty"`
}

// A HelpLink is an entry of the front end's help menu.
type HelpLink struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// A MimeBundle is something to show, in one or more MIME types. A value of type
// []byte goes out in base64, as Jupyter has it for images; text is a string.
type MimeBundle struct {
	Data      map[string]any
	Metadata  map[string]any
	Transient map[string]any // display_id, by which Update finds the display
}

// A Comm is one message of a comm, an open line between a front end and code.
type Comm struct {
	ID       string
	Target   string // what to connect to; only when it is opened
	Data     map[string]any
	Metadata map[string]any
	Buffers  [][]byte
}

// ErrNoStdin is returned by Input when the front end cannot be asked.
var ErrNoStdin = errors.New("jupyter: input: the front end does not take questions for this cell; run it where there is someone to ask")

// Output is where a cell's output goes. Its methods may be called from any
// goroutine, none returns an error to look after, and what is sent is published
// in the order of the calls. While front ends are slow to take a flood, calls
// wait, until the cell is interrupted. Calls after the cell has ended are
// published, but the front end may not show them.
type Output interface {
	// Stream adds to stdout or stderr. Writes are gathered for up to 50 ms or
	// 1 MB. A character that is cut between two calls is put together; bytes
	// that are no UTF-8 become U+FFFD.
	Stream(name string, data []byte)

	// Display shows something.
	Display(d MimeBundle)

	// Update replaces what was displayed under the same display_id.
	Update(d MimeBundle)

	// Result shows the cell's value, its execute_result.
	Result(d MimeBundle)

	// Clear removes the cell's output so far, or once there is new output.
	Clear(wait bool)

	// Input asks the front end for a line, without its end; password hides what
	// is typed. Errors are ErrNoStdin and ctx's.
	Input(ctx context.Context, prompt string, password bool) (string, error)

	// CommOpen, CommMsg and CommClose talk to the front end's side of a comm.
	CommOpen(c Comm)
	CommMsg(c Comm)
	CommClose(c Comm)
}

// fail makes the Error of a request that the core itself refuses.
func fail(name, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	return &Error{Name: name, Value: text, Traceback: []string{name + ": " + text}}
}
