package fit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gaiden/lib/models"
)

func TestZZ(t *testing.T) {
	lib := models.KerasCNN()
	lib.Layers = append([]models.Layer{}, lib.Layers...)
	for i := range 2 {
		c := lib.Layers[i].(models.Conv2D)
		c.Lowering = models.Library
		lib.Layers[i] = c
	}
	s := open(t)
	for i, net := range []models.Net{without(models.KerasCNN()), without(lib)} {
		n := attach(t, s, fmt.Sprint("n", i), net, Config{})
		data := load(t, n, "d", digits(1280, net.Input, 1))
		p, err := n.Phases(context.Background(), data, 128)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			for _, f := range []struct {
				name string
				f    func() error
			}{{"next", p.Next}, {"forward", p.Forward}, {"loss", p.Loss}, {"backward", p.Backward}, {"update", p.Update}} {
				b := time.Now()
				if err := f.f(); err != nil {
					t.Fatal(err)
				}
				s.Wait()
				fmt.Println(i, k, f.name, time.Since(b))
			}
		}
	}
}
