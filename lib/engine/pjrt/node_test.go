package pjrt_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/pjrt/nodetest"
)

// testStore is a Store of one process whose calls can fail.
type testStore struct {
	values   sync.Map // of chan []byte
	put, get error
}

func (s *testStore) of(key string) chan []byte {
	c, _ := s.values.LoadOrStore(key, make(chan []byte, 1))
	return c.(chan []byte)
}

func (s *testStore) Put(key string, value []byte) error {
	if s.put == nil {
		s.of(key) <- value
	}
	return s.put
}

func (s *testStore) Get(key string, wait time.Duration) ([]byte, error) {
	if s.get != nil {
		return nil, s.get
	}
	v := <-s.of(key)
	s.of(key) <- v
	return v, nil
}

// nodePlugin is a plugin that makes clients of several nodes.
func nodePlugin(t *testing.T) *pjrt.Plugin {
	t.Helper()
	path := os.Getenv("GAIDEN_PLUGIN")
	if path == "" || strings.Contains(path, "cuda") {
		t.Skip("needs the XLA CPU plugin, which the test double of one with nodes is made of: set GAIDEN_PLUGIN to its file")
	}
	p, err := pjrt.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Replace(p)
	return p
}

const sumOfNodes = `module @sum attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%p: tensor<f32>) -> tensor<f32> {
 %s = "stablehlo.all_reduce"(%p) ({
 ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %c = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %c : tensor<f32>
 }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<f32>) -> tensor<f32>
 return %s : tensor<f32> } }`

// Two nodes find each other, see the same devices, and add up what each has.
func TestNodes(t *testing.T) {
	const nodes = 2
	store := &testStore{}
	var clients [nodes]*pjrt.Client
	var all sync.WaitGroup
	for id := range nodes {
		p := nodePlugin(t)
		all.Go(func() {
			c, err := p.NewNode(map[string]any{"cpu_device_count": 1}, pjrt.Node{ID: id, Count: nodes, Store: store})
			if err != nil {
				t.Errorf("node %d: %v", id, err)
				return
			}
			clients[id] = c
		})
	}
	all.Wait()
	node := func(id int, c *pjrt.Client) {
		if l := c.Everywhere(); len(l) != nodes || l[0].ID() != 0 || l[1].ID() != 1 || l[0].Node() != 0 || l[1].Node() != 1 {
			t.Errorf("node %d: got devices %v, want 0 and 1 of these nodes", id, l)
		}
		if l := c.Devices(); len(l) != 1 || l[0] != c.Everywhere()[id] {
			t.Errorf("node %d: got own devices %v, want device %d", id, l, id)
		}
		p, err := c.Compile([]byte(sumOfNodes), pjrt.CompileOptions{Replicas: nodes})
		if err != nil {
			t.Error(err)
			return
		}
		if p.Replicas() != nodes {
			t.Errorf("got %d replicas, want %d", p.Replicas(), nodes)
		}
		data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(id+1)))
		b, err := c.Upload(data, pjrt.Float32, nil, nil)
		if err != nil {
			t.Error(err)
			return
		}
		out := make([]pjrt.Buffer, 1)
		if err := p.Execute([]pjrt.Buffer{b}, out, nil, nil, pjrt.Wait, nil); err != nil {
			t.Error(err)
			return
		}
		got := make([]byte, 4)
		if err := c.Download(out[0], got); err != nil || math.Float32frombits(binary.LittleEndian.Uint32(got)) != 1+2 {
			t.Errorf("node %d: got %v, %v, want the sum, 3", id, got, err)
		}
		there := c.Everywhere()[1-id]
		_, upload := c.Upload(data, pjrt.Float32, nil, there)
		_, copied := c.CopyToDevice(b, there)
		_, compiled := c.Compile([]byte(sumOfNodes), pjrt.CompileOptions{Devices: []int{there.ID()}})
		_, many := c.Compile([]byte(sumOfNodes), pjrt.CompileOptions{Replicas: nodes + 1})
		for what, tt := range map[string]struct {
			err  error
			want string
		}{
			"upload": {upload, "belongs to node"}, "copy": {copied, "belongs to node"},
			"compile": {compiled, "belong to other nodes"}, "too many replicas": {many, "want at most 2"},
		} {
			if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
				t.Errorf("%s for another node's device: got %v, want %q", what, tt.err, tt.want)
			}
		}
		if err := errors.Join(c.Free(b), c.Free(out[0]), p.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	}
	for id, c := range clients {
		if c != nil && clients[1-id] != nil {
			all.Go(func() { node(id, c) })
		}
	}
	all.Wait()
}

func TestNodesRefused(t *testing.T) {
	late := errors.New("host b is lost")
	for _, tt := range []struct {
		name string
		node pjrt.Node
		want string
	}{
		{"no store", pjrt.Node{Count: 2}, "and a store"},
		{"number", pjrt.Node{ID: 2, Count: 2, Store: &testStore{}}, "got node 2 of 2"},
		{"put", pjrt.Node{Count: 2, Store: &testStore{put: late}}, "UNAVAILABLE: host b is lost"},
		{"get", pjrt.Node{Count: 2, Store: &testStore{get: late}}, "UNAVAILABLE: host b is lost"},
		{"nobody comes", pjrt.Node{Count: 2, Store: &testStore{get: pjrt.ErrNoKey}}, `DEADLINE_EXCEEDED: key "nodetest/0" did not come within 20s`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := nodePlugin(t).NewNode(nil, tt.node)
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
