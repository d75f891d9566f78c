package report

import (
	"encoding/gob"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/session"
)

func TestProgressInAFile(t *testing.T) {
	var out strings.Builder
	p := Progress{Title: "training", Total: 200, Out: &out}
	for i := range 200 {
		p.shown = time.Time{} // as if a tenth of a second had passed
		p.Set(i+1, "loss 0.5")
	}
	p.Close()
	p.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := len(lines), 12; got != want {
		t.Errorf("got %d lines, want %d, one for each tenth and the last:\n%s", got, want, out.String())
	}
	if first := lines[0]; !strings.HasPrefix(first, "training [>.......................] 1/200, ") || !strings.HasSuffix(first, ", loss 0.5") || strings.Contains(first, " left") {
		t.Errorf("first line: got %q, want no estimate of what no step has shown", first)
	}
	if second := lines[1]; !strings.HasPrefix(second, "training [==>.....................] 20/200, ") || !strings.HasSuffix(second, " left, loss 0.5") {
		t.Errorf("second line: got %q", second)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "training [========================] 200/200, ") || strings.Contains(last, "left") {
		t.Errorf("last line: got %q", last)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var out strings.Builder
	p := Progress{Total: 2, Out: &out}
	p.begin()
	p.terminal = true
	p.Set(1, "a long note")
	p.shown = time.Time{}
	p.Set(2, "short")
	p.Close()
	text := out.String()
	if got, want := strings.Count(text, "\r"), 3; got != want {
		t.Errorf("got %d rewrites in %q, want %d", got, text, want)
	}
	if got, want := strings.Count(text, "\n"), 1; got != want || !strings.HasSuffix(text, "\n") {
		t.Errorf("got %q, want one new line, at the end", text)
	}
	states := strings.Split(text, "\r")
	if utf8.RuneCountInString(states[2]) < utf8.RuneCountInString(states[1]) {
		t.Errorf("%q does not cover %q", states[2], states[1])
	}
}

// The time that is left is that of the steps that ran: what came before the first of
// them, such as compiling, is not in it.
func TestEstimate(t *testing.T) {
	now := time.Now()
	p := Progress{Total: 100, Out: io.Discard, start: now.Add(-time.Hour), first: now.Add(-10 * time.Second), warm: 10, done: 60}
	if got, want := p.after(), "60/100, 8.0 s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The bar of a training says how it ended, and is one line.
func TestTrainingBar(t *testing.T) {
	var out strings.Builder
	bar := &Progress{Title: "net", Total: 100, Out: &out}
	bar.begin()
	bar.terminal = true
	bar.setState(37, fit.Progress{Phase: "train", Epoch: 1, Epochs: 1, Step: 37, Steps: 100, Loss: 1, Left: 3 * time.Second}.String()+strings.Repeat(", metric 1", 20))
	bar.setState(37, "stopped at epoch 1/1, step 37/100")
	bar.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\r")
	if first := lines[0]; utf8.RuneCountInString(first) > 79 || !strings.HasPrefix(first, "net [========>...............] epoch 1/1, step 37/100, 3.0 s left, loss 1.0000…") {
		t.Errorf("got %q, want it in 79 columns", first)
	}
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "net [========>...............] stopped at epoch 1/1, step 37/100" {
		t.Errorf("got %q, want how it ended", last)
	}
}

// On a narrow page what stands between the epoch and the loss is shortened first.
func TestStateParts(t *testing.T) {
	for state, want := range map[string][4]string{
		"epoch 2/5, step 3/7, 9.2 s left, loss 0.07, accuracy 97.8 %, top 3 0.9": {"epoch 2/5, ", "step 3/7, 9.2 s left, ", "loss 0.07, ", "accuracy 97.8 %, top 3 0.9"},
		"epoch 2/5, validating, 3.0 s, loss 0.07":                                {"epoch 2/5, ", "validating, 3.0 s, ", "loss 0.07", ""},
		"epoch 1/5, compiling, 3.0 s":                                            {"epoch 1/5, ", "", "", "compiling, 3.0 s"},
		"37/100, 8.0 s left, of the third file":                                  {"37/100, ", "8.0 s left, ", "", "of the third file"},
		"37/100, 8.0 s left":                                                     {"37/100, ", "8.0 s left", "", ""},
		"":                                                                       {},
	} {
		if got := stateParts(state); got != want {
			t.Errorf("%q: got %q, want %q", state, got, want)
		}
	}
}

func TestProgressIsLimited(t *testing.T) {
	var out strings.Builder
	p := Progress{Out: &out}
	p.begin()
	p.terminal = true
	for i := range 100_000 {
		p.Set(i, "")
	}
	p.Close()
	most := int(time.Since(p.start)/renewal) + 2
	if got := strings.Count(out.String(), "\r"); got > most {
		t.Errorf("got %d drawings, want at most %d", got, most)
	}
}

func TestProgressOfAnything(t *testing.T) {
	for _, p := range []*Progress{{}, {Total: -1}, {Total: 5, done: 9}, {Total: 1 << 62}, {Title: "<b>\x00", note: "\n"}} {
		p.Out = io.Discard
		p.Set(3, "\x1b[2J<i>")
		p.Set(-3, "")
		wellFormed(t, p.html())
		if text := p.text(); strings.ContainsAny(text, "\x00\x1b\n\r") {
			t.Errorf("got %q, want no control characters", text)
		}
		p.Close()
	}
}

// TestMain lets this program be the cell of a notebook: a process of its own,
// which is where displays are lost if they are.
func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	if os.Getenv("REPORT_TEST_CELL") == "" {
		os.Exit(m.Run())
	}
	Show(Table{Title: "first"}, Plot{Title: "second"}, "plain")
	p := Progress{Title: "t", Total: 3}
	for i := range 3 {
		p.Set(i+1, "")
	}
	p.Close()
}

// In a notebook displays go through two named pipes, in gonbui's format. This
// is the kernel's end of them: it keeps what arrives and acknowledges Sync.
func TestShowInANotebook(t *testing.T) {
	dir := t.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	for _, pipe := range []string{there, back} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Skipf("no named pipes here (%v); run on Linux to see displays arrive", err)
		}
	}
	var output strings.Builder
	cell := exec.CommandContext(t.Context(), os.Args[0])
	cell.Env = append(os.Environ(), "REPORT_TEST_CELL=1", protocol.GONB_PIPE_ENV+"="+there, protocol.GONB_PIPE_BACK_ENV+"="+back)
	cell.Stdout, cell.Stderr = &output, &output
	start := time.Now()
	if err := cell.Start(); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(there)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(back, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var arrived []protocol.DisplayData
	syncs := 0
	decoder, encoder := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var data protocol.DisplayData
		if decoder.Decode(&data) != nil {
			break // the cell has ended
		}
		if sync, ok := data.Data[protocol.MIMECommValue].(protocol.CommValue); ok {
			syncs++
			encoder.Encode(&protocol.CommValue{Address: protocol.GonbuiSyncAckAddress, Value: sync.Value})
			continue
		}
		arrived = append(arrived, data)
	}
	if err := cell.Wait(); err != nil {
		t.Fatalf("the cell: %v\n%s", err, output.String())
	}
	if took := time.Since(start); syncs == 0 || took > time.Duration(syncs)*2*time.Second { // it gives up each after that
		t.Errorf("the cell took %v for %d times Sync, which were not acknowledged", took, syncs)
	}
	if got, want := output.String(), "plain\n"; got != want {
		t.Errorf("the cell printed %q, want %q", got, want)
	}
	if len(arrived) < 4 {
		t.Fatalf("got %d displays, want a table, a plot, and the first and the last state of a bar", len(arrived))
	}
	for i, want := range []string{"<table", "<svg", "1/3"} {
		rich, _ := arrived[i].Data[protocol.MIMETextHTML].(string)
		text, _ := arrived[i].Data[protocol.MIMETextPlain].(string)
		if !strings.Contains(rich, want) || text == "" {
			t.Errorf("display %d: got HTML %.60q and text %.60q, want %s and some text", i, rich, text, want)
		}
	}
	for _, d := range arrived[2:] {
		if d.DisplayID == "" || d.DisplayID != arrived[2].DisplayID {
			t.Errorf("got the bar in display %q, want %q again", d.DisplayID, arrived[2].DisplayID)
		}
	}
	if ended, _ := arrived[2].Data[mimeEnded].(string); !strings.Contains(ended, "ended at 1/3") {
		t.Errorf("first state: got %q for when the cell ends, want ended at 1/3", ended)
	}
	if arrived[len(arrived)-1].Data[mimeEnded] != nil {
		t.Error("the last state says what is shown instead of it")
	}
	if last, _ := arrived[len(arrived)-1].Data[protocol.MIMETextHTML].(string); !strings.Contains(last, "3/3") {
		t.Errorf("last state: got %q, want 3/3", last)
	}
}
