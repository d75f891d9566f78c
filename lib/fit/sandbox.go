package fit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// errNoSandbox says that there is no session to try kernels in.
var errNoSandbox = errors.New("fit: kernels are tried in a session of their own, and there is none")

// sessionBinary is whose session that is: gaiden's, but in tests.
var sessionBinary = session.Binary

// sandboxMemory is how much of a GPU's memory that session takes at most: XLA leaves a
// quarter to others, so that the user's never lacks what this one has.
const sandboxMemory = 0.2

// sandbox is a session on the devices of another one, to try kernels in.
// In the user's own one a kernel that goes wrong would end the worker.
// And XLA makes the CUDA graphs of all programs anew after it has loaded another one: where
// a hundred were loaded on an H100, the driver then put SeedCNN's to where each of its kernels
// takes 0.2 µs longer, which lasted until others were loaded, by chance, or the session
// was started again.
type sandbox struct {
	*session.Session
	private *session.Private
}

// startSandbox starts one. Programs that it compiles are kept on the disk, where the other
// one finds them, if keeps, and else are gone when it has ended.
func startSandbox(beside *session.Session, keeps bool) (*sandbox, error) {
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
	p, err := session.StartPrivate(bin, beside.Welcome().Plugin, env...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSandbox, err)
	}
	s, err := p.Open("tune", "gaiden tune")
	if err == nil {
		kind, versions := tiling.Device(s)
		if k, v := tiling.Device(beside); kind != k || versions != v {
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

// end ends it.
func (a *sandbox) end() {
	a.Close()
	a.private.Close()
}

// explain says of an error that it was this session that was lost, if it was.
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
	for _, x := range []**session.Array{&copied.x, &copied.y, &copied.v} {
		if *x == nil {
			continue
		}
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
