package tiling

import (
	"errors"

	"gaiden/lib/session"
)

// disturbed is how often something is measured where others are at work in the session.
const disturbed = 5

// errDisturbed ends a measurement that others are in the way of, and it of theirs.
var errDisturbed = errors.New("tiling: somebody else is at work in the session")

// Alone measures something when nobody else asks the session for anything meanwhile: what
// others do makes a kernel look slow, and one during whose idle loop they did it takes no
// time at all. before is called first, and again each time that there was somebody; work
// asks alone from time to time, and ends with its error, so that others need not wait for
// what does not count. Where there is always somebody, the last time stands, which alone
// lets come to its end.
//
// own is the error of work, err one of before or of the session.
func Alone[T any](s *session.Session, before func() error, work func(alone func() error) (T, error)) (found T, own, err error) {
	for try := range disturbed {
		if err := before(); err != nil {
			return found, nil, err
		}
		asked, _, err := s.Pulse()
		if err != nil {
			return found, nil, err
		}
		alone := func() error {
			now, busy, err := s.Pulse()
			if err == nil && (now != asked || busy) {
				return errDisturbed
			}
			return err
		}
		last := try == disturbed-1
		found, own = work(func() error {
			if last {
				return nil
			}
			return alone()
		})
		if own == nil && !last {
			own = alone() // where the session is lost, that may have been the work's doing
		}
		if !errors.Is(own, errDisturbed) {
			return found, own, nil
		}
	}
	return found, own, nil
}
