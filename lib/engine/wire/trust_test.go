package wire

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTrustedPath holds that what somebody else can change, or replace on the way, is
// refused, and that the error names that part of the path.
func TestTrustedPath(t *testing.T) {
	const stranger = 4711
	root := t.TempDir()
	etc := filepath.Join(root, "etc")
	file := func(path string, mode fs.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	gid := os.Getgid()
	tests := []struct {
		name   string
		make   func(dir string)
		path   string
		group  string // besides this user, who is in the group
		refuse string // the part that is named; "" for none
		root   bool   // the case needs root
	}{
		{name: "own file", path: "a/b", make: func(d string) { file(d+"/a/b", 0o644) }},
		{name: "own directory", path: "a", make: func(d string) { file(d+"/a/b", 0o644) }},
		{name: "relative link", path: "l/b", make: func(d string) { file(d+"/a/b", 0o600); os.Symlink("../"+filepath.Base(d)+"/a", d+"/l") }},
		{name: "sticky directory on the way", path: "a/b", make: func(d string) { file(d+"/a/b", 0o600); os.Chmod(d+"/a", 0o777|fs.ModeSticky) }},
		{name: "sticky directory itself", path: "a", refuse: "a", make: func(d string) { file(d+"/a/b", 0o600); os.Chmod(d+"/a", 0o777|fs.ModeSticky) }},
		{name: "everybody's file", path: "a/b", refuse: "a/b", make: func(d string) { file(d+"/a/b", 0o602) }},
		{name: "everybody's directory", path: "a/b/c", refuse: "a", make: func(d string) { file(d+"/a/b/c", 0o600); os.Chmod(d+"/a", 0o777) }},
		{name: "everybody's directory behind a link", path: "l", refuse: "a", make: func(d string) { file(d+"/a/b", 0o600); os.Symlink("a/b", d+"/l"); os.Chmod(d+"/a", 0o777) }},
		{name: "group of one", path: "a/b", make: func(d string) { file(d+"/a/b", 0o664); os.Chmod(d+"/a", 0o775) }},
		{name: "group of several", path: "a/b", refuse: "a", group: "else", make: func(d string) { file(d+"/a/b", 0o664); os.Chmod(d+"/a", 0o775) }},
		{name: "stranger's file", root: true, path: "a/b", refuse: "a/b", make: func(d string) { file(d+"/a/b", 0o644); os.Chown(d+"/a/b", stranger, -1) }},
		{name: "stranger's directory", root: true, path: "a/b", refuse: "a", make: func(d string) { file(d+"/a/b", 0o644); os.Chown(d+"/a", stranger, -1) }},
		{name: "stranger's link", root: true, path: "l", refuse: "l", make: func(d string) { file(d+"/a/b", 0o644); os.Symlink("a/b", d+"/l"); os.Lchown(d+"/l", stranger, -1) }},
		{name: "stranger's file in a sticky directory", root: true, path: "a/b", refuse: "a/b", make: func(d string) {
			file(d+"/a/b", 0o644)
			os.Chown(d+"/a/b", stranger, -1)
			os.Chmod(d+"/a", 0o777|fs.ModeSticky)
		}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Getuid() != 0 {
				t.Skip("only root can give files away")
			}
			dir := filepath.Join(root, string(rune('a'+i)))
			tt.make(dir)
			file(etc+"/passwd", 0o644)
			passwd, group := "root:x:0:0::/root:/bin/sh\n", "mine:x:"+strconv.Itoa(gid)+":"+tt.group+"\n"
			if os.Getuid() != 0 {
				passwd += "me:x:" + strconv.Itoa(os.Getuid()) + ":" + strconv.Itoa(gid) + "::/:/bin/sh\n"
			}
			os.WriteFile(etc+"/passwd", []byte(passwd), 0o644)
			os.WriteFile(etc+"/group", []byte(group), 0o644)
			err := trust{os.Getuid(), etc}.check(filepath.Join(dir, tt.path))
			if tt.refuse == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != Denied || e.Next == "" || !strings.Contains(e.Text+" ", filepath.Join(dir, tt.refuse)+" ") {
				t.Errorf("got %v, want %s refused, and what to do", err, tt.refuse)
			}
		})
	}
	if err := TrustedPath(filepath.Join(root, "nothing", "here")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a path that does not exist: got %v, want fs.ErrNotExist", err)
	}
	os.Symlink("loop", root+"/loop")
	if err := TrustedPath(root + "/loop"); err == nil {
		t.Error("of a link to itself: got no error")
	}
}
