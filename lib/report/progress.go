package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"
	"golang.org/x/sys/unix"

	"gaiden/lib/timing/units"
)

// Progress is a progress bar. In a notebook and on a terminal it is updated in place;
// if output goes to a file, it prints a line after every tenth of the work. Set its
// fields before the first call of a method. Methods may be called from any goroutine.
type Progress struct {
	Title string
	Total int // number of steps; 0 if unknown

	// Out receives the text outside of notebooks; nil means standard output.
	Out io.Writer

	mu       sync.Mutex
	id       string // display in the notebook
	start    time.Time
	first    time.Time // when the first steps had been done, and how many
	warm     int
	shown    time.Time // when it was last drawn
	tenth    int       // last line written to a file, in tenths of the way
	width    int       // of the line on the terminal
	done     int
	note     string
	state    string // what stands after the bar, if not steps, time and note
	closed   bool
	terminal bool
	below    column                         // what a notebook shows below the bar
	send     func(text, page, ended string) // shows them; ended is "" in the last state
}

const renewal = 100 * time.Millisecond // more often is not seen, and costs

// Set sets the number of steps that are done, with a note such as the loss. It draws
// at most ten times per second, so it may be called in every step.
func (p *Progress) Set(done int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.done, p.note = max(done, 0), note
	p.renew()
}

// setState is Set with all that stands after the bar, and below it.
func (p *Progress) setState(done int, state string, below ...Rich) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.done, p.state, p.below = max(done, 0), state, below
	p.renew()
}

func (p *Progress) renew() {
	now := time.Now()
	if p.done > 0 && p.warm == 0 {
		p.first, p.warm = now, p.done
	}
	if !p.closed && now.Sub(p.shown) >= renewal {
		p.shown = now
		p.draw()
	}
}

// Close draws the final state and ends the line. It may be called again.
func (p *Progress) Close() {
	p.mu.Lock()
	done, state, below := p.done, p.state, p.below
	p.mu.Unlock()
	p.finish(done, state, below...)
}

// finish is Close with a last state.
func (p *Progress) finish(done int, state string, below ...Rich) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.begin()
	p.done, p.state, p.below, p.closed = done, state, below, true
	p.draw()
	if p.id != "" {
		flush()
	}
}

// begin runs before the first state is drawn.
func (p *Progress) begin() {
	if !p.start.IsZero() {
		return
	}
	p.start, p.tenth = time.Now(), -1
	if p.send != nil {
		return
	}
	if gonbui.IsNotebook {
		p.id = "gaiden_progress_" + gonbui.UniqueId()
		p.send = p.display
		return
	}
	if p.Out == nil {
		p.Out = os.Stdout
	}
	if f, isFile := p.Out.(*os.File); isFile {
		stat, err := f.Stat()
		p.terminal = err == nil && stat.Mode()&os.ModeCharDevice != 0
	}
}

func (p *Progress) draw() {
	switch {
	case p.send != nil:
		below, ended := "", ""
		for _, v := range p.below {
			below += v.HTML()
		}
		if !p.closed {
			ended = line(p.Title, p.share(), "ended at "+p.after(), true) + below
		}
		p.send(strings.TrimSuffix(p.text()+"\n"+p.below.String(), "\n"), p.html()+below, ended)
	case p.terminal:
		line := shorten(p.text(), terminalWidth(p.Out)-1)
		width := utf8.RuneCountInString(line)
		fmt.Fprintf(p.Out, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-width)))
		p.width = width
		if p.closed {
			fmt.Fprintln(p.Out)
		}
	default:
		tenth := 0
		if p.Total > 0 {
			tenth = min(10*p.done/p.Total, 10)
		}
		if tenth > p.tenth || p.closed {
			p.tenth = tenth
			fmt.Fprintln(p.Out, p.text())
		}
	}
}

// display shows the bar in the cell's notebook.
func (p *Progress) display(text, page, ended string) {
	forms := map[protocol.MIMEType]any{protocol.MIMETextPlain: text, protocol.MIMETextHTML: page}
	if ended != "" { // the kernel shows that if the cell ends without Close
		forms[mimeEnded] = ended
	}
	gonbui.SendData(&protocol.DisplayData{Data: forms, DisplayID: p.id})
}

// mimeEnded is the form of a display that the kernel shows when its cell has ended.
const mimeEnded protocol.MIMEType = "application/x-gaiden-ended"

// terminalWidth is the number of columns of a terminal, 80 if it does not say.
func terminalWidth(out io.Writer) int {
	if f, is := out.(*os.File); is {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return 80
}

// text is the state on one line: "training [=====>....] 37/100, loss 0.1, 2.0 s left".
func (p *Progress) text() string {
	const cells = 24
	var b strings.Builder
	if p.Title != "" {
		fmt.Fprintf(&b, "%s ", oneLine(p.Title))
	}
	if p.Total > 0 {
		full := int(cells * p.share())
		bar := strings.Repeat("=", full)
		if full < cells {
			bar += ">" + strings.Repeat(".", cells-full-1)
		}
		fmt.Fprintf(&b, "[%s] ", bar)
	}
	b.WriteString(oneLine(p.after()))
	return b.String()
}

func (p *Progress) html() string {
	share := p.share()
	if p.Total <= 0 && !p.closed {
		share = math.NaN()
	}
	return line(p.Title, share, p.after(), p.closed)
}

// line is the bar in HTML: one line until the last state. On a narrow page the bar is shortened
// first, then the steps and the time left, then the title, then what comes after the loss. A
// bar whose share is NaN says: under way.
func line(title string, share float64, state string, last bool) string {
	value := fmt.Sprintf(` max="1" value="%.4f"`, share)
	if math.IsNaN(share) {
		value = ""
	}
	state = oneLine(state)
	if last {
		return fmt.Sprintf(`<div title="%s" style="overflow-wrap:anywhere"><b>%s</b> <progress%s style="width:20%%;min-width:3em;max-width:12em;vertical-align:middle"></progress> %s</div>`,
			escape(state), escape(shorten(title, 40)), value, escape(state))
	}
	var b strings.Builder
	const hides = "overflow:hidden;text-overflow:ellipsis"
	fmt.Fprintf(&b, `<div title="%s" style="display:flex;align-items:center;white-space:pre;overflow:hidden"><b style="flex:0 100 auto;min-width:3em;%s">%s </b>`+
		`<progress%s style="flex:0 1000000000 12em;width:12em;min-width:2em;margin-right:.5em"></progress>`, escape(state), hides, escape(shorten(title, 40)), value)
	for i, part := range stateParts(state) {
		style := [...]string{"flex:none", "flex:0 1000 auto;" + hides, "flex:none", "flex:0 1 auto;" + hides}[i]
		fmt.Fprintf(&b, `<span style="%s">%s</span>`, style, escape(part))
	}
	return b.String() + "</div>"
}

// stateParts are the parts of a state: its first words, then what stands before the loss, or the
// time that is left, then the loss, and the rest.
func stateParts(state string) (parts [4]string) {
	words := strings.SplitAfter(state, ", ")
	loss := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "loss ") })
	for i, word := range words {
		part := 3
		switch {
		case i == 0:
			part = 0
		case i < loss || loss < 0 && strings.HasSuffix(strings.TrimSuffix(word, ", "), " left"):
			part = 1
		case i == loss:
			part = 2
		}
		parts[part] += word
	}
	return parts
}

func (p *Progress) share() float64 {
	if p.Total <= 0 {
		if p.closed {
			return 1
		}
		return 0
	}
	return min(float64(p.done)/float64(p.Total), 1)
}

// after is what stands after the bar: the steps, the time that is left if the others take
// as long as those that were seen, or the time it took, and the note.
func (p *Progress) after() string {
	if p.state != "" {
		return p.state
	}
	var parts []string
	if p.Total > 0 {
		parts = append(parts, units.Count(p.done)+"/"+units.Count(p.Total))
	} else if p.note == "" {
		parts = append(parts, units.Count(p.done))
	}
	if ran := p.done - p.warm; ran > 0 && p.done < p.Total && !p.closed {
		parts = append(parts, units.Clock(time.Since(p.first).Seconds()/float64(ran)*float64(p.Total-p.done))+" left")
	} else {
		parts = append(parts, units.Clock(time.Since(p.start).Seconds()))
	}
	if p.note != "" {
		parts = append(parts, p.note)
	}
	return strings.Join(parts, ", ")
}
