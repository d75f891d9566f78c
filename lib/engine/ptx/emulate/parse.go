package emulate

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// program is a kernel's text, decoded.
type program struct {
	code       []instruction
	lines      []string // of the text, for messages
	parameters int
	words      int          // registers of each kind that a thread has
	addresses  int          //
	conditions int          //
	constants  [][32]uint32 // which are called by ^index
}

// instruction is a line. Registers are numbers, a constant is ^ its number.
type instruction struct {
	code   code
	not    bool  // where the guard is false
	guard  int32 // the condition's register, -1 for always
	n      int32 // words of memory, a parameter's number, or the place to go on
	line   int32 // in the text, from 1
	offset int64 // of an address
	at     [14]int32
}

// operation is an instruction's number and what follows its name: R, D and P are
// registers that it sets, r, d and p those that it reads, where r may be a constant;
// g and s are addresses in global and in shared memory, a is a parameter, l a label,
// x a register of the device's; c and f are the constants 31 and all ones.
type operation struct {
	code code
	form string
}

var operations = map[string]operation{
	"ld.param.u64": {parameter, "Da"}, "cvta.to.global.u64": {movAddress, "Dd"},
	"mov.u32": {mov, "Rx"}, "mov.b32": {mov, "Rr"}, "mov.f32": {mov, "Rr"}, "mov.b64": {movAddress, "Dd"}, "mov.pred": {movCondition, "Pp"},
	"add.u32": {add, "Rrr"}, "sub.u32": {sub, "Rrr"}, "mul.lo.u32": {mul, "Rrr"}, "mad.lo.u32": {mad, "Rrrr"},
	"min.u32": {least, "Rrr"}, "min.s32": {leastSigned, "Rrr"}, "max.u32": {most, "Rrr"},
	"and.b32": {and, "Rrr"}, "or.b32": {or, "Rrr"}, "xor.b32": {xor, "Rrr"}, "shl.b32": {shl, "Rrr"}, "shr.u32": {shr, "Rrr"},
	"and.pred": {andCondition, "Ppp"}, "or.pred": {orCondition, "Ppp"}, "xor.pred": {xorCondition, "Ppp"}, "not.pred": {notCondition, "Pp"},
	"mul.hi.u32":   {high, "Rrr"},
	"mul.wide.u32": {mulWide, "Drr"}, "mad.wide.u32": {madWide, "Drrd"},
	"add.u64": {addAddress, "Ddd"},
	"add.f32": {addFloat, "Rrr"}, "sub.f32": {subFloat, "Rrr"}, "mul.f32": {mulFloat, "Rrr"}, "fma.rn.f32": {fma, "Rrrr"},
	"min.f32": {leastFloat, "Rrr"}, "max.f32": {mostFloat, "Rrr"}, "cvt.rn.f32.u32": {toFloat, "Rr"},
	"rsqrt.approx.ftz.f32": {rsqrt, "Rr"}, "rcp.approx.ftz.f32": {rcp, "Rr"}, "ex2.approx.ftz.f32": {ex2, "Rr"}, "lg2.approx.ftz.f32": {lg2, "Rr"},
	"setp.lt.u32": {less, "Prr"}, "setp.gt.u32": {greater, "Prr"}, "setp.eq.u32": {equal, "Prr"},
	"setp.lt.f32": {lessFloat, "Prr"}, "setp.gt.f32": {greaterFloat, "Prr"}, "setp.eq.f32": {equalFloat, "Prr"},
	"selp.b32": {choose, "Rrrp"}, "selp.f32": {choose, "Rrrp"},
	"ld.global.cg.b32": {load, "Rg"}, "ld.global.cg.v2.b32": {load, "{RR}g"}, "ld.global.cg.v4.b32": {load, "{RRRR}g"},
	"st.global.cg.b32": {store, "gr"}, "st.global.cg.v2.b32": {store, "g{rr}"}, "st.global.cg.v4.b32": {store, "g{rrrr}"},
	"ld.shared.b32": {loadShared, "Rs"}, "ld.shared.v2.b32": {loadShared, "{RR}s"}, "ld.shared.v4.b32": {loadShared, "{RRRR}s"},
	"st.shared.b32": {storeShared, "sr"}, "st.shared.v2.b32": {storeShared, "s{rr}"}, "st.shared.v4.b32": {storeShared, "s{rrrr}"},
	"red.release.gpu.global.add.u32": {release, "gr"}, "ld.acquire.gpu.global.u32": {acquire, "Rg"},
	"bar.sync": {barrier, "0"}, "bra": {branch, "l"}, "trap": {trap, ""}, "ret": {end, ""},
	"shfl.sync.bfly.b32": {other, "Rrrcf"}, "shfl.sync.idx.b32": {of, "Rrrcf"},
	"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32":  {dot, "{RRRR}{rrrr}{rr}{rrrr}"},
	"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":   {dotHalves, "{RRRR}{rrrr}{rr}{rrrr}"},
	"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": {dotBrain, "{RRRR}{rrrr}{rr}{rrrr}"},
	"cvt.rn.f16x2.f32": {halves, "Rrr"}, "cvt.rn.bf16x2.f32": {brains, "Rrr"},
	"ldmatrix.sync.aligned.m8n8.x2.shared.b16":       {matrices, "{RR}s"},
	"ldmatrix.sync.aligned.m8n8.x4.shared.b16":       {matrices, "{RRRR}s"},
	"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16": {turned, "{RR}s"},
	"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": {turned, "{RRRR}s"},
}

var (
	lineOf    = regexp.MustCompile(`^(?:@(!?)%p(\d+) )?([a-z][a-z0-9.]*)(?: (.+))?;$`)
	tokenOf   = regexp.MustCompile(`[{}]|[^,{}\s]+`)
	addressOf = regexp.MustCompile(`^\[(%?\w+)(?:\+(-?\d+))?\]$`)
	fileOf    = regexp.MustCompile(`^\.reg \.(b32|b64|pred) %([rdp])<(\d+)>;$`)
	labelOf   = regexp.MustCompile(`^(L\d+):$`)
)

// parser turns lines into instructions.
type parser struct {
	*program
	files  map[byte]int // how many registers of a kind are declared
	labels map[string]int32
	jumps  map[int]string // the instructions that want a label's place
	forms  [][]byte       // what each instruction's registers are, R, r, D, d, P or p
	known  map[uint32]int32
}

func parse(text string) (*program, error) {
	p := &parser{program: &program{lines: strings.Split(text, "\n")}, files: map[byte]int{},
		labels: map[string]int32{}, jumps: map[int]string{}, known: map[uint32]int32{}}
	for i, line := range p.lines {
		line = strings.TrimSpace(line)
		p.lines[i] = line
		file, label := fileOf.FindStringSubmatch(line), labelOf.FindStringSubmatch(line)
		switch {
		case file != nil:
			p.files[file[2][0]], _ = strconv.Atoi(file[3])
		case label != nil:
			p.labels[label[1]] = int32(len(p.code))
		case strings.HasPrefix(line, ".visible .entry"):
			p.parameters = strings.Count(line, ".param .u64")
		case line == "" || line == "{" || line == "}" || line[0] == '.' || strings.HasPrefix(line, "//"):
		default:
			if err := p.instruction(line, i+1); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", i+1, line, err)
			}
		}
	}
	for i, name := range p.jumps {
		to, is := p.labels[name]
		if !is {
			return nil, fmt.Errorf("line %d: %s: got label %s, want one of the text", p.code[i].line, p.lines[p.code[i].line-1], name)
		}
		p.code[i].n = to
	}
	p.pack()
	return p.program, nil
}

func (p *parser) instruction(line string, number int) error {
	m := lineOf.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("got this, want a guard, a name, operands and a semicolon")
	}
	o, is := operations[m[3]]
	if !is {
		return fmt.Errorf("got %s, want an instruction of package ptx", m[3])
	}
	in := instruction{code: o.code, not: m[1] != "", guard: -1, line: int32(number)}
	if m[2] != "" {
		g, err := p.register("%p"+m[2], 'p')
		if err != nil {
			return err
		}
		in.guard = g
	}
	tokens := tokenOf.FindAllString(m[4], -1)
	if len(tokens) != len(o.form) {
		return fmt.Errorf("got %d operands, want %d", len(tokens), len(o.form))
	}
	n := 0
	form := []byte{}
	for i, t := range tokens {
		var at int32
		var err error
		switch f := o.form[i]; f {
		case 'R', 'D', 'P':
			at, err = p.register(t, f+'a'-'A')
		case 'd', 'p':
			at, err = p.register(t, f)
		case 'r':
			at, err = p.word(t)
		case 'g', 's', 'a':
			at, err = p.address(t, f, &in)
		case 'x':
			switch t {
			case "%tid.x":
				in.code = threadID
			case "%ctaid.x":
				in.code = blockID
			case "shared":
				at = p.constant(0)
			default:
				at, err = p.word(t)
			}
		case 'l':
			p.jumps[len(p.code)] = t
		default:
			if want := map[byte]string{'c': "31", 'f': "4294967295"}[f]; t != want && t != string(f) {
				return fmt.Errorf("got operand %s, want %s", t, cmp.Or(want, string(f)))
			}
			continue
		}
		if err != nil {
			return err
		}
		in.at[n] = at
		n++
		if use, is := map[byte]byte{'g': 'd', 's': 'r', 'x': 'r'}[o.form[i]]; is {
			form = append(form, use)
		} else {
			form = append(form, o.form[i])
		}
	}
	switch in.code {
	case load, store, loadShared, storeShared, matrices, turned:
		in.n = int32(n - 1)
	}
	p.code, p.forms = append(p.code, in), append(p.forms, form)
	return nil
}

// register is the number of one that is declared.
func (p *parser) register(s string, file byte) (int32, error) {
	digits, is := strings.CutPrefix(s, "%"+string(file))
	n, err := strconv.Atoi(digits)
	if !is || err != nil || n < 0 || n >= p.files[file] {
		return 0, fmt.Errorf("got operand %s, want one of %d registers %%%c", s, p.files[file], file)
	}
	return int32(n), nil
}

// word is a register of 32 bits or a constant.
func (p *parser) word(s string) (int32, error) {
	if strings.HasPrefix(s, "%") {
		return p.register(s, 'r')
	}
	digits, base := s, 10
	if bits, float := strings.CutPrefix(s, "0f"); float {
		digits, base = bits, 16
	}
	x, err := strconv.ParseUint(digits, base, 32)
	if err != nil || base == 16 && len(digits) != 8 {
		return 0, fmt.Errorf("got operand %s, want a register %%r or a constant", s)
	}
	return p.constant(uint32(x)), nil
}

func (p *parser) constant(x uint32) int32 {
	i, is := p.known[x]
	if !is {
		i = ^int32(len(p.constants))
		var row [32]uint32
		for lane := range row {
			row[lane] = x
		}
		p.known[x], p.constants = i, append(p.constants, row)
	}
	return i
}

// address is a register, with an offset that in keeps, or a parameter.
func (p *parser) address(s string, space byte, in *instruction) (at int32, err error) {
	m := addressOf.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("got operand %s, want an address", s)
	}
	if m[2] != "" {
		if in.offset, err = strconv.ParseInt(m[2], 10, 32); err != nil {
			return 0, fmt.Errorf("got offset %s, want 32 bits", m[2])
		}
	}
	switch space {
	case 'g':
		return p.register(m[1], 'd')
	case 's':
		return p.word(m[1])
	}
	n, err := strconv.Atoi(strings.TrimPrefix(m[1], "p"))
	if err != nil || n < 0 || n >= p.parameters {
		return 0, fmt.Errorf("got operand %s, want one of %d parameters", s, p.parameters)
	}
	in.n = int32(n)
	return 0, nil
}
