package wire

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
	// list gives a file an access control list: owner, group and mask may do all, and one
	// more user (tag 2) or group (tag 8) what may says.
	list := func(path string, tag uint16, id, may int) {
		t.Helper()
		b := []byte{2, 0, 0, 0}
		for _, e := range [][3]int{{1, 7, -1}, {int(tag), may, id}, {4, 7, -1}, {0x10, 7, -1}, {0x20, 4, -1}} {
			b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
			b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
			b = binary.LittleEndian.AppendUint32(b, uint32(e[2]))
		}
		if tag == 8 { // entries are in the order of their tags
			copy(b[12:28], append(append([]byte{}, b[20:28]...), b[12:20]...))
		}
		if err := syscall.Setxattr(path, "system.posix_acl_access", b, 0); errors.Is(err, syscall.ENOTSUP) {
			t.Skip("this file system has no access control lists: set TMPDIR to a folder of one that has, such as ext4")
		} else if err != nil {
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
		{name: "list with this user", path: "a/b", make: func(d string) { file(d+"/a/b", 0o664); list(d+"/a/b", 0o2, os.Getuid(), 6) }},
		{name: "list with a reader", path: "a/b", make: func(d string) { file(d+"/a/b", 0o664); list(d+"/a/b", 0o2, stranger, 4) }},
		{name: "list with a writer", path: "a/b", refuse: "a/b", make: func(d string) { file(d+"/a/b", 0o664); list(d+"/a/b", 0o2, stranger, 6) }},
		{name: "list with a group", path: "a/b", refuse: "a", make: func(d string) { file(d+"/a/b", 0o644); list(d+"/a", 0o10, stranger, 7) }},
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
				t.Skip("needs root, who can give files away: run it as root")
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
			err := trust{uid: os.Getuid(), etc: etc}.check(filepath.Join(dir, tt.path))
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

// TestHomeDir holds where files go when HOME is not set: to the home that the system lists,
// and where that is none of the user's, to a directory with the user's number in its name.
func TestHomeDir(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("TMPDIR", t.TempDir())
	etc, home := t.TempDir(), t.TempDir()
	me := strconv.Itoa(os.Getuid())
	shared := filepath.Join(t.TempDir(), "shared")
	os.Mkdir(shared, 0o700)
	os.Chmod(shared, 0o777)
	fallback := filepath.Join(os.TempDir(), "gaiden-"+me)
	for _, tt := range []struct{ name, passwd, want string }{
		{"listed", "other:x:99999:1::/:/bin/sh\nme:x:" + me + ":1::" + home + ":/bin/sh\n", home},
		{"not listed", "other:x:99999:1::" + home + ":/bin/sh\n", fallback},
		{"none", "me:x:" + me + ":1::/:/bin/sh\n", fallback},
		{"missing", "me:x:" + me + ":1::/no/such/home:/bin/sh\n", fallback},
		{"everybody's", "me:x:" + me + ":1::" + shared + ":/bin/sh\n", fallback},
	} {
		os.WriteFile(filepath.Join(etc, "passwd"), []byte(tt.passwd), 0o600)
		if got := (trust{uid: os.Getuid(), etc: etc}).home(); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, "")
	}
	for _, dir := range []string{CacheDir(), StateDir(), DataDir()} {
		if !strings.HasPrefix(dir, HomeDir()+"/") || filepath.Dir(filepath.Dir(dir)) == os.TempDir() {
			t.Errorf("got %s, want it below %s", dir, HomeDir())
		}
	}
}

// TestRelativePlaces: what the environment says relative to whatever the directory of a
// process is, is ignored; a socket's path is that of this process.
func TestRelativePlaces(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "TMPDIR"} {
		t.Setenv(name, "rel")
	}
	t.Setenv("GAIDEN_SOCKET", "rel.sock")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"cache", CacheDir(), home + "/.cache/gaiden"},
		{"state", StateDir(), home + "/.local/state/gaiden"},
		{"data", DataDir(), home + "/.local/share/gaiden"},
		{"runtime", RuntimeDir(), "/tmp/gaiden-" + strconv.Itoa(os.Getuid())},
		{"temporary", TempDir(), "/tmp"},
		{"socket", SocketPath(), here + "/rel.sock"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	t.Setenv("HOME", "rel")
	if got := HomeDir(); !filepath.IsAbs(got) {
		t.Errorf("HOME=rel: got %s, want an absolute path", got)
	}
}

// TestPrivateDirAbove holds that a directory is not private where somebody else could put
// another one in its place.
func TestPrivateDirAbove(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	if err := PrivateDir(filepath.Join(above, "own")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		mode fs.FileMode
		ok   bool
	}{{"everybody's", 0o777, false}, {"sticky", 0o777 | fs.ModeSticky, true}, {"a group's", 0o775, true}} {
		os.Chmod(above, tt.mode)
		if err := PrivateDir(filepath.Join(above, "own")); (err == nil) != tt.ok {
			t.Errorf("in a directory that is %s: got %v", tt.name, err)
		}
	}
	if os.Getuid() == 0 {
		os.Chmod(above, 0o755)
		os.Chown(above, 4711, -1)
		if err := PrivateDir(filepath.Join(above, "own")); !errors.Is(err, Denied) {
			t.Errorf("in a stranger's directory: got %v, want that it is refused", err)
		}
	}
}
