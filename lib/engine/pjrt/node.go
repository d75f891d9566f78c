//lint:file-ignore U1000 structs have all fields of C's, also those that are not set

package pjrt

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Node makes a client one of several processes, on one host or on several, that compute
// together. Each of them sees the devices of all. A program for devices of several nodes
// must be compiled and executed by each of these nodes, and all of them must execute such
// programs in one order.
type Node struct {
	ID, Count int // of the process, and how many there are
	Store     Store
}

// Store is the key-value store of all nodes of a client: the plugins leave there what their
// peers need in order to reach them. Threads of XLA call it, several at once.
type Store interface {
	Put(key string, value []byte) error
	// Get waits that long until key is there. Without it the error is ErrNoKey.
	Get(key string, wait time.Duration) ([]byte, error)
}

// ErrNoKey says that a key is not in a Store, or did not come in time.
var ErrNoKey = errors.New("no such key in the store")

// stores finds the Store of a client by the number that plugins call back with, since C
// holds no Go pointers.
var stores struct {
	once             sync.Once
	get, put, tryGet uintptr

	mu    sync.Mutex // protects what follows
	last  uintptr
	table map[uintptr]Store
}

// register makes s known to the callbacks, whose addresses are in stores afterwards.
func register(s Store) uintptr {
	stores.once.Do(func() {
		stores.table = map[uintptr]Store{}
		stores.get, stores.put, stores.tryGet = purego.NewCallback(storeGet), purego.NewCallback(storePut), purego.NewCallback(storeTryGet)
	})
	stores.mu.Lock()
	defer stores.mu.Unlock()
	stores.last++
	stores.table[stores.last] = s
	return stores.last
}

func unregister(id uintptr) {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	delete(stores.table, id)
}

func storeOf(id uintptr) (Store, error) {
	stores.mu.Lock()
	defer stores.mu.Unlock()
	if s := stores.table[id]; s != nil {
		return s, nil
	}
	return nil, ErrClosed
}

// found is how PJRT_KeyValueGetCallback_Args and PJRT_KeyValueTryGetCallback_Args end.
type found struct {
	makeError          uintptr // address of a function pointer
	store              uintptr
	value, size, erase uintptr
}

type keyArgs struct {
	head
	key, n uintptr
}

type getArgs struct {
	keyArgs
	milliseconds, _ int32
	found
}

type tryGetArgs struct {
	keyArgs
	found
}

type putArgs struct {
	keyArgs
	value, valueLen, makeError, store uintptr
}

func storeGet(args uintptr) uintptr {
	a := at[getArgs](args)
	return a.found.get(text(a.key, a.n), time.Duration(a.milliseconds)*time.Millisecond)
}

func storeTryGet(args uintptr) uintptr {
	a := at[tryGetArgs](args)
	return a.found.get(text(a.key, a.n), 0)
}

func storePut(args uintptr) uintptr {
	a := at[putArgs](args)
	s, err := storeOf(a.store)
	if err == nil {
		err = s.Put(text(a.key, a.n), append([]byte{}, array[byte](a.value, a.valueLen)...))
	}
	return storeError(err, a.makeError)
}

// get fills in the value of a key, in memory that the plugin frees.
func (f *found) get(key string, wait time.Duration) uintptr {
	s, err := storeOf(f.store)
	var v []byte
	if err == nil {
		v, err = s.Get(key, wait)
	}
	if err == nil {
		var m arena
		f.value, f.size, f.erase = m.bytes(v), uintptr(len(v)), libc.free
	}
	if wait > 0 && errors.Is(err, ErrNoKey) {
		err = newError(codeDeadline, "", fmt.Sprintf("key %q did not come within %v", key, wait))
	}
	return storeError(err, f.makeError)
}

// Status codes of a Store's errors.
const (
	codeDeadline    = 4
	codeNotFound    = 5
	codeUnavailable = 14
)

// storeError makes an error the plugin's own.
func storeError(err error, makeError uintptr) uintptr {
	if err == nil {
		return 0
	}
	code, message := codeUnavailable, err.Error()
	if e, is := errors.AsType[*Error](err); is {
		code, message = e.Code, e.Message
	} else if errors.Is(err, ErrNoKey) {
		code = codeNotFound
	}
	var m arena
	defer m.free()
	e, _, _ := purego.SyscallN(*at[uintptr](makeError), uintptr(code), m.bytes([]byte(message)), uintptr(len(message)))
	return e
}

// NewNode is NewClient for one of several processes. It returns when all of them have
// called it and the plugins have found each other through the store, or with an error when
// a key does not come in time. The CUDA plugin can do it, the CPU plugin of jaxlib 0.11
// refuses the options.
func (p *Plugin) NewNode(options map[string]any, n Node) (*Client, error) {
	if n.Count < 1 || n.ID < 0 || n.ID >= n.Count || n.Store == nil {
		return nil, fmt.Errorf("pjrt: new client: got node %d of %d with store %v, want a number from 0 to %d and a store", n.ID, n.Count, n.Store, n.Count-1)
	}
	all := map[string]any{"node_id": int64(n.ID), "num_nodes": int64(n.Count)}
	maps.Copy(all, options)
	return p.newClient(all, &n)
}

// clientArgs is PJRT_Client_Create_Args.
type clientArgs struct {
	head
	options, n            uintptr
	get, getStore         uintptr
	put, putStore, client uintptr
	tryGet, tryGetStore   uintptr
	spare
}

func newClientArgs(n *Node) *clientArgs {
	a := &clientArgs{}
	a.size = unsafe.Sizeof(*a)
	if n != nil {
		id := register(n.Store)
		a.get, a.put, a.tryGet = stores.get, stores.put, stores.tryGet
		a.getStore, a.putStore, a.tryGetStore = id, id, id
	}
	return a
}
