package fit

import (
	"errors"
	"fmt"

	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// errAside says that there is no session to try kernels in.
var errAside = errors.New("fit: kernels are tried in a session of their own, and there is none")

// aside is startAside, but in tests.
var aside = startAside

// startAside starts a session on the devices of another one, to try kernels in; end ends it.
// In the user's own one a kernel that goes wrong would end the worker.
// And XLA makes the CUDA graphs of all programs anew after it has loaded another one: where
// a hundred were loaded on an H100, the driver then put SeedCNN's to where each of its kernels
// takes 0.2 µs longer, which lasted until others were loaded, by chance, or the session
// was started again.
func startAside(beside *session.Session) (s *session.Session, end func(), err error) {
	bin, err := session.Binary()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errAside, err)
	}
	p, err := session.StartPrivate(bin, beside.Welcome().Plugin)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errAside, err)
	}
	s, err = p.Open("tune", "gaiden tune")
	if err == nil {
		kind, versions := tiling.Device(s)
		if k, v := tiling.Device(beside); kind != k || versions != v {
			s.Close()
			err = fmt.Errorf("it has %s, %s: want %s, %s", kind, versions, k, v)
		}
	}
	if err != nil {
		p.Close()
		return nil, nil, fmt.Errorf("%w: %w", errAside, err)
	}
	return s, func() {
		s.Close()
		p.Close()
	}, nil
}
