package cell

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestSmokeRun(t *testing.T) {
	m := &Module{Dir: t.TempDir(), Library: ""}
	c := &Composer{Module: m, Memory: &Memory{}}
	b := &Builder{Module: m, Store: &Store{Dir: t.TempDir()}}
	n := 0
	for i, text := range []string{
		"fmt.Println(\"hi\")\nvar a []int\nfunc f(i int) int {\n\treturn a[i]\n}\nf(3)",
		"os.Exit(3)", "var s string\nfmt.Print(\"name? \")\nfmt.Scanln(&s)\nfmt.Println(\"hello\", s)",
		"sc := bufio.NewScanner(os.Stdin)\nfor sc.Scan() { fmt.Println(sc.Text()) }",
		"for {}", "signal.Ignore(os.Interrupt)\nfor { time.Sleep(time.Second) }",
		"exec.Command(\"setsid\", \"sleep\", \"100\").Start()",
		"c := exec.Command(\"setsid\", \"sleep\", \"100\")\nc.Stdout=os.Stdout\nc.Start()",
		"struct{A int; B string}{1,\"x\"}",
		"func r(n int) int { return r(n+1)+1 }\nr(0)",
	} {
		fmt.Println("-----", text)
		p, err := c.Compose(context.Background(), Source{ID: i + 1, Text: text})
		if err != nil {
			fmt.Println(err)
			continue
		}
		bin, cost, err := b.Build(context.Background(), p)
		if err != nil {
			fmt.Println(err)
			continue
		}
		c.Remember(p)
		ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
		cmd := Command{Path: bin.Path, Mark: fmt.Sprintf("smoke.%d", i), Go: true, Result: true, Linger: 300 * time.Millisecond,
			Stdout: func(b []byte) { fmt.Printf("out %q\n", b) }, Stderr: func(b []byte) { fmt.Printf("err %q\n", b) },
			Ask: func(context.Context) (string, error) {
				n++
				if n > 2 {
					return "", errors.New("no")
				}
				return "joe", nil
			}}
		start := time.Now()
		exit, err := cmd.Run(ctx)
		cancel()
		fmt.Println(exit, err, exit.Code, exit.Left, exit.Start, exit.Run, time.Since(start), cost)
		for k, v := range exit.Result {
			fmt.Println(k, string(v))
		}
		if exit.Panic != nil {
			fmt.Println("PANIC", exit.Panic.Message[:min(200, len(exit.Panic.Message))])
			fmt.Println(exit.Panic.Traceback(func(c, l int) string { return lineOf(p.unit.Text, l) }))
		}
	}
}
