package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"unicode"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// benchGPT trains language models in bfloat16 next to their peers, which use cuDNN's attention.
func benchGPT(b *bench) error {
	return b.eachNet(gptCases, func(s *session.Session, c trainCase) error {
		if s.Welcome().Platform == "cpu" {
			return errors.New("got a session on a CPU, want a GPU: bench nets has language models for CPUs")
		}
		return b.compare(s, c, []string{"scan", "jit step", "compile", "CUDA graph of a compiled step", "compile max-autotune"})
	})
}

var gptCases = []trainCase{
	curved(gptCase("gpt2-b8", 12, 12, 768, 1024, 50304, 8)),
	gptCase("gpt2-b16", 12, 12, 768, 1024, 50304, 16),
	gptCase("gpt2-t16384-b1", 12, 12, 768, 16384, 50304, 1),
	gptCase("gpt2-medium-t4096-b2", 24, 16, 1024, 4096, 50304, 2),
	curved(gptCase("characters-b64", 6, 6, 384, 256, 96, 64)),
}

// curved compares the losses of 300 steps, too.
func curved(c trainCase) trainCase {
	c.curve = 300
	return c
}

// gptCase is GPT-2 (Radford et al., 2019) of other sizes.
func gptCase(name string, blocks, heads, width, length, vocab, batch int) trainCase {
	net := gpt(vocab, length, width, blocks, heads)
	net.Layers[len(net.Layers)-1] = models.Tied{Name: "head", Of: "tokens"}
	return trainCase{name: name, model: net, batch: batch, n: batch * 100, data: sentences(vocab), config: fit.Config{BF16: true, Optimizer: optim.AdamW{LearningRate: 6e-4, Beta2: 0.95, WeightDecay: 0.1}}}
}

// sentences are ids of which each has eight that may follow it, and as targets the ids that do:
// there is something to learn, so that curves of losses fall.
func sentences(vocab int) func(trainCase) fit.Data {
	return func(c trainCase) fit.Data {
		r := rand.New(rand.NewPCG(2, 0))
		var x, y []int32
		for range c.n {
			id := r.IntN(vocab)
			for range c.model.Input[0] {
				x = append(x, int32(id))
				id = (31*id + r.IntN(8)) % vocab
				y = append(y, int32(id))
			}
		}
		return fit.Data{X: x, Y: y, N: c.n}
	}
}

// keepKernels adds a table of the kernels that take longest, ms of a step, to a text next to the
// file of the records.
func (b *bench) keepKernels(title string, all []profile.Kernel, steps int) error {
	type row struct{ name, op, label string }
	seconds, count, total := map[row]float64{}, map[row]int{}, 0.0
	for _, k := range all {
		r := row{strings.TrimRight(k.Name, "_0123456789"), k.Op, strings.Map(digits, k.Label)}
		seconds[r], count[r], total = seconds[r]+k.Seconds, count[r]+1, total+k.Seconds
	}
	rows := slices.SortedFunc(maps.Keys(seconds), func(a, b row) int { return cmp.Compare(seconds[b], seconds[a]) })
	each := 1000 / float64(steps)
	text := fmt.Sprintf("%s: %.3f ms in %d kernels a step\n", title, total*each, len(all)/steps)
	for _, r := range rows[:min(60, len(rows))] {
		text += fmt.Sprintf("%9.3f ms  × %-6.4g %s | %s | %s\n", seconds[r]*each, float64(count[r])/float64(steps), r.name, r.op, r.label)
	}
	f, err := os.OpenFile(strings.TrimSuffix(b.out, ".json")+"-kernels.txt", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

// digits replaces the numbers of layers, so that all blocks are one row.
func digits(r rune) rune {
	if unicode.IsDigit(r) {
		return '#'
	}
	return r
}
