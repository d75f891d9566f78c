package report

import (
	"fmt"
	"io"
	"math"
	"os"
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
			ended = p.line(p.share(), "ended at "+p.after()) + below
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
	return p.line(share, p.after())
}

// line is the bar in HTML: one line, of which a narrow page cuts the end off until the bar
// is closed. A bar whose share is NaN says: under way.
func (p *Progress) line(share float64, state string) string {
	value := fmt.Sprintf(` max="1" value="%.4f"`, share)
	if math.IsNaN(share) {
		value = ""
	}
	state = escape(oneLine(state))
	style := "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
	if p.closed {
		style = "overflow-wrap:anywhere"
	}
	return fmt.Sprintf(`<div title="%s" style="%s"><b>%s</b> `+
		`<progress%s style="width:20%%;min-width:3em;max-width:12em;vertical-align:middle"></progress> %s</div>`, state, style, escape(shorten(p.Title, 40)), value, state)
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
