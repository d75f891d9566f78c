package hosts

import (
	"fmt"
	"io"
	"net/rpc"
	"sync"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// Store is the controller's key-value store. The zero Store is empty.
type Store struct {
	mu      sync.Mutex
	values  map[string][]byte
	err     error         // why no key will come any more
	changed chan struct{} // closed by the next change, nil where nobody waits
}

// Put sets a key. Whoever waits for it gets it.
func (s *Store) Put(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	s.values[key] = value
	s.wake()
	return s.err
}

// Fail ends all that wait for a key, now and later, with err: the node that should put it is
// lost. What comes after the first Fail is a consequence.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.wake()
}

func (s *Store) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Get waits that long for a key. Without one the error is pjrt.ErrNoKey.
func (s *Store) Get(key string, wait time.Duration) ([]byte, error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		s.mu.Lock()
		v, is := s.values[key]
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed, err := s.changed, s.err
		s.mu.Unlock()
		switch {
		case is:
			return v, nil
		case err != nil:
			return nil, err
		case wait <= 0:
			return nil, pjrt.ErrNoKey
		}
		select {
		case <-changed:
		case <-end.C:
			return nil, pjrt.ErrNoKey
		}
	}
}

// KeyValue is what a follower asks of the Store.
type KeyValue struct {
	Key   string
	Value []byte
	Wait  time.Duration
}

// Sign is a follower's sign of life.
type Sign struct {
	Devices []wire.DeviceInfo // its own; none before it has them
}

// served is the Store as package rpc wants it, for one follower.
type served struct {
	s     *Store
	heard func(Sign)
}

// Beat takes a sign of life. It does not wait behind the work that a follower was sent.
func (s served) Beat(sign Sign, _ *struct{}) error {
	s.heard(sign)
	return nil
}

func (s served) Put(kv KeyValue, _ *struct{}) error { return s.s.Put(kv.Key, kv.Value) }

func (s served) Get(kv KeyValue, v *[]byte) (err error) {
	*v, err = s.s.Get(kv.Key, kv.Wait)
	return err
}

// serve answers a follower until its connection ends. heard is called for each sign of life.
func (s *Store) serve(conn io.ReadWriteCloser, heard func(Sign)) {
	server := rpc.NewServer()
	if err := server.RegisterName("Store", served{s, heard}); err != nil {
		panic(err) // its methods are such as rpc wants
	}
	server.ServeConn(conn)
}

// RemoteStore is the controller's Store as a follower has it.
type RemoteStore struct{ client *rpc.Client }

// NewRemoteStore asks the Store that serves the other end of conn.
func NewRemoteStore(conn io.ReadWriteCloser) RemoteStore { return RemoteStore{rpc.NewClient(conn)} }

func (s RemoteStore) Put(key string, value []byte) error {
	return s.client.Call("Store.Put", KeyValue{Key: key, Value: value}, &struct{}{})
}

// Get waits that long for a key. Without one the error is pjrt.ErrNoKey.
func (s RemoteStore) Get(key string, wait time.Duration) (v []byte, err error) {
	if err = s.client.Call("Store.Get", KeyValue{Key: key, Wait: wait}, &v); err != nil && err.Error() == pjrt.ErrNoKey.Error() {
		err = pjrt.ErrNoKey
	}
	return v, err
}

// When a node at the other end of a connection is given up: so that with [DialTimeout], for
// what does not answer the next generation either, ten seconds are enough to continue.
var (
	heartbeat = time.Second
	silence   = 5 * time.Second
)

// Beat gives signs of life until the controller has gone or does not answer, and says so. sign
// must not wait for anything.
func (s RemoteStore) Beat(sign func() Sign) error {
	for {
		answer := make(chan error, 1)
		go func() { answer <- s.client.Call("Store.Beat", sign(), &struct{}{}) }()
		select {
		case err := <-answer:
			if err != nil {
				return fmt.Errorf("the controller has ended the connection: %w", err)
			}
		case <-time.After(silence):
			return fmt.Errorf("the controller has not answered for %v", silence)
		}
		time.Sleep(heartbeat)
	}
}
