package fit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// errNoSandbox says that there is no session to try kernels in.
var errNoSandbox = errors.New("fit: kernels are tried in a session of their own, and there is none")

// sessionBinary is the program that serves the session; tests have another.
var sessionBinary = session.Binary

// sandboxMemory is the largest share of a GPU's memory that the sandbox takes: less than the
// quarter that XLA leaves free in the user's session.
const sandboxMemory = 0.2

// sandbox is a session on the devices of another one, to try kernels in. In the user's
// session a faulty kernel would end the worker, and each program that is loaded makes XLA
// rebuild the CUDA graphs of all others, which can make them slower.
type sandbox struct {
	*session.Session
	private *session.Private
}

// startSandbox starts a sandbox for a session. If keeps is set, the programs that it
// compiles stay on disk, where the session finds them.
func startSandbox(of *session.Session, keeps bool) (*sandbox, error) {
	bin, err := sessionBinary()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSandbox, err)
	}
	share := sandboxMemory
	if own, err := strconv.ParseFloat(os.Getenv("GAIDEN_MEMORY_FRACTION"), 64); err == nil {
		share = min(share, own)
	}
	env := []string{fmt.Sprint("GAIDEN_MEMORY_FRACTION=", share)}
	if keeps {
		env = append(env, "XDG_CACHE_HOME="+filepath.Dir(wire.CacheDir()))
	}
	p, err := session.StartPrivate(bin, of.Welcome().Plugin, env...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSandbox, err)
	}
	s, err := p.Open("tune", "gaiden tune")
	if err == nil {
		kind, versions := tiling.Device(s)
		if k, v := tiling.Device(of); kind != k || versions != v {
			s.Close()
			err = fmt.Errorf("it has %s, %s: want %s, %s", kind, versions, k, v)
		}
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("%w: %w", errNoSandbox, err)
	}
	return &sandbox{s, p}, nil
}

// end ends the sandbox.
func (a *sandbox) end() {
	a.Close()
	a.private.Close()
}

// explain says of an error that the sandbox was lost, if it was.
func (a *sandbox) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, _, gone := a.Pulse(); gone != nil {
		return fmt.Errorf("fit: in the session that kernels are tried in, next to the net's: %w", err)
	}
	return err
}

// clone is a net in this session whose steps are those of another one, with first weights
// of its own, and a copy of its data. What one finds out about kernels both know.
func (a *sandbox) clone(n *Net, data *Set) (*Net, *Set, error) {
	c := n.config
	c.Session, c.Origin = a.Session, "gaiden tune"
	t := New(n.name, n.model, c)
	t.table = n.tilings()
	if err := t.open(); err != nil {
		return nil, nil, err
	}
	t.target = n.target // a test's is not what the session has
	copied := *data
	copied.arrays = slices.Clone(data.arrays)
	for i := range copied.arrays {
		x := &copied.arrays[i].Array
		var err error
		if *x, err = a.copy(*x); err != nil {
			return nil, nil, fmt.Errorf("fit: %s: copy of %s: %w", n.name, data.Name, err)
		}
	}
	return t, &copied, nil
}

// copy is an array of another session in this one.
func (a *sandbox) copy(x *session.Array) (*session.Array, error) {
	shape, err := x.Shape()
	if err != nil {
		return nil, err
	}
	flat := dtypes.MakeAnySlice(shape.DType, shape.Size())
	if err := x.Values(flat); err != nil {
		return nil, err
	}
	return a.Put(flat, shape, 0)
}
