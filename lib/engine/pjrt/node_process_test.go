package pjrt

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"
)

// memoryStore is a Store of one process.
type memoryStore struct {
	mu      sync.Mutex
	values  map[string][]byte
	changed chan struct{} // closed by the next Put
}

func newMemoryStore() *memoryStore {
	return &memoryStore{values: map[string][]byte{}, changed: make(chan struct{})}
}

func (s *memoryStore) Put(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

func (s *memoryStore) Get(key string, wait time.Duration) ([]byte, error) {
	end := time.After(wait)
	for {
		s.mu.Lock()
		v, is := s.values[key]
		changed := s.changed
		s.mu.Unlock()
		if is {
			return v, nil
		}
		if wait <= 0 {
			return nil, ErrNoKey
		}
		select {
		case <-changed:
		case <-end:
			return nil, ErrNoKey
		}
	}
}

// A value that is put by one process is what another one waits for.
func TestStoreOfTests(t *testing.T) {
	server := rpc.NewServer()
	if err := server.RegisterName("Store", servedStore{newMemoryStore()}); err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	go server.ServeConn(a)
	s := remoteStore{rpc.NewClient(b), t.Logf}
	defer s.Close()
	got := make(chan string)
	go func() {
		v, err := s.Get("key", time.Minute)
		got <- fmt.Sprint(v, err)
	}()
	if _, err := s.Get("key", 0); !errors.Is(err, ErrNoKey) {
		t.Errorf("before: got %v, want ErrNoKey", err)
	}
	if err := s.Put("key", []byte{0, 1}); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != "[0 1] <nil>" {
		t.Errorf("got %s, want 0 1", v)
	}
}

// servedStore offers a Store to other processes.
type servedStore struct{ s Store }

// StoreCall is the argument of a servedStore's methods.
type StoreCall struct {
	Key   string
	Value []byte
	Wait  time.Duration
}

func (s servedStore) Put(c StoreCall, _ *bool) error { return s.s.Put(c.Key, c.Value) }

func (s servedStore) Get(c StoreCall, v *[]byte) (err error) {
	*v, err = s.s.Get(c.Key, c.Wait)
	return err
}

// remoteStore is the Store of another process.
type remoteStore struct {
	*rpc.Client
	log func(string, ...any)
}

func (s remoteStore) Put(key string, value []byte) error {
	s.log("store: put %.60q: %d bytes", key, len(value))
	var ok bool
	return s.Call("Store.Put", StoreCall{Key: key, Value: value}, &ok)
}

func (s remoteStore) Get(key string, wait time.Duration) (v []byte, err error) {
	s.log("store: get %.60q within %v", key, wait)
	if err = s.Call("Store.Get", StoreCall{Key: key, Wait: wait}, &v); err != nil && err.Error() == ErrNoKey.Error() {
		err = ErrNoKey
	}
	s.log("store: got %.60q: %d bytes, %v", key, len(v), err)
	return v, err
}

const nodeEnv = "GAIDEN_PJRT_NODE" // id, count, GPU, mock topology or "-", socket of the store

// TestNodesOnGPUs has processes with a GPU each sum over all of them, and one process that
// thinks there are two. Their output is the test's log.
func TestNodesOnGPUs(t *testing.T) {
	if !strings.Contains(os.Getenv("GAIDEN_PLUGIN"), "cuda") {
		t.Skip("needs XLA's CUDA plugin, as others make no client of several nodes: set GAIDEN_PLUGIN to xla_cuda_plugin.so, which scripts/run cuda fetches")
	}
	gpus := GPUs()
	for _, tt := range []struct {
		name  string
		nodes int // processes
		mock  string
	}{
		{"two processes", 2, "-"},
		{"one process and a mock one", 1, "1x2x1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if gpus < tt.nodes {
				t.Skipf("got %d GPUs, want %d, since NCCL 2.28 takes one process for each: run it on a machine that has them", gpus, tt.nodes)
			}
			server := rpc.NewServer()
			if err := server.RegisterName("Store", servedStore{newMemoryStore()}); err != nil {
				t.Fatal(err)
			}
			socket := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go server.Accept(l)
			var all sync.WaitGroup
			for id := range tt.nodes {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "GAIDEN_PJRT_CHILD=node", fmt.Sprintf("%s=%d 2 %d %s %s", nodeEnv, id, id, tt.mock, socket))
				all.Add(1)
				go func() {
					defer all.Done()
					timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
					defer timer.Stop()
					out, err := cmd.CombinedOutput()
					t.Logf("node %d: %v\n%s", id, err, out)
					if err != nil || !strings.Contains(string(out), "sum is right\n") {
						t.Errorf("node %d: got %v, want the sum", id, err)
					}
				}()
			}
			all.Wait()
		})
	}
}

const sumOfTwo = `module @sum attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%p: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<4xf32> {
 %s = "stablehlo.all_reduce"(%p) ({
 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %c = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %c : tensor<f32>
 }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
 return %s : tensor<4xf32> } }`

const square = `module @square { func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
 %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
 return %y : tensor<1024x1024xf32> } }`

// node is a child of TestNodesOnGPUs.
func node() error {
	start := time.Now()
	log := func(format string, args ...any) {
		fmt.Printf("%7.3f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	time.AfterFunc(50*time.Second, func() {
		log("gave up")
		pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
		os.Exit(4)
	})
	var id, count, gpu int
	var mock, socket string
	if _, err := fmt.Sscan(os.Getenv(nodeEnv), &id, &count, &gpu, &mock, &socket); err != nil {
		return err
	}
	p, err := Load(os.Getenv("GAIDEN_PLUGIN"))
	if err != nil {
		return err
	}
	log("loaded the plugin, PJRT C API 0.%d", p.Minor)
	peers, err := rpc.Dial("unix", socket)
	if err != nil {
		return err
	}
	options := map[string]any{"visible_devices": []int64{int64(gpu)}, "preallocate": false}
	if mock != "-" {
		options["enable_mock_nccl"], options["mock_gpu_topology"] = true, mock
	}
	c, err := p.NewNode(options, Node{id, count, remoteStore{peers, log}})
	if err != nil {
		return err
	}
	log("client is there")
	for _, d := range c.Everywhere() {
		log("device %d of node %d: %s %s; elsewhere: %v", d.ID(), d.Node(), d.Kind(), d, d.elsewhere)
	}
	if got := len(c.Devices()); got != 1 || len(c.Everywhere()) != count {
		return fmt.Errorf("got %d devices and %d everywhere, want 1 and %d", got, len(c.Everywhere()), count)
	}
	sum, err := c.Compile([]byte(sumOfTwo), CompileOptions{Replicas: 2})
	if err != nil {
		return err
	}
	log("compiled the sum for two nodes")
	b, err := c.Upload(floats(4, float32(id+1)), Float32, []int{4}, nil)
	if err != nil {
		return err
	}
	log("uploaded to the local device")
	st, got := []Buffer{b}, make([]byte, 16)
	if err := errors.Join(sum.Execute(st, st, []bool{true}, nil, Wait, nil), c.Download(st[0], got)); err != nil {
		return err
	}
	log("first sum: %v (3 is right, unless NCCL is a mock)", float(got, 0))
	if mock == "-" && float(got, 0) != 3 {
		return fmt.Errorf("got %v, want 3", float(got, 0))
	}
	const runs = 1000
	began := time.Now()
	for range runs {
		if err := sum.Execute(st, st, []bool{true}, nil, Async, nil); err != nil {
			return err
		}
	}
	if err := c.Wait(st[0]); err != nil {
		return err
	}
	log("%d sums more: %v each", runs, time.Since(began)/runs)
	if code, err := sum.Serialize(); err != nil {
		log("the sum cannot be serialized: %v", err)
	} else if again, err := c.Deserialize(code, CompileOptions{Replicas: 2}); err != nil {
		log("the sum cannot be deserialized: %v", err)
	} else {
		log("the sum was serialized to %d bytes, and loaded from them", len(code))
		again.Close()
	}
	if id == 0 { // what only one node compiles must not wait for the others
		began = time.Now()
		if _, err := c.Compile([]byte(square), CompileOptions{Flags: map[string]any{"xla_gpu_shard_autotuning": false}}); err != nil {
			return err
		}
		log("compiled a matrix product on this node alone: %v", time.Since(began))
	}
	if m, err := c.Devices()[0].Memory(); err == nil {
		log("memory in use %d, limit %d", m.InUse, m.Limit)
	}
	fmt.Println("sum is right")
	os.Exit(0) // clients of several nodes wait for each other when they close
	return nil
}
