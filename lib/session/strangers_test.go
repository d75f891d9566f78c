package session

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// TestFaultsOtherUser connects as another user, and to one.
func TestFaultsOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to become another user: run it as root")
	}
	p := serve(t)
	p.open("other")
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	// The test program and the socket have to be in reach, or it would be the
	// directories that refuse.
	self := filepath.Join(t.TempDir(), "test")
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(p.socket); dir != "/"; dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&1 == 0 {
			os.Chmod(dir, st.Mode().Perm()|0o011)
			t.Cleanup(func() { os.Chmod(dir, st.Mode().Perm()) })
		}
	}
	for dir := filepath.Dir(self); dir != "/"; dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&1 == 0 {
			os.Chmod(dir, st.Mode().Perm()|0o011)
		}
	}
	cmd := exec.Command(self, p.socket)
	cmd.Env = []string{"GAIDEN_TEST_ROLE=stranger", "GAIDEN_SOCKET=" + p.socket, "PATH=/bin"}
	cmd.SysProcAttr = nobody
	out, err := cmd.CombinedOutput()
	if want := "session: " + p.socket + " belongs to user 0, you are user 65534; a session serves one user: unset GAIDEN_SOCKET"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("another user opens it: got %v: %s, want %s", err, out, want)
	}
	os.Chmod(p.socket, 0o666)
	cmd = exec.Command(self, p.socket)
	cmd.Env = []string{"GAIDEN_TEST_ROLE=stranger", "PATH=/bin"}
	cmd.SysProcAttr = nobody
	out, err = cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "session belongs to user 0, you are user 65534") {
		t.Errorf("another user connects: got %v: %s", err, out)
	}
	// And the other way round: root is not a session of nobody's.
	theirs := filepath.Join(filepath.Dir(self), "theirs")
	if err := errors.Join(os.Mkdir(theirs, 0o777), os.Chmod(theirs, 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, "listen")
	cmd.Env = []string{"GAIDEN_TEST_ROLE=stranger", "PATH=/bin", "TMPDIR=" + theirs}
	cmd.SysProcAttr = nobody
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	line := make([]byte, 200)
	n, _ := pipe.Read(line)
	_, err = Config{Socket: strings.TrimSpace(string(line[:n])), NoStart: true}.Open()
	var d *wire.Error
	if !errors.As(err, &d) || d.Code != wire.Denied || !strings.Contains(d.Text, "belongs to user 65534") || !strings.Contains(d.Hint(), "a folder of your own") {
		t.Errorf("a session of another user: got %v, want %v with a hint", err, wire.Denied)
	}
}

// stranger is what another user's process does.
func stranger(arg string) {
	if arg == "listen" {
		dir, err := os.MkdirTemp("", "stranger")
		if err != nil {
			fmt.Println(err)
			return
		}
		os.Chmod(dir, 0o755)
		l, err := net.Listen("unix", filepath.Join(dir, "s"))
		if err != nil {
			fmt.Println(err)
			return
		}
		os.Chmod(filepath.Join(dir, "s"), 0o666)
		fmt.Println(filepath.Join(dir, "s"))
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}
	c, err := net.Dial("unix", arg)
	if err != nil {
		var why *wire.Error
		if _, err = (Config{Socket: arg, NoStart: true}).Open(); errors.As(err, &why) {
			fmt.Println(why.Text + "; " + why.Next)
		} else {
			fmt.Println(err)
		}
		return
	}
	b := wire.JSON(wire.HelloBody{Protocol: wire.Protocol, Space: "x"})
	head := make([]byte, wire.HeaderSize)
	endian.LittleEndian.PutUint32(head, uint32(len(b)))
	head[4], head[8] = byte(wire.Hello), 1
	c.Write(append(head, b...))
	answer, _ := io.ReadAll(c)
	fmt.Printf("%q\n", answer)
}

// TestFaultsFrames sends nonsense to the socket. The session goes on, and does
// not grow.
func TestFaultsFrames(t *testing.T) {
	p := serve(t)
	s := p.open("frames")
	bindAll(t, s, map[string][]float32{"w": {1}})
	length := 2 * time.Second
	if full() {
		length = 20 * time.Second
	}
	if d, err := time.ParseDuration(os.Getenv("GAIDEN_FRAMES")); err == nil {
		length = d
	}
	r := rand.New(rand.NewPCG(7, 8))
	worker := p.worker(s)
	count := 0
	var before holding
	for began := time.Now(); time.Since(began) < length || count <= 300; count++ { // 300 warm it up
		c, err := net.Dial("unix", p.socket)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Millisecond))
		c.Write(nonsense(r))
		if count%3 == 0 {
			io.ReadAll(io.LimitReader(c, 1<<16))
		}
		c.Close()
		if count == 300 {
			before = p.holds(worker)
		}
	}
	if got := p.worker(s); got != worker {
		t.Errorf("worker %d has died of nonsense, now it is %d", worker, got)
	}
	if got := look(t, s); got != "w[1]" {
		t.Errorf("got %s", got)
	}
	within(t, "one client", func() bool { st, err := s.Status(); return err == nil && len(st.Clients) == 1 })
	within(t, "the goroutines of the last clients to end", func() bool { return p.holds(worker).goroutines <= before.goroutines+4 })
	after := p.holds(worker)
	if grown := after.bytes - before.bytes; grown > 64<<20 {
		t.Errorf("the worker has grown by %d bytes in %d connections", grown, count)
	}
	if after.files > before.files+4 {
		t.Errorf("the worker has %d files open after %d connections, %d after 300", after.files, count, before.files)
	}
	t.Logf("%d connections in %v: %+v after 300, %+v after the last", count, length, before, after)
}

// TestRefusedFramesLeaveNothing: large frames that are torn or nonsense do not stay
// in the worker's memory when their connections have ended.
func TestRefusedFramesLeaveNothing(t *testing.T) {
	p := serve(t)
	s := p.open("large")
	worker := p.worker(s)
	before := p.holds(worker)
	const size = 128 << 20
	zeros := make([]byte, 1<<20)
	for i := range 4 {
		c, err := net.Dial("unix", p.socket)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(wire.AppendFrame(nil, wire.Hello, 1, wire.JSON(wire.HelloBody{Protocol: wire.Protocol, Space: "large"})))
		head := make([]byte, wire.HeaderSize)
		endian.LittleEndian.PutUint32(head, size)
		head[4] = byte(wire.Upload)
		c.Write(head)
		for range size>>20 - i%2 { // every second one is torn
			c.Write(zeros)
		}
		if i%2 == 0 {
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if answer, _ := io.ReadAll(c); !strings.Contains(string(answer), "torn") {
				t.Errorf("got %q, want a refusal", answer)
			}
		}
		c.Close()
	}
	within(t, "the memory to go back", func() bool { return p.holds(worker).heap < before.heap+size/2 })
}

// holding is what a process has of the system.
type holding struct{ files, bytes, threads, goroutines, heap int }

// holds looks at the worker.
func (p *process) holds(worker int) holding {
	p.t.Helper()
	entries := func(what string) int {
		l, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", worker, what))
		if err != nil {
			p.t.Fatal(err)
		}
		return len(l)
	}
	h := holding{files: entries("fd"), bytes: resident(worker), threads: entries("task")}
	path := filepath.Join(p.dir, "state", goroutinesFile)
	os.Remove(path)
	if err := syscall.Kill(worker, syscall.SIGUSR1); err != nil {
		p.t.Fatal(err)
	}
	within(p.t, "the worker to count its goroutines", func() bool {
		b, err := os.ReadFile(path)
		n, _ := fmt.Sscanln(string(b), &h.goroutines, &h.heap)
		return err == nil && n == 2
	})
	return h
}

const goroutinesFile = "goroutines"

// countGoroutines answers holds, in the worker. (What the race detector notes of
// memory stays resident when Go has released the memory.)
func countGoroutines() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	for range c {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		os.WriteFile(filepath.Join(os.Getenv("XDG_STATE_HOME"), goroutinesFile), fmt.Appendln(nil, runtime.NumGoroutine(), m.HeapSys-m.HeapReleased), 0o600)
	}
}

// nonsense is bytes for the socket: from none that are right to almost all.
func nonsense(r *rand.Rand) []byte {
	frame := func(b []byte, k wire.Kind, id uint32, body []byte) []byte {
		b = endian.LittleEndian.AppendUint32(b, uint32(len(body)))
		b = append(b, byte(k), 0, 0, 0)
		b = endian.LittleEndian.AppendUint32(b, id)
		return append(b, body...)
	}
	noise := make([]byte, r.IntN(300))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	if r.IntN(4) == 0 {
		return noise
	}
	b := frame(nil, wire.Hello, 1, wire.JSON(wire.HelloBody{Protocol: wire.Protocol, Space: "nonsense"}))
	for range r.IntN(6) {
		switch r.IntN(6) {
		case 0:
			b = frame(b, wire.Kind(r.IntN(20)), r.Uint32(), noise)
		case 1:
			e := wire.ExecuteBody{Program: r.Uint64N(4), Inputs: []uint64{1, r.Uint64()}, Donate: []bool{true, false}, Outputs: []uint64{3}, Bind: []wire.Binding{{Output: 9, Name: "w"}}}
			b = frame(b, wire.Execute, 0, e.Append(nil))
		case 2:
			u := wire.UploadBody{Handle: 1 + r.Uint64N(3), Type: wire.Type{DType: 11, Dims: []int{r.IntN(4)}}, Device: uint32(r.IntN(2)), Window: uint32(r.IntN(2)), Data: noise[:len(noise)/4*4]}
			b = frame(b, wire.Upload, 0, u.Append(nil))
		case 3:
			verbs := []wire.Verb{wire.Lookup, wire.Bind, wire.Delete, wire.List, wire.Snapshots, wire.Diff, wire.Rollback, wire.Import, wire.Jobs, wire.StartJob, wire.FollowJob, wire.Pin, wire.Quota, "?"}
			a := wire.AskBody{Verb: verbs[r.IntN(len(verbs))], Names: []string{strconv.Itoa(r.IntN(9)), "w"}[:r.IntN(3)], Handles: []uint64{1, 2}[:r.IntN(3)], Remove: []string{"w", "*", ""}[:r.IntN(4)], Bytes: r.Int64(), Path: "/dev/null"}
			b = frame(b, wire.Ask, 7, wire.JSON(a))
		case 4:
			b = frame(b, wire.Download, 9, wire.DownloadBody{Handle: r.Uint64N(4), Window: uint32(r.IntN(2))}.Append(nil))
		case 5:
			b = frame(b, wire.Free, 0, wire.AppendHandles(nil, []uint64{r.Uint64N(4), 2}))
		}
	}
	if r.IntN(2) == 0 {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	return b[:len(b)-r.IntN(2)*r.IntN(len(b))]
}

// alive says whether a process runs; one that nobody has buried does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// resident is the memory of a process, in bytes.
func resident(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return pages * os.Getpagesize()
}
