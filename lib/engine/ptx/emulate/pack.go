package emulate

// A text has a new register for each value, thousands where loops are unrolled, and
// a device has 1,000 warps. pack gives one place after the other to registers
// that live only between two labels or branches, as an assembler does.
func (p *parser) pack() {
	starts := map[int]bool{}
	for _, to := range p.labels {
		starts[int(to)] = true
	}
	pieces, piece := make([]int, len(p.code)), 0
	for i := range p.code {
		if starts[i] || i > 0 && p.code[i-1].code == branch {
			piece++
		}
		pieces[i] = piece
	}
	p.words = p.rename('r', pieces)
	p.addresses = p.rename('d', pieces)
	p.conditions = p.files['p']
}

// life is where the text has a register.
type life struct {
	last  int  // instruction
	seen  bool //
	whole bool // it has a place for itself
	place int32
}

// rename packs the registers of a kind, and returns how many places there are.
func (p *parser) rename(kind byte, pieces []int) (places int) {
	set := kind - 'a' + 'A'
	lives := make([]life, p.files[kind])
	for i, in := range p.code {
		for _, reads := range []bool{true, false} { // an instruction reads before it sets
			for n, f := range p.forms[i] {
				if f != set && f != kind || (f == kind) != reads || in.at[n] < 0 {
					continue
				}
				l := &lives[in.at[n]]
				if !l.seen && (reads || in.guard >= 0) || l.seen && pieces[i] != pieces[l.last] {
					l.whole = true
				}
				l.last, l.seen = i, true
			}
		}
	}
	for r := range lives {
		if lives[r].whole {
			lives[r].place = int32(places)
			places++
		}
	}
	var free []int32
	given := make([]bool, len(lives))
	for i := range p.code {
		in := &p.code[i]
		var over []int32
		for n, f := range p.forms[i] {
			if f != set && f != kind || in.at[n] < 0 {
				continue
			}
			r := in.at[n]
			l := &lives[r]
			if !l.whole && !given[r] {
				given[r] = true
				if len(free) == 0 {
					free = append(free, int32(places))
					places++
				}
				l.place, free = free[len(free)-1], free[:len(free)-1]
			}
			if !l.whole && l.last == i {
				over = append(over, r)
				l.last = -1 // once
			}
			in.at[n] = l.place
		}
		for _, r := range over {
			free = append(free, lives[r].place)
		}
	}
	return places
}
