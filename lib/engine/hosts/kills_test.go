package hosts_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// killsEnv is how many times TestKills disturbs a training; default: 10.
const killsEnv = "GAIDEN_TEST_KILLS"

// recovery is how long a session may take to continue.
const recovery = 10 * time.Second

// cluster is a session with followers that can be disturbed.
type cluster struct {
	t         *testing.T
	socket    string
	s         *session.Session
	followers []*follower
	relays    []*relay
	away      map[int]bool // followers that are not in the session
}

func startCluster(t *testing.T, followers int) *cluster {
	t.Helper()
	c := &cluster{t: t, away: map[int]bool{}}
	dir := filepath.Join(t.TempDir(), "run")
	for i := range followers {
		if onGPUs() {
			t.Setenv("GAIDEN_DEVICE", fmt.Sprint("cuda:", i+1))
		}
		f := startFollower(t, filepath.Join(dir, fmt.Sprint("f", i)))
		c.followers = append(c.followers, f)
		c.relays = append(c.relays, startRelay(t, filepath.Join(dir, fmt.Sprint("r", i)), f.address, 0))
		c.away[i] = true
	}
	if onGPUs() {
		t.Setenv("GAIDEN_DEVICE", "cuda:0")
	}
	c.socket = devicetest.Start(t)
	c.s = open(t, c.socket)
	return c
}

// hosts is how many there are in the session.
func (c *cluster) hosts() int { return 1 + len(c.followers) - len(c.away) }

// resize has as many hosts in the session.
func (c *cluster) resize(hosts int) {
	c.t.Helper()
	a := wire.AskBody{Verb: wire.Hosts}
	for i := range c.followers {
		if n := 1 + i + 1; c.away[i] && n <= hosts {
			a.Names = append(a.Names, c.relays[i].address)
			delete(c.away, i)
		} else if !c.away[i] && n > hosts {
			a.Remove = append(a.Remove, c.relays[i].address)
			c.away[i] = true
		}
	}
	if len(a.Names)+len(a.Remove) == 0 {
		return
	}
	if _, err := c.s.Ask(a); err != nil {
		c.t.Fatal(err)
	}
	c.reopen()
}

// reopen connects to the session again.
func (c *cluster) reopen() {
	c.t.Helper()
	c.s.Close()
	c.s = open(c.t, c.socket)
	c.check()
}

// check says that the session has all hosts that are not away.
func (c *cluster) check() {
	c.t.Helper()
	if got := len(c.s.Welcome().Devices); got != c.hosts() {
		c.t.Fatalf("got %d hosts, want %d; note: %s", got, c.hosts(), c.s.Welcome().Note)
	}
}

const (
	examples = 66 // on one, two or three hosts
	forever  = 1_000_000
)

var errEnough = errors.New("enough steps")

var small = models.Net{Name: "small", Input: []int{8}, Layers: []models.Layer{
	models.Dense{Name: "l1", Units: 16, Act: models.ReLU}, models.Dense{Name: "output", Units: 4}}}

// fit trains a net for some steps, each with all examples, on all hosts. began is called after
// the first.
func (c *cluster) fit(name string, steps int, began func()) (*fit.Net, error) {
	n, err := fit.Attach(c.s, name, small, fit.Config{Seed: 1, Devices: c.hosts(), AllDevices: true, FirstLook: true})
	if err != nil {
		return nil, err
	}
	data, err := n.Data("data")
	if err != nil {
		x, y := make([]float32, examples*8), make([]int32, examples)
		for i := range x {
			x[i] = float32(i%31) / 31
		}
		for i := range y {
			y[i] = int32(i % 4)
		}
		if data, err = n.Upload("data", fit.Data{X: x, Y: y}); err != nil {
			return nil, err
		}
	}
	done := 0
	_, err = n.Fit(data, fit.Train{Epochs: forever, Batch: examples, InOrder: true, LearningRate: 0.01, OnEpoch: func(*fit.Control) error {
		if done++; done == 1 && began != nil {
			began()
		}
		if done == steps {
			return errEnough
		}
		return nil
	}})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return n, err
}

// step is how many steps a net has done.
func (c *cluster) step(name string) int {
	c.t.Helper()
	a, err := c.s.Array(name + "/step")
	if err != nil {
		c.t.Fatal(err)
	}
	v := make([]int32, 1)
	if err := a.Values(v); err != nil {
		c.t.Fatal(err)
	}
	return int(v[0])
}

// disturbance is something that happens to a session with hosts.
type disturbance struct {
	name string
	slow bool // it is noticed by its silence alone, which takes seconds
	do   func(c *cluster, i int)
	end  func(c *cluster, i int) // when it was noticed; nil: the follower joins again by itself
}

func signal(pid int, s syscall.Signal) { syscall.Kill(pid, s) }

var disturbances = []disturbance{
	{name: "kill a follower's worker", do: func(c *cluster, i int) { signal(c.followers[i].worker(c.t), syscall.SIGKILL) }},
	{name: "kill the controller's worker", do: func(c *cluster, i int) {
		st, err := c.s.Status()
		if err != nil {
			c.t.Error(err)
			return
		}
		signal(st.WorkerPID, syscall.SIGKILL)
	}},
	{name: "stop a follower's worker", slow: true, do: func(c *cluster, i int) { signal(c.followers[i].worker(c.t), syscall.SIGSTOP) }},
	{name: "cut the connections of a follower", do: func(c *cluster, i int) { c.relays[i].cut() }},
	{name: "kill a follower", do: func(c *cluster, i int) {
		c.away[i] = true
		c.followers[i].Process.Kill()
	}, end: func(c *cluster, i int) {
		c.followers[i].Wait()
		c.followers[i] = startFollower(c.t, c.followers[i].address)
	}},
	{name: "lose the network of a follower", slow: true, do: func(c *cluster, i int) {
		c.away[i] = true
		c.relays[i].hold()
	}, end: func(c *cluster, i int) { c.relays[i].release() }},
}

// cycle is what happens next, in a random order: of the slow ones, which cost a test seconds,
// one at a time. GPUs have no spare follower.
func cycle(random *rand.Rand) (l []disturbance) {
	if onGPUs() {
		return disturbances[:3]
	}
	slow := 0
	for _, i := range random.Perm(len(disturbances)) {
		if d := disturbances[i]; !d.slow || slow == 0 {
			l = append(l, d)
			if d.slow {
				slow++
			}
		}
	}
	return l
}

// saveAlways makes snapshots, one after another, until its connection ends: in the middle of
// steps, too.
func saveAlways(s *session.Session) {
	for {
		if _, err := s.Snapshot(""); err != nil {
			return
		}
	}
}

// TestKills disturbs a training at random moments. Each time the session continues within ten
// seconds with the hosts that are left, from the last snapshot. In the end the weights are
// those of a training that nobody has disturbed, with as many hosts at the same steps.
func TestKills(t *testing.T) {
	kills, followers := 10, 2
	if onGPUs() {
		kills, followers = 3, 1
	}
	if v := os.Getenv(killsEnv); v != "" {
		if _, err := fmt.Sscan(v, &kills); err != nil {
			t.Fatalf("%s is %q: want a number", killsEnv, v)
		}
	}
	random := rand.New(rand.NewPCG(66, uint64(kills)))
	c := startCluster(t, followers)
	type phase struct{ hosts, to int } // as many hosts until a step
	var history []phase
	var took []time.Duration
	var next []disturbance
	for kill := range kills {
		if random.IntN(2) == 0 || c.hosts() == 1 {
			c.resize(1 + followers)
		}
		if _, err := c.fit("net", 1+random.IntN(5), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.s.Snapshot(""); err != nil {
			t.Fatal(err)
		}
		if len(next) == 0 {
			next = cycle(random)
		}
		d := next[0]
		next = next[1:]
		at := random.IntN(followers)
		for c.away[at] {
			at = random.IntN(followers)
		}
		phaseHosts, wait := c.hosts(), time.Duration(random.IntN(40_000))*time.Microsecond
		began := make(chan time.Time, 1)
		_, err := c.fit("net", forever, func() {
			go saveAlways(open(t, c.socket))
			time.AfterFunc(wait, func() {
				now := time.Now()
				clear(c.away) // the next generation takes all that answer
				d.do(c, at)
				began <- now
			})
		})
		if !errors.Is(err, wire.Lost) {
			t.Fatalf("%s: training ended with %v, want that the session was lost", d.name, err)
		}
		disturbed := <-began
		c.s = reopen(t, c.s, c.socket)
		c.check()
		step := c.step("net")
		took = append(took, time.Since(disturbed))
		t.Logf("%d: %s after %v on %d hosts: %v; continues at step %d on %d", kill, d.name, wait, phaseHosts, took[kill].Round(time.Millisecond), step, c.hosts())
		if took[kill] > recovery {
			t.Errorf("%s: the session continued after %v, want at most %v", d.name, took[kill], recovery)
		}
		history = append(history, phase{phaseHosts, step})
		if d.end != nil {
			d.end(c, at)
		}
	}
	slices.Sort(took)
	t.Logf("%d disturbances: it took %v to continue, at most %v", kills, took[kills/2].Round(time.Millisecond), took[kills-1].Round(time.Millisecond))
	n, err := c.fit("net", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	history = append(history, phase{c.hosts(), c.step("net")})
	got, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, p := range history {
		if p.to <= done {
			continue
		}
		c.resize(p.hosts)
		if n, err = c.fit("again", p.to-done, nil); err != nil {
			t.Fatal(err)
		}
		done = p.to
	}
	want, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i, w := range want {
		for k, x := range w.Data {
			worst = max(worst, math.Abs(float64(x-got[i].Data[k])))
		}
	}
	t.Logf("after %d steps on %v, the weights differ by at most %g", done, history, worst)
	if !(worst < 1e-3) { // a step of Adam changes them by up to 0.01
		t.Errorf("weights differ by %g from those of an undisturbed training, want less than 0.001", worst)
	}
}
