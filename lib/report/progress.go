package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/janpfeifer/gonb/gonbui"

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
	shown    time.Time // when it was last drawn
	tenth    int       // last line written to a file, in tenths of the way
	width    int       // of the line on the terminal
	done     int
	note     string
	closed   bool
	terminal bool
}

const renewal = 100 * time.Millisecond // more often is not seen, and costs

// Set sets the number of steps that are done, with a note such as the loss. It draws
// at most ten times per second, so it may be called in every step.
func (p *Progress) Set(done int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.done, p.note = max(done, 0), note
	if now := time.Now(); !p.closed && now.Sub(p.shown) >= renewal {
		p.shown = now
		p.draw()
	}
}

// Close draws the final state and ends the line. It may be called again.
func (p *Progress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.begin()
	p.closed = true
	p.draw()
	if gonbui.IsNotebook {
		flush()
	}
}

// begin runs before the first state is drawn.
func (p *Progress) begin() {
	if !p.start.IsZero() {
		return
	}
	p.start, p.tenth = time.Now(), -1
	if gonbui.IsNotebook {
		p.id = "gaiden_progress_" + gonbui.UniqueId()
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
	case p.id != "":
		display(p.text(), p.html(), p.id)
	case p.terminal:
		line := p.text()
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

// text is the state on one line: "training [=====>....] 37/100 1.20 s, 2.04 s left  loss 0.1".
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
	b.WriteString(p.count())
	if p.note != "" {
		b.WriteString("  " + oneLine(p.note))
	}
	return b.String()
}

func (p *Progress) html() string {
	bar := "<progress></progress>" // without a value it says: under way
	if p.Total > 0 || p.closed {
		bar = fmt.Sprintf(`<progress max="1" value="%.4f" style="width:16em;vertical-align:middle"></progress>`, p.share())
	}
	return fmt.Sprintf(`<div style="font-family:monospace;white-space:pre-wrap"><b>%s</b> %s %s  %s</div>`,
		escape(p.Title), bar, escape(p.count()), escape(p.note))
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

// count is the steps, the time they took and the time that is left if the
// others take as long.
func (p *Progress) count() string {
	elapsed := time.Since(p.start).Seconds()
	if p.Total <= 0 {
		return fmt.Sprintf("%s %s", units.Count(p.done), units.Seconds(elapsed))
	}
	s := fmt.Sprintf("%s/%s %s", units.Count(p.done), units.Count(p.Total), units.Seconds(elapsed))
	if p.done > 0 && p.done < p.Total && !p.closed {
		s += fmt.Sprintf(", %s left", units.Seconds(elapsed/float64(p.done)*float64(p.Total-p.done)))
	}
	return s
}
