package complete

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestFindGopls: gopls is taken from where go install puts it, but never from the
// current directory, nor from where others can replace it.
func TestFindGopls(t *testing.T) {
	top := t.TempDir()
	here := filepath.Join(top, "notebook")
	for dir, mode := range map[string]os.FileMode{"home/go/bin": 0o755, "path/bin": 0o755, "own": 0o755, "shared": 0o777, "notebook/go/bin": 0o755, "notebook/bin": 0o755, "notebook/rel": 0o755, "empty": 0o755} {
		dir = filepath.Join(top, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		os.Chmod(dir, mode)
		if filepath.Base(dir) != "empty" {
			if err := os.WriteFile(filepath.Join(dir, "gopls"), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Chdir(here)
	denied := errors.New("denied")
	tests := []struct {
		name, home, gopath, gobin string
		want                      string
		fails                     error // denied: one of TrustedPath
	}{
		{name: "below home", home: "TOP/home", want: "TOP/home/go/bin/gopls"},
		{name: "GOPATH", home: "TOP/home", gopath: "TOP/path:TOP/home/go", want: "TOP/path/bin/gopls"},
		{name: "GOBIN", home: "TOP/home", gopath: "TOP/path", gobin: "TOP/own", want: "TOP/own/gopls"},
		{name: "not in GOBIN", home: "TOP/home", gobin: "TOP/empty", want: "TOP/home/go/bin/gopls"},
		{name: "nowhere", home: "TOP/empty", fails: ErrNoGopls},
		{name: "relative home", home: ".", fails: ErrNoGopls},
		{name: "relative GOPATH", home: "TOP/home", gopath: ".", fails: ErrNoGopls},
		{name: "relative GOBIN", home: "TOP/empty", gobin: "rel", fails: ErrNoGopls},
		{name: "of others", home: "TOP/home", gobin: "TOP/shared", fails: denied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range map[string]string{"HOME": tt.home, "GOPATH": tt.gopath, "GOBIN": tt.gobin, "PATH": filepath.Join(top, "empty")} {
				t.Setenv(name, strings.ReplaceAll(value, "TOP", top))
			}
			got, err := new(Gopls).Find()
			if want := strings.ReplaceAll(tt.want, "TOP", top); got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
			var refused *wire.Error
			if tt.fails == denied {
				if !errors.As(err, &refused) || refused.Code != wire.Denied {
					t.Errorf("got error %v, want one with code %v", err, wire.Denied)
				}
			} else if !errors.Is(err, tt.fails) {
				t.Errorf("got error %v, want %v", err, tt.fails)
			}
		})
	}
	for _, name := range []string{"HOME", "GOPATH", "GOBIN"} {
		t.Setenv(name, "") // the user's home is what the system says, which may have one
	}
	t.Setenv("PATH", filepath.Join(top, "empty"))
	if got, err := new(Gopls).Find(); err == nil && !filepath.IsAbs(got) {
		t.Errorf("without HOME: got %q, want none of the current directory's", got)
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 99999999999\r\n\r\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			if _, err := readMessage(r); err != nil {
				return
			}
		}
	})
}
