package cell

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	m := &Module{Dir: t.TempDir(), Library: ""}
	c := &Composer{Module: m, Memory: &Memory{}}
	b := &Builder{Module: m, Store: &Store{Dir: t.TempDir()}}
	for i, text := range []string{
		"fmt.Println(\"hi\")", "x := 3\nx+1", "func f(n int) int { return n*n }", "f(12)", "func g() (int, error) { return 1, nil }\nvar q = f(3)", "q",
		"strings.ToUpper(\"abc\")", "strings.ToUpper(\"abd\")", "json.Marshal(map[string]int{\"a\":1})", "rand.IntN(5)", "y + q", "q := \"a\" + 1", "for i := 0; i < 3; i++ {\n fmt.Println(i)\n", "strngs.ToLower(\"\")", "fmt.Println(\"hi\")",
	} {
		start := time.Now()
		p, err := c.Compose(context.Background(), Source{ID: i + 1, Text: text})
		d := time.Since(start)
		fmt.Println("----", text, d)
		if err != nil {
			fmt.Println(err)
			continue
		}
		if !p.Run {
			c.Remember(p)
			continue
		}
		bin, cost, err := b.Build(context.Background(), p)
		if err != nil {
			fmt.Println(err)
			continue
		}
		c.Remember(p)
		fmt.Println(cost)
		out, err := exec.Command(bin.Path).CombinedOutput()
		fmt.Println(string(out), err)
	}
}
