package jupyter

import "sync"

// queueLimit is the size of waiting requests at which a front end is no longer
// read from; ZeroMQ then keeps the rest on its side.
const queueLimit = 256 << 20 // bytes

// A request is a message that wants an answer.
type request struct {
	Message
	channel Channel
	serial  uint64 // counts the requests of a queue
	refused error  // why it is answered with an error; nil = it is handled
}

func (r request) size() int {
	n := len(r.RawHeader) + len(r.Parent) + len(r.Metadata) + len(r.Content)
	for _, b := range r.Buffers {
		n += len(b)
	}
	return n
}

// A queue holds requests in order of arrival. The zero queue is ready to use.
type queue struct {
	mu     sync.Mutex
	once   sync.Once
	change sync.Cond
	items  []request
	bytes  int
	last   uint64 // serial of the newest request
	closed bool
}

func (q *queue) lock() {
	q.once.Do(func() { q.change.L = &q.mu })
	q.mu.Lock()
}

// push adds a request, and waits first while the queue is very long. It reports
// false when the queue is closed.
func (q *queue) push(r request) bool {
	q.lock()
	defer q.mu.Unlock()
	for q.bytes > queueLimit && !q.closed {
		q.change.Wait()
	}
	if q.closed {
		return false
	}
	q.last++
	r.serial = q.last
	q.items = append(q.items, r)
	q.bytes += r.size()
	q.change.Broadcast()
	return true
}

// pop takes the oldest request, and waits for one. It reports false when the
// queue is closed.
func (q *queue) pop() (request, bool) {
	q.lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.change.Wait()
	}
	if q.closed {
		return request{}, false
	}
	r := q.items[0]
	q.items[0] = request{}
	q.items = q.items[1:]
	q.bytes -= r.size()
	q.change.Broadcast()
	return r, true
}

// newest is the serial of the newest request, waiting or taken.
func (q *queue) newest() uint64 {
	q.lock()
	defer q.mu.Unlock()
	return q.last
}

// drain closes the queue and returns what waits in it.
func (q *queue) drain() []request {
	q.lock()
	waiting := q.items
	q.mu.Unlock()
	q.close()
	return waiting
}

// close lets everyone go.
func (q *queue) close() {
	q.lock()
	defer q.mu.Unlock()
	q.closed = true
	q.items, q.bytes = nil, 0
	q.change.Broadcast()
}
