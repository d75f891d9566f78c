package jupyter_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

func TestShutdown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		channel jupyter.Channel
		content object
		running bool
		restart bool
	}{
		{"control", jupyter.Control, object{"restart": false}, false, false},
		{"shell", jupyter.Shell, object{"restart": true}, false, true},
		{"while a cell runs", jupyter.Control, object{"restart": true}, true, true},
		{"without restart", jupyter.Control, object{}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &mock{cells: map[string]cell{"wait": endless}}
			k := jupytertest.Start(t, m, jupyter.Options{})
			c := jupytertest.Connect(t, k.Connection)
			ctx := within(t)
			if tt.running {
				id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "wait"})
				if err := c.Seen(ctx, id, "execute_input"); err != nil {
					t.Fatal(err)
				}
			}
			a := answered(t, c, tt.channel, "shutdown_request", tt.content)
			content := frontend.Content(a.Reply)
			if content["status"] != "ok" || content["restart"] != tt.restart {
				t.Errorf("reply is %v, want ok and restart %v", content, tt.restart)
			}
			if got, want := a.Types(), []string{"busy", "shutdown_reply", "idle"}; !slices.Equal(got, want) {
				t.Errorf("iopub has %v, want %v", got, want)
			}
			if err := k.Wait(ctx); err != nil {
				t.Errorf("the kernel ended with %v, want nil", err)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			if want := []bool{tt.restart}; !slices.Equal(m.shutdowns, want) {
				t.Errorf("the interpreter was shut down %v, want %v", m.shutdowns, want)
			}
		})
	}
}

// TestStop ends the kernel from outside, with a cell that takes its time.
func TestStop(t *testing.T) {
	slow := make(chan bool)
	m := &mock{cells: map[string]cell{"slow": func(ctx context.Context, _ jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond)
		close(slow)
		return jupyter.ExecuteResult{}
	}}}
	k := jupytertest.Start(t, m, jupyter.Options{})
	c := jupytertest.Connect(t, k.Connection)
	ctx := within(t)
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "slow"})
	if err := c.Seen(ctx, id, "execute_input"); err != nil {
		t.Fatal(err)
	}
	k.Stop()
	if err := k.Wait(ctx); err != context.Canceled {
		t.Errorf("the kernel ended with %v, want %v", err, context.Canceled)
	}
	select {
	case <-slow:
	default:
		t.Error("the kernel did not wait for the cell")
	}
}

// TestStuckCell ends a kernel whose cell does not end.
func TestStuckCell(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits 3 s for the cell; run without -short")
	}
	stuck := make(chan bool)
	defer close(stuck)
	m := &mock{cells: map[string]cell{"stuck": func(context.Context, jupyter.ExecuteRequest, jupyter.Output) jupyter.ExecuteResult {
		<-stuck
		return jupyter.ExecuteResult{}
	}}}
	k := jupytertest.Start(t, m, jupyter.Options{})
	c := jupytertest.Connect(t, k.Connection)
	ctx := within(t)
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "stuck"})
	if err := c.Seen(ctx, id, "execute_input"); err != nil {
		t.Fatal(err)
	}
	if a := answered(t, c, jupyter.Control, "shutdown_request", object{}); a.Status() != "ok" {
		t.Errorf("shutdown has status %q, want ok", a.Status())
	}
	if err := k.Wait(ctx); err != nil {
		t.Errorf("the kernel ended with %v, want nil", err)
	}
	if len(m.shutdowns) != 1 {
		t.Errorf("the interpreter was shut down %d times, want once", len(m.shutdowns))
	}
}

// TestHistoryAcrossKernels runs a cell in one kernel and finds it in the next.
func TestHistoryAcrossKernels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "history")
	for n := 1; n <= 3; n++ {
		k := jupytertest.Start(t, &mock{}, jupyter.Options{History: path})
		c := jupytertest.Connect(t, k.Connection)
		executed(t, c, fmt.Sprint("cell of kernel ", n))
		executed(t, c, "  \n") // nothing to keep
		answered(t, c, jupyter.Shell, "execute_request", object{"code": "secret", "store_history": false})
		answered(t, c, jupyter.Shell, "execute_request", object{"code": "secret", "silent": true})
		a := answered(t, c, jupyter.Shell, "history_request", object{"hist_access_type": "search", "pattern": "*"})
		var want []any
		for i := 1; i <= n; i++ {
			want = append(want, []any{float64(i), 1.0, fmt.Sprint("cell of kernel ", i)})
		}
		if got := frontend.Content(a.Reply)["history"]; !reflect.DeepEqual(got, want) {
			t.Errorf("kernel %d: history is %v, want %v", n, got, want)
		}
		k.Stop()
		k.Wait(within(t))
	}
}
