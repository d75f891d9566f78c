package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gaiden/lib/session"
)

// another starts a session for a device, separate from the session of the notebook,
// and connects to it. end closes the connection and stops the session.
func another(ctx context.Context, device string) (s *session.Session, end func(), err error) {
	dir, err := os.MkdirTemp("", "gaiden-"+device+"-")
	if err != nil {
		return nil, nil, err
	}
	bin, err := session.Binary()
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	run := func(ctx context.Context, verb string) error {
		cmd := exec.CommandContext(ctx, bin, "session", verb)
		for _, e := range os.Environ() {
			name, value, _ := strings.Cut(e, "=")
			switch {
			case name == "XDG_RUNTIME_DIR", name == "XDG_STATE_HOME", name == "GAIDEN_DEVICE", name == "GAIDEN_SOCKET":
			case name == "GAIDEN_PLUGIN" && strings.Contains(filepath.Base(value), "cuda") != (device == "cuda"):
			default:
				cmd.Env = append(cmd.Env, e)
			}
		}
		// Its state goes with it: snapshots of a comparison are of no use.
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir, "XDG_STATE_HOME="+dir, "GAIDEN_DEVICE="+device)
		out, err := cmd.CombinedOutput()
		if err != nil {
			said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			return fmt.Errorf("report: a session for %s: %s", device, orElse(strings.TrimPrefix(said, "gaiden: "), err.Error()))
		}
		return nil
	}
	end = func() {
		if s != nil {
			_ = s.Close() // its errors have been read where the work was
		}
		_ = run(context.Background(), "stop") // a session that is gone is as good
		_ = os.RemoveAll(dir)
	}
	if err := run(ctx, "start"); err != nil {
		end()
		return nil, nil, err
	}
	s, err = session.Config{Socket: filepath.Join(dir, "gaiden", "session.sock"), Client: "report", NoStart: true}.Open()
	if err != nil {
		end()
		return nil, nil, err
	}
	return s, end, nil
}
