package notebook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// full reports whether the long versions of tests are wanted.
func full() bool { return os.Getenv("GAIDEN_TEST_FULL") != "" }

// TestRandomCells: a kernel survives cells of all kinds, made from a grammar and
// broken at random; each is answered within ten seconds, or stops when it is told
// to. GAIDEN_TEST_SEED repeats a run.
func TestRandomCells(t *testing.T) {
	cells := 40
	if full() {
		cells = 500
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("GAIDEN_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("GAIDEN_TEST_SEED=%d", seed)
	g := &grammar{Rand: rand.New(rand.NewPCG(seed, 0))}
	n := newNotebook(t)
	kernel := jupytertest.Start(t, n, jupyter.Options{})
	client := jupytertest.Connect(t, kernel.Connection)
	outcomes := map[string]int{}
	for i := range cells {
		known := slices.Clone(g.known)
		code, endless := g.cell()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		id, err := client.Send(jupyter.Shell, "execute_request", map[string]any{"code": code, "allow_stdin": false, "store_history": true})
		if err != nil {
			t.Fatal(err)
		}
		limit := 10 * time.Second
		if endless {
			limit = time.Duration(g.IntN(1000)) * time.Millisecond
		}
		// Go sees that nobody can go on only where no other goroutine waits for
		// something from outside, as that of gonbui does.
		waits := strings.Contains(code, "Goexit") || strings.Contains(code, "select {}")
		stop := time.AfterFunc(limit, func() {
			if !endless && !waits {
				t.Errorf("cell %d of seed %d has not ended after %v:\n%s", i, seed, limit, code)
			}
			client.Request(ctx, jupyter.Control, "interrupt_request", map[string]any{})
		})
		answer, err := client.Wait(ctx, id)
		stop.Stop()
		cancel()
		if err != nil {
			t.Fatalf("cell %d of seed %d: %v\n%s", i, seed, err, code)
		}
		name, _ := frontend.Content(answer.Reply)["ename"].(string)
		outcomes[answer.Status()+" "+name]++
		if answer.Status() != "ok" {
			g.known = known // what it defined is not there
		} else if strings.HasPrefix(code, "%reset") {
			g.known = nil
		}
		if name == "KernelPanic" || name == nameKernel {
			t.Errorf("cell %d of seed %d: %v\n%s", i, seed, frontend.Content(answer.Reply)["traceback"], code)
		}
		if types := answer.Types(); types[0] != "busy" || types[len(types)-1] != "idle" {
			t.Errorf("cell %d of seed %d: got %q, want busy first and idle last", i, seed, types)
		}
	}
	t.Log(outcomes)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := client.Execute(ctx, "%reset\n6 * 7")
	if err != nil || len(answer.Shown("execute_result", "text/plain")) != 1 || answer.Shown("execute_result", "text/plain")[0] != "42" {
		t.Errorf("in the end got %v, %v; want 42", answer.Types(), err)
	}
}

// A grammar makes cells.
type grammar struct {
	*rand.Rand
	known []string // variables of type int that should be there
}

// valid returns statements that compile, unless a name was taken for something
// else meanwhile.
func (g *grammar) valid() string {
	number := func() string {
		if len(g.known) > 0 && g.IntN(2) == 0 {
			return g.pick(g.known...)
		}
		return strconv.Itoa(g.IntN(100))
	}
	sum := func() string { return number() + g.pick(" + ", " - ", " * ") + number() }
	var lines []string
	own := map[string]bool{}
	define := func(name, before, value string) {
		if !own[name] {
			lines = append(lines, before+value)
			own[name], g.known = true, append(g.known, name)
		}
	}
	for range 1 + g.IntN(4) {
		switch g.IntN(9) {
		case 0, 1:
			name := "n" + strconv.Itoa(g.IntN(6))
			define(name, name+" := ", sum())
		case 2:
			name := "v" + strconv.Itoa(g.IntN(6))
			define(name, "var "+name+" = ", number())
		case 3:
			lines = append(lines, "fmt.Println("+sum()+")")
		case 4:
			lines = append(lines, "for i := range "+strconv.Itoa(g.IntN(100))+" {\n\tfmt.Print(i, "+sum()+")\n}")
		case 5:
			lines = append(lines, "func() {\n\tdefer func() { recover() }()\n\tpanic("+sum()+")\n}()")
		case 6:
			lines = append(lines, "type S"+strconv.Itoa(g.IntN(3))+" struct{ A, b "+g.pick("int", "string")+" }")
		case 7:
			lines = append(lines, "gonbui.DisplayHTML(fmt.Sprint("+sum()+"))")
		case 8:
			lines = append(lines, "_ = []int{"+sum()+"}["+strconv.Itoa(g.IntN(2))+"]")
		}
	}
	return strings.Join(append(lines, sum()), "\n")
}

func (g *grammar) pick(of ...string) string { return of[g.IntN(len(of))] }

// name returns one of few names, so that cells meet.
func (g *grammar) name() string { return g.pick("a", "b", "c", "x", "y", "f", "T", "größe") }

func (g *grammar) expression(depth int) string {
	if depth > 3 {
		return g.pick("1", "2.5", `"s"`, "'r'", "nil", "true", g.name())
	}
	e := func() string { return g.expression(depth + 1) }
	switch g.IntN(12) {
	case 0:
		return e() + g.pick(" + ", " * ", " - ", " / ", " % ", " == ", " && ") + e()
	case 1:
		return "[]int{" + strings.Repeat("1, ", g.IntN(4)) + "}"
	case 2:
		return "map[string]int{" + `"k": ` + e() + "}"
	case 3:
		return g.name() + "(" + e() + ")"
	case 4:
		return "func(i int) int { return i }"
	case 5:
		return "make(chan int)"
	case 6:
		return g.name() + "[" + e() + "]"
	case 7:
		return g.pick("strings.ToUpper", "len", "fmt.Sprint", "cap", "strconv.Itoa", "nosuch.Thing") + "(" + e() + ")"
	case 8:
		return "&" + g.name()
	case 9:
		return "*" + g.name()
	default:
		return g.pick("1", "2.5", `"s"`, "'r'", "nil", "true", "1 << 62", "-1", "`raw`", g.name())
	}
}

func (g *grammar) statement(depth int) string {
	if depth > 2 {
		return "fmt.Println(" + g.expression(2) + ")"
	}
	block := func() string { return "{\n\t" + g.statement(depth+1) + "\n}" }
	switch g.IntN(16) {
	case 0, 1, 2:
		return g.name() + " := " + g.expression(0)
	case 3:
		return g.name() + g.pick(" = ", " += ", " -= ") + g.expression(1)
	case 4:
		return "var " + g.name() + g.pick(" int", " = "+g.expression(1), " []T", " map[string]any")
	case 5:
		return "for i := range " + strconv.Itoa(g.IntN(50)) + " " + block()
	case 6:
		return "if " + g.expression(2) + " " + block() + g.pick("", " else "+block())
	case 7:
		return "func " + g.name() + "(i int) int " + g.pick(block(), "{ return i }", "{ return f(i) }")
	case 8:
		return "type " + g.name() + g.pick(" int", " struct{ A, b int }", " = string", " []T", " interface{ M() }")
	case 9:
		return g.pick("panic(1)", "os.Exit(3)", "var p *int; *p = 1", "select {}", "runtime.Goexit()", "syscall.Kill(os.Getpid(), 9)")
	case 10:
		return "go func() " + block() + "()"
	case 11:
		return "gonbui.DisplayHTML(" + g.pick(`"<b>x</b>"`, g.expression(2)) + ")"
	case 12:
		return "fmt.Print(strings.Repeat(\"x\", " + strconv.Itoa(g.IntN(1_000_000)) + "))"
	case 13:
		return "switch " + g.expression(2) + " {\ncase " + g.expression(3) + ":\n\t" + g.statement(depth+1) + "\n}"
	case 14:
		return "defer fmt.Println(" + g.expression(2) + ")"
	default:
		return g.expression(0)
	}
}

// cell returns a cell, and whether it may run until it is stopped.
func (g *grammar) cell() (code string, endless bool) {
	switch g.IntN(18) {
	case 12, 13, 14, 15, 16, 17:
		return g.valid(), false
	case 0:
		return g.pick("%who", "%whos", "%list", "%help", "%env A=1", "%cd", "%nosuch", "%rm "+g.name(), "%del "+g.name(), "%reset", "%tb", "%cost",
			"%%writefile\n", "%%bash\necho $((1+", "!echo shell", "!exit 3", "!*ls", "%args a b", "%test", "%exec "+g.name(), "fmt?", g.name()+"?", "%clear -w", "%%", "% ", "!"), false
	case 1:
		return g.soup(), false
	case 2:
		endings := []string{"for {\n}", "for {\n\tfmt.Println(1)\n}", "select {\ncase <-time.After(time.Hour):\n}", "signal.Ignore(os.Interrupt)\nselect {\ncase <-time.After(time.Hour):\n}"}
		return g.statement(1) + "\n" + g.pick(endings...), true
	}
	var lines []string
	for range 1 + g.IntN(5) {
		lines = append(lines, g.statement(0))
	}
	code = strings.Join(lines, g.pick("\n", "\n\n", "; "))
	switch g.IntN(6) {
	case 0:
		code = g.pick("%%\n", "%% a b\n", "package p\n", "import \"fmt\"\n", "//gonb:%%\n", "func main() {\n") + code
	case 1:
		code = g.broken(code)
	}
	return code, false
}

// soup is tokens in no order.
func (g *grammar) soup() string {
	var b strings.Builder
	for range 1 + g.IntN(30) {
		b.WriteString(g.pick("{", "}", "(", ")", "[", "]", ";", ":=", "=", "func", "type", "var", "for", "go", "import", `"`, "`", "'", "/*", "*/", "//", "%%", "x", "1", "<-", "...", ".", "case", "\x00", "\xff", "世", "\r"))
		b.WriteString(g.pick(" ", "\n", ""))
	}
	return b.String()
}

// broken removes, doubles or changes a piece of a cell.
func (g *grammar) broken(code string) string {
	from := g.IntN(len(code))
	to := min(from+1+g.IntN(10), len(code))
	switch g.IntN(3) {
	case 0:
		return code[:from] + code[to:]
	case 1:
		return code[:to] + code[from:]
	}
	return code[:from] + fmt.Sprintf("%c", g.IntN(0x3000)) + code[to:]
}
