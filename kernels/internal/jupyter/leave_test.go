package jupyter

import "testing"

// A cell is told of those of other pages, whether they came before it began or after.
func TestLeave(t *testing.T) {
	s := &shell{core: &core{}}
	closed := func(left <-chan struct{}) bool {
		select {
		case <-left:
			return true
		default:
			return false
		}
	}
	s.arrived("a")
	first := s.begins("a")
	if s.arrived("a"); closed(first) {
		t.Error("a cell of the same page has closed it")
	}
	if s.arrived("b"); !closed(first) {
		t.Error("a cell of another page has not closed it")
	}
	s.arrived("b")
	if second := s.begins("a"); !closed(second) {
		t.Error("it is open though a cell of another page waits")
	}
	if third := s.begins("b"); closed(third) {
		t.Error("it is closed though only a cell of the same page waits")
	}
}
