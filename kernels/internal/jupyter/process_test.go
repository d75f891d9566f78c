package jupyter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// kernelFile names, in the environment, the connection file of a kernel that
// this test binary is to be.
const kernelFile = "JUPYTER_TEST_KERNEL"

func TestMain(m *testing.M) {
	path := os.Getenv(kernelFile)
	if path == "" {
		os.Exit(m.Run())
	}
	err := jupyter.Run(context.Background(), path, &mock{}, jupyter.Options{
		WithParent: true,
		Ready: func(c jupyter.Connection) {
			text, _ := json.Marshal(c)
			os.WriteFile(path+".ready", text, 0o600)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestParentEnds starts a kernel in a process of its own and kills the process
// that started it: the kernel must follow.
func TestParentEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.json")
	if err := os.WriteFile(path, []byte(`{"ip":"127.0.0.1","shell_port":0,"iopub_port":0,"stdin_port":0,"control_port":0,"hb_port":0,"key":"k"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command("sh", "-c", `"$0" & wait`, os.Args[0])
	parent.Env = append(os.Environ(), kernelFile+"="+path)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer parent.Wait()
	defer parent.Process.Kill()
	ctx := within(t)
	var connection jupyter.Connection
	for json.Unmarshal(read(path+".ready"), &connection) != nil {
		if ctx.Err() != nil {
			t.Fatal("the kernel does not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	c := jupytertest.Connect(t, connection)
	if got := executed(t, c, "hello").Stream("stdout"); got != "hello" {
		t.Errorf("the kernel prints %q, want hello", got)
	}
	parent.Process.Kill()
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(connection.Endpoint(jupyter.Shell), "tcp://"))
		if err != nil {
			return // nobody listens any more
		}
		conn.Close()
		if ctx.Err() != nil {
			t.Fatal("the kernel outlives the process that started it")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func read(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // not there yet
	}
	return text
}
