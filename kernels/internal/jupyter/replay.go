package jupyter

import (
	"bytes"
	"cmp"
	"sync"
)

// remembered is how many signatures a server remembers, as jupyter_client does.
const remembered = 1 << 16

// A signatures remembers those of the newest messages, so that one who has captured a
// signed message cannot have it executed again. The zero value remembers none yet.
type signatures struct {
	mu    sync.Mutex
	known map[string]bool
	ring  []string // the oldest at next once it is full
	next  int
	limit int // 0 = remembered
}

// add notes a signature, and reports false if it is known. An empty one, of a
// connection without a key, is never known.
func (s *signatures) add(signature []byte) bool {
	if len(signature) == 0 {
		return true
	}
	text := string(bytes.ToLower(signature)) // hexadecimal digits in either case are the same signature
	limit := cmp.Or(s.limit, remembered)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[text] {
		return false
	}
	if s.known == nil {
		s.known = map[string]bool{}
	}
	s.known[text] = true
	if len(s.ring) < limit {
		s.ring = append(s.ring, text)
		return true
	}
	delete(s.known, s.ring[s.next])
	s.ring[s.next] = text
	s.next = (s.next + 1) % limit
	return true
}
