package trial

import (
	"fmt"
	"time"
)

// once is the ways of what has but one.
var once = []string{""}

// walk goes from net to net, and with each through the ways of training it; "" is a net's
// only one. do is given those whose name, with the way's behind it, is wanted, and says
// whether all was as it should be; none is begun after the budget. The report is saved after
// each: the next may be the last. The error says how many were bad, and that this means.
func (r *report) walk(set settings, nets []training, ways []string, means string, do func(t training, way string) (good bool)) error {
	began := time.Now()
	bad, left := 0, 0
	for _, t := range nets {
		for _, way := range ways {
			name := t.name
			if way != "" {
				name += ", " + way
			}
			if !set.only.MatchString(name) {
				continue
			}
			if time.Since(began) > set.budget {
				left++
				continue
			}
			if !do(t, way) {
				fmt.Printf("%-20s BAD\n", name)
				bad++
			}
			if err := r.save(set.json); err != nil {
				return err
			}
		}
	}
	if left > 0 {
		fmt.Printf("the budget is spent, and %d nets are left\n", left)
	}
	if bad > 0 {
		return fmt.Errorf("%d %s, or failed", bad, means)
	}
	return nil
}
