package gaidenstack

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// left says on standard error how many goroutines that the cells' own code has
// started end with the program: a server or a loop would be gone without a word.
// Those that are about to end have a moment to do so.
func left() {
	var n int
	var all bool
	for range 10 {
		if runtime.NumGoroutine() == 1 {
			return
		}
		if n, all = started(); n == 0 {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	what := strconv.Itoa(n) + " goroutines of the cell were"
	if n == 1 {
		what = "1 goroutine of the cell was"
	}
	if !all {
		what = "more than " + what
	}
	os.Stderr.WriteString(what + " still running when the cell ended, and ended with it\n" +
		"    a server or a loop runs as long as its cell: let the cell wait for it (select {} at its end; Stop ends it); training that continues is a job: net.FitJob\n")
}

// started counts the goroutines of the cells' own code, besides the caller: those that
// run it, and those that main's goroutine has let one of the starters run something of
// a package. Of very many it does not see all.
func started() (n int, all bool) {
	text := make([]byte, 1<<20)
	end := runtime.Stack(text, true)
	_, others, _ := strings.Cut(string(text[:end]), "\n\n")
	for _, g := range strings.Split(others, "\n\n") {
		_, by, _ := strings.Cut(g, "\ncreated by ")
		by, _, _ = strings.Cut(by, "\n")
		ours := strings.HasPrefix(by, "main.") || strings.Contains(g, "\nmain.")
		for _, s := range starters {
			ours = ours || strings.HasPrefix(by, s) && strings.HasSuffix(by, " in goroutine 1")
		}
		if ours {
			n++
		}
	}
	return n, end < len(text)
}

// starters are functions of packages that start a goroutine for their caller.
var starters = []string{"sync.(*WaitGroup).Go", "golang.org/x/sync/errgroup.(*Group).", "net/http/httptest.(*Server)."}
