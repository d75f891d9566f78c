package pjrt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no library\n", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	library := ""
	for _, f := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"} {
		if _, err := os.Stat(f); err == nil {
			library = f
		}
	}
	tests := []struct{ name, path, want string }{
		{"nothing", "", "set GAIDEN_PLUGIN"},
		{"missing", filepath.Join(dir, "none.so"), "none.so: no such file or directory; scripts/run"},
		{"folder", dir, dir + ": got a folder, want a shared library"},
		{"text", text, "invalid ELF header"},
		{"other library", library, "no PJRT plugin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path == "" && tt.name != "nothing" {
				t.Skip("found no libm.so.6 to offer as a plugin; install glibc")
			}
			_, err := Load(tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "pjrt: load: ") {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// What is missing is named, whichever it is: the first of an empty table, too.
func TestRequiredNamed(t *testing.T) {
	for _, s := range required {
		if slotNames[s] == "" {
			t.Errorf("required function %d: got no name, want one", int(s))
		}
	}
}

func TestTableRefused(t *testing.T) {
	tests := []struct {
		name         string
		size         uintptr
		major, minor int32
		without      slot // left empty, -1 for none
		want         string
	}{
		{"today", 1112, 0, 104, -1, ""},
		{"longer", 2000, 0, 300, -1, ""},
		{"oldest", tableHead + 8*97, 0, minMinor, -1, ""},
		{"next major", 1112, 1, 3, -1, "want major version 0"},
		{"old", 600, 0, 30, -1, "want at least 0.54"},
		{"short", 600, 0, 90, -1, "want at least 0.54"},
		{"tiny", 8, 0, 90, -1, "is not a PJRT table"},
		{"huge", 1 << 40, 0, 90, -1, "is not a PJRT table"},
		{"hole", 1112, 0, 104, loadedExecute, `without the function for "execute"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := make([]uintptr, 512)
			table[0] = tt.size
			*(*int32)(unsafe.Pointer(&table[4])) = tt.major
			*(*int32)(unsafe.Pointer(uintptr(unsafe.Pointer(&table[4])) + 4)) = tt.minor
			for i := range slots {
				if slot(i) != tt.without {
					table[5+i] = 1
				}
			}
			p := &Plugin{api: address(&table[0])}
			err := p.open()
			if tt.want == "" && (err != nil || p.Minor != int(tt.minor)) {
				t.Errorf("got version 0.%d and error %v, want 0.%d", p.Minor, err, tt.minor)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, _, _, err := checkTable(0); err == nil {
		t.Error("got no error for no table")
	}
}

func TestPlugin(t *testing.T) {
	c := client(t)
	p := c.Plugin
	if p.Major != 0 || p.Minor < minMinor {
		t.Errorf("got version %d.%d, want 0.%d or newer", p.Major, p.Minor, minMinor)
	}
	if l := p.Extensions(); len(l) == 0 || l[0].Size < 24 {
		t.Errorf("got extensions %v, want some of 24 bytes or more", l)
	}
	again, err := Load(p.Path)
	if err != nil || again.api != p.api {
		t.Errorf("second load: got %v, want the same table", err)
	}
}

func TestClient(t *testing.T) {
	c := client(t)
	if c.Platform() == "" || c.PlatformVersion() == "" {
		t.Errorf("got platform %q version %q, want both", c.Platform(), c.PlatformVersion())
	}
	for i, d := range c.Devices() {
		if d.Kind() == "" || d.Description() == "" || d.ID() < 0 {
			t.Errorf("device %d: got ID %d kind %q description %q, want all", i, d.ID(), d.Kind(), d.Description())
		}
		if _, err := d.Attributes(); err != nil {
			t.Errorf("device %d: attributes: %v", i, err)
		}
	}
	m, err := c.Devices()[0].Memory()
	if c.Platform() == "cpu" && !errors.Is(err, ErrUnimplemented) {
		t.Errorf("memory of a CPU: got %+v, %v, want ErrUnimplemented", m, err)
	}
	if c.Platform() != "cpu" && (err != nil || m.Limit <= 0) {
		t.Errorf("memory: got %+v, %v, want a limit", m, err)
	}
	if errors.Is(err, ErrOutOfMemory) {
		t.Errorf("%v is out of memory, want only unimplemented", err)
	}
}

func TestClientOptions(t *testing.T) {
	p := client(t).Plugin
	tests := []struct {
		name    string
		options map[string]any
		want    string
	}{
		{"unknown", map[string]any{"no_such_option": int64(1)}, "no_such_option"},
		{"every kind", map[string]any{"a": "text", "b": []int64{1, 2}, "c": 0.5, "d": true, "e": 7, "f": float32(1), "g": []int64{}}, "pjrt: new client: "},
		{"impossible", map[string]any{"a": struct{}{}}, "want a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := p.NewClient(tt.options)
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// What is closed says so; nothing that is closed crashes.
func TestClosed(t *testing.T) {
	p := client(t).Plugin
	c := must[*Client](t)(p.NewClient(modest(p)))
	x := must[*Program](t)(c.Compile([]byte(increments(1, 4, false)), CompileOptions{}))
	b := vectors(t, c, 1, 4)
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "1 buffers and 1 programs") {
		t.Errorf("close of a client in use: got %v, want an error that counts what is open", err)
	}
	free(t, c, b...)
	for range 2 {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	_, serialize := x.Serialize()
	_, _, optimized := x.Optimized()
	closed := map[string]error{"execute": x.Execute(b, b, nil, nil, Async, nil), "serialize": serialize, "optimized": optimized}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	_, closed["compile"] = c.Compile([]byte("x"), CompileOptions{})
	_, closed["upload"] = c.Upload(floats(1, 1), Float32, nil, nil)
	closed["download"] = c.Download(b[0], make([]byte, 16))
	closed["free"] = c.Free(b[0])
	_, closed["memory"] = c.Devices()[0].Memory()
	for name, err := range closed {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", name, err)
		}
	}
}
