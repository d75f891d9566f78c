package report

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/comms"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/lib/fit/result"
	"gaiden/lib/session"
)

// A Control is a [Slider], a [Choice] or a [Switch]: a value that the reader of a
// notebook changes, by mouse or keys.
type Control interface {
	name() string
	first(kind reflect.Type) (text string, err error) // the first value, as pages send it
	html(kind reflect.Type, value string) string
	parse(kind reflect.Type, text string) (reflect.Value, error)
}

// A Slider chooses a number, for a parameter that is an int or a float.
type Slider struct {
	Name     string
	Min, Max float64
	Step     float64 // default: 1 for integers, else a hundredth of the range
	Value    float64 // the first
}

// A Choice chooses one of several texts, for a parameter that is a string.
type Choice struct {
	Name    string
	Options []string
	Value   string // the first; default: Options[0]
}

// A Switch is on or off, for a parameter that is a bool.
type Switch struct {
	Name string
	On   bool // at first
}

// Interact shows a control for each parameter of a function, and what the function
// returns: again whenever a control is moved. The cell runs until its reader presses
// Done or Stop, and then shows the last values.
//
//	report.Interact(func(rate float64, steps int) report.Plot {
//		return descent(rate, steps)
//	}, report.Slider{Name: "rate", Min: 0, Max: 2, Value: 0.1}, report.Slider{Name: "steps", Min: 1, Max: 50, Value: 10})
//
// The function may return a second value, an error, which is shown in place of the
// first. [Rich] values and images are shown as such, others as text. Of several moves
// during one call the last counts. Where no page can send them (gaiden run, papermill,
// VS Code) the result of the first values is shown, and the cell continues. The error
// is one of the arguments, or the function's with the first values.
func Interact(f any, controls ...Control) error {
	in, err := newInteraction(f, controls)
	if err != nil {
		return err
	}
	if !gonbui.IsNotebook {
		result, err := in.call()
		if err == nil {
			Show(result)
		}
		return err
	}
	id := gonbui.UniqueId()
	in.show = func(form, ended string, result any, err error) {
		if form != "" { // a page that is shown again loses the control that has the focus
			gonbui.SendData(&protocol.DisplayData{DisplayID: "interact-" + id, Data: controlForms(form, ended, in.plain())})
		}
		gonbui.SendData(&protocol.DisplayData{DisplayID: "interact-result-" + id, Data: resultForms(result, err)})
	}
	address := "/gaiden/interact/" + id
	moves := make(chan []string, 1)
	alone := make(chan struct{}, 1)
	in.listen = func() (end func()) {
		moved := comms.Subscribe(address, func(_ string, values []string) {
			select { // the newest is kept
			case <-moves:
			default:
			}
			moves <- values
		})
		none := comms.Subscribe(noPage, func(string, string) {
			select {
			case alone <- struct{}{}:
			default:
			}
		})
		return func() { comms.Unsubscribe(none); comms.Unsubscribe(moved); flush() }
	}
	in.script = fmt.Sprintf("<script>(%s)(%s, %s)</script>", interactScript, quoted(id), quoted(address))
	in.id = id
	return in.run(session.Context(), moves, alone)
}

//go:embed interact.js
var interactScript string

// noPage is the address at which Gaiden's kernel says that no page shows the cell.
const noPage = "#gaiden/alone"

func quoted(s string) string {
	text, _ := json.Marshal(s) // a string has a form
	return string(text)
}

// An interaction is a call of Interact.
type interaction struct {
	f          reflect.Value
	controls   []Control
	kinds      []reflect.Type
	texts      []string // the values
	id, script string
	show       func(form, ended string, result any, err error) // without a form that stays
	listen     func() (end func())
}

var errorType = reflect.TypeFor[error]()

func newInteraction(f any, controls []Control) (*interaction, error) {
	in := &interaction{f: reflect.ValueOf(f), controls: controls}
	t := reflect.TypeOf(f)
	switch {
	case t == nil || t.Kind() != reflect.Func || in.f.IsNil():
		return nil, fmt.Errorf("report: Interact: got %T, want a function", f)
	case t.IsVariadic() || t.NumIn() != len(controls) || len(controls) == 0:
		return nil, fmt.Errorf("report: Interact: got a %v and %d controls, want a control for each parameter", t, len(controls))
	case t.NumOut() < 1 || t.NumOut() > 2 || t.NumOut() == 2 && t.Out(1) != errorType:
		return nil, fmt.Errorf("report: Interact: got a %v, want one that returns what is to be shown, and perhaps an error", t)
	}
	for i, c := range controls {
		if c == nil {
			return nil, fmt.Errorf("report: Interact: control %d is nil", i+1)
		}
		if strings.TrimSpace(c.name()) == "" {
			return nil, fmt.Errorf("report: Interact: control %d has no Name", i+1)
		}
		text, err := c.first(t.In(i))
		if err != nil {
			return nil, fmt.Errorf("report: Interact: %s: %w", c.name(), err)
		}
		in.kinds, in.texts = append(in.kinds, t.In(i)), append(in.texts, text)
	}
	return in, nil
}

// run shows the function's results until ctx ends, somebody presses Done, or there is
// nobody to do so.
func (in *interaction) run(ctx context.Context, moves <-chan []string, alone <-chan struct{}) error {
	result, err := in.call()
	if err != nil {
		return err
	}
	defer in.listen()() // before there is something to move: the line to the page opens here
	in.show(in.form(), in.static(""), result, nil)
	for {
		select {
		case <-ctx.Done():
			in.show(in.static(""), "", result, err)
			return nil
		case <-alone:
			in.show(in.static("open the notebook in JupyterLab and run the cell to move the controls"), "", result, err)
			return nil
		case values := <-moves:
			if len(values) != 1+len(in.controls) {
				continue // another version's page
			}
			if values[0] == "done" {
				in.show(in.static(""), "", result, err)
				return nil
			}
			if slices.Equal(values[1:], in.texts) {
				continue
			}
			in.texts = values[1:]
			result, err = in.call()
			in.show("", "", result, err)
		}
	}
}

// call calls the function; its panic is an error.
func (in *interaction) call() (value any, err error) {
	var args []reflect.Value
	for i, c := range in.controls {
		v, err := c.parse(in.kinds[i], in.texts[i])
		if err != nil {
			return nil, fmt.Errorf("report: Interact: %s: %w", c.name(), err)
		}
		args = append(args, v)
	}
	defer func() {
		if v := recover(); v != nil {
			err = result.Panicked(v)
		}
	}()
	out := in.f.Call(args)
	if len(out) == 2 && !out[1].IsNil() {
		return nil, out[1].Interface().(error)
	}
	return out[0].Interface(), nil
}

// form is the controls as HTML.
func (in *interaction) form() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<div data-gaiden="%s" role="group" style="display:flex;flex-wrap:wrap;gap:0.3em 1.5em;align-items:center">`, in.id)
	for i, c := range in.controls {
		fmt.Fprintf(&b, `<label>%s %s</label>`, escape(c.name()), c.html(in.kinds[i], in.texts[i]))
	}
	b.WriteString(`<button type="button">Done</button></div>` + in.script)
	return b.String()
}

// plain is the values for a terminal.
func (in *interaction) plain() string {
	var parts []string
	for i, c := range in.controls {
		parts = append(parts, c.name()+" "+in.texts[i])
	}
	return strings.Join(parts, ", ")
}

// static is the values as text, for a cell that has ended.
func (in *interaction) static(note string) string {
	var parts []string
	for i, c := range in.controls {
		parts = append(parts, fmt.Sprintf("%s <b>%s</b>", escape(c.name()), escape(in.texts[i])))
	}
	s := "<div>" + strings.Join(parts, " &nbsp; ") + "</div>"
	if note != "" {
		s += small(note)
	}
	return s
}

// controlForms are the forms of a display of the controls: the page, and what replaces
// it when the cell has ended without a word.
func controlForms(page, ended, plain string) map[protocol.MIMEType]any {
	forms := map[protocol.MIMEType]any{protocol.MIMETextHTML: page, protocol.MIMETextPlain: plain}
	if ended != "" {
		forms[mimeEnded] = ended
	}
	return forms
}

// resultForms are the forms in which a result is shown.
func resultForms(result any, err error) map[protocol.MIMEType]any {
	if err != nil {
		return map[protocol.MIMEType]any{protocol.MIMETextPlain: err.Error(), protocol.MIMETextHTML: `<pre style="color:#c00">` + escape(err.Error()) + "</pre>"}
	}
	switch v := result.(type) {
	case Rich:
		return map[protocol.MIMEType]any{protocol.MIMETextPlain: v.String(), protocol.MIMETextHTML: v.HTML()}
	case image.Image:
		var b bytes.Buffer
		if err := png.Encode(&b, v); err != nil {
			return resultForms(nil, err)
		}
		return map[protocol.MIMEType]any{protocol.MIMETextPlain: fmt.Sprintf("image %v", v.Bounds().Size()), protocol.MIMEImagePNG: b.Bytes()}
	}
	return map[protocol.MIMEType]any{protocol.MIMETextPlain: fmt.Sprint(result)}
}

func (s Slider) name() string { return s.Name }

func integer(kind reflect.Type) bool {
	return kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Uint64
}

// first checks the slider. Its values are the multiples of its step, from Min on.
func (s Slider) first(kind reflect.Type) (string, error) {
	if k := kind.Kind(); !integer(kind) && k != reflect.Float64 && k != reflect.Float32 {
		return "", fmt.Errorf("got a Slider for a parameter of type %v, want an int or a float", kind)
	}
	step := s.step(kind)
	switch {
	case !(s.Min < s.Max) || math.IsInf(s.Max-s.Min, 0):
		return "", fmt.Errorf("got Min %v and Max %v, want a range", s.Min, s.Max)
	case !(step > 0) || step > s.Max-s.Min:
		return "", fmt.Errorf("got Step %v, want one above 0, at most the range", s.Step)
	case s.Value < s.Min || s.Value > s.Max || math.IsNaN(s.Value):
		return "", fmt.Errorf("got Value %v, want one from Min %v to Max %v", s.Value, s.Min, s.Max)
	case integer(kind) && (s.Min != math.Trunc(s.Min) || step != math.Trunc(step) || s.Value != math.Trunc(s.Value)):
		return "", fmt.Errorf("got Min %v, Step %v and Value %v for an integer, want integers", s.Min, step, s.Value)
	}
	text := shortest(s.Value)
	_, err := s.parse(kind, text)
	return text, err
}

func (s Slider) step(kind reflect.Type) float64 {
	switch {
	case s.Step != 0:
		return s.Step
	case integer(kind):
		return 1
	}
	return (s.Max - s.Min) / 100
}

func shortest(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (s Slider) html(kind reflect.Type, value string) string {
	return fmt.Sprintf(`<input data-control type="range" min="%s" max="%s" step="%s" value="%s" style="vertical-align:middle"> <output>%[4]s</output>`,
		shortest(s.Min), shortest(s.Max), shortest(s.step(kind)), escape(value))
}

func (s Slider) parse(kind reflect.Type, text string) (reflect.Value, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= s.Min && x <= s.Max) {
		return reflect.Value{}, fmt.Errorf("got %.40q, want a number from %v to %v", text, s.Min, s.Max)
	}
	v := reflect.New(kind).Elem()
	switch {
	case v.CanInt() && !v.OverflowInt(int64(x)):
		v.SetInt(int64(x))
	case v.CanUint() && x >= 0 && !v.OverflowUint(uint64(x)):
		v.SetUint(uint64(x))
	case v.CanFloat():
		v.SetFloat(x)
	default:
		return v, fmt.Errorf("%v does not fit into the parameter, a %v", x, kind)
	}
	return v, nil
}

func (c Choice) name() string { return c.Name }

func (c Choice) first(kind reflect.Type) (string, error) {
	switch {
	case kind.Kind() != reflect.String:
		return "", fmt.Errorf("got a Choice for a parameter of type %v, want a string", kind)
	case len(c.Options) == 0:
		return "", errors.New("got no Options, want some")
	case c.Value == "":
		return c.Options[0], nil
	}
	_, err := c.parse(kind, c.Value)
	return c.Value, err
}

func (c Choice) html(_ reflect.Type, value string) string {
	var b strings.Builder
	b.WriteString(`<select data-control>`)
	for _, o := range c.Options {
		selected := ""
		if o == value {
			selected = " selected"
		}
		fmt.Fprintf(&b, `<option value="%s"%s>%[1]s</option>`, escape(o), selected)
	}
	return b.String() + "</select>"
}

func (c Choice) parse(kind reflect.Type, text string) (reflect.Value, error) {
	if !slices.Contains(c.Options, text) {
		return reflect.Value{}, fmt.Errorf("got %.80q, want one of %q", text, c.Options)
	}
	return reflect.ValueOf(text).Convert(kind), nil
}

func (s Switch) name() string { return s.Name }

func (s Switch) first(kind reflect.Type) (string, error) {
	if kind.Kind() != reflect.Bool {
		return "", fmt.Errorf("got a Switch for a parameter of type %v, want a bool", kind)
	}
	return strconv.FormatBool(s.On), nil
}

func (s Switch) html(_ reflect.Type, value string) string {
	checked := ""
	if value == "true" {
		checked = " checked"
	}
	return `<input data-control type="checkbox"` + checked + `>`
}

func (s Switch) parse(kind reflect.Type, text string) (reflect.Value, error) {
	if text != "true" && text != "false" {
		return reflect.Value{}, fmt.Errorf("got %.40q, want true or false", text)
	}
	return reflect.ValueOf(text == "true").Convert(kind), nil
}
