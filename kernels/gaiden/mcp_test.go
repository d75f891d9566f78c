package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serving is a command that serves on standard input and output: this program.
func serving(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", append([]string{"mcp"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GAIDEN_TEST_MAIN=1", "GAIDEN_SOCKET="+filepath.Join(dir, "none.sock"), "XDG_DATA_HOME="+filepath.Join(dir, "data"), "GAIDEN_PLUGIN=/no/plugin")
	return cmd
}

// TestMCPProcess uses the server as agents do: a process, by the SDK's client.
func TestMCPProcess(t *testing.T) {
	cmd := serving(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if i := c.InitializeResult(); i.ServerInfo.Name != "gaiden" || !strings.Contains(i.Instructions, "read_manual") {
		t.Errorf("got server %+v, want gaiden with instructions", i)
	}
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_cell", Arguments: map[string]any{"code": "!pwd"}})
	if err != nil || r.IsError || !strings.HasPrefix(r.Content[0].(*mcp.TextContent).Text, cmd.Dir+"\n[action 1; ") {
		t.Errorf("got %+v, %v, want the working directory", r, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the client has gone: the server ended with %v: %s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("got messages %q, want none", stderr.String())
	}
}

// TestMCPGarbage: what is no request does not stop the requests behind it, or ends
// the server with a word; it never hangs.
func TestMCPGarbage(t *testing.T) {
	for _, input := range []string{"", "hello\n", "{}\n", `{"jsonrpc":"2.0","id":1,"method":"nonsense"}` + "\n", "\x00\xff", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_cell"}}` + "\n", strings.Repeat("[", 100_000) + "\n"} {
		cmd := serving(t)
		cmd.Stdin = strings.NewReader(input)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if strings.Contains(stderr.String(), "goroutine ") {
			t.Errorf("%.40q: got %v, %s", input, err, stderr.String())
		}
		for line := range strings.Lines(stdout.String()) {
			if !strings.HasPrefix(line, `{"jsonrpc"`) {
				t.Errorf("%.40q: got %q on standard output, want messages of the protocol alone", input, line)
			}
		}
	}
}

func TestMCPArguments(t *testing.T) {
	t.Setenv("JPY_SESSION_NAME", "mcp")
	for args, want := range map[string]string{"-notebook nothing.ipynb": `got "nothing.ipynb", want a notebook file`, "-notebook .": "want a notebook file", "all": "usage", "-port 80": "usage"} {
		if err := mcpMain(strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	var manual bytes.Buffer
	if err := mcpMain([]string{"-manual"}, &manual, io.Discard); err != nil || !strings.Contains(manual.String(), "# Coding agents") {
		t.Errorf("the manual: got %d bytes, %v", manual.Len(), err)
	}
}
