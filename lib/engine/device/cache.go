package device

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
)

// cache is the compiled programs on disk: one file each in a private directory,
// named by the hash of all that its machine code depends on. It is never in the
// way: what cannot be read is compiled again, what cannot be written is not.
// Several sessions may use one directory.
type cache struct {
	dir   string // "" is no cache
	limit int64  // of all files, in bytes
	where string // what the code depends on besides the program; set when ready is closed
	ready chan struct{}
	logf  func(string, ...any)

	mu  sync.Mutex // protects following
	off string     // why the cache is not used, "" if it is
}

const (
	cacheMark = "GAIDENP1"
	entryHead = len(cacheMark) + 2*sha256.Size // mark, key, SHA-256 of the rest

	// defaultCache bounds the programs on disk, in bytes: a large net is about
	// 50 MB, a small one 0.3.
	defaultCache = 2 << 30
)

// openCache makes a cache of dir. The plugin's file is hashed during other
// work: 200 MB take a tenth of a second.
func openCache(dir string, limit int64, plugin string, about []string, logf func(string, ...any)) *cache {
	c := &cache{dir: dir, limit: limit, ready: make(chan struct{}), logf: logf}
	c.limit = cmp.Or(c.limit, defaultCache)
	if dir == "" {
		c.off = "no directory was given"
		close(c.ready)
		return c
	}
	err := wire.PrivateDir(dir)
	if err == nil {
		err = wire.TrustedPath(dir) // what is there runs as this user
	}
	if err != nil {
		c.fail(err)
		close(c.ready)
		return c
	}
	go func() {
		defer close(c.ready)
		sum, err := c.fingerprint(plugin)
		if err != nil {
			c.fail(err)
			return
		}
		c.where = strings.Join(append(about, sum, processor(), os.Getenv("XLA_FLAGS")), "\x00")
	}()
	return c
}

// fail gives the cache up for this session.
func (c *cache) fail(err error) {
	c.logf("programs are not kept on disk: %v", err)
	c.mu.Lock()
	c.off = err.Error()
	if e := asError(err); e.Next != "" {
		c.off += fmt.Sprintf("; %s, then %%session stop: the next cell's session keeps them", e.Next)
	}
	c.mu.Unlock()
}

// usable waits for the fingerprint and says whether there is a cache.
func (c *cache) usable() bool {
	<-c.ready
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off == ""
}

// fingerprint is the hash of a file; what it was is kept next to the programs,
// for as long as the file looks the same.
func (c *cache) fingerprint(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return path, nil // found by the linker, such as libfoo.so: its name must do
	}
	look := fmt.Sprint(path, st.Size(), st.ModTime().UnixNano())
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		look += fmt.Sprint(" ", sys.Dev, sys.Ino, sys.Ctim.Sec, sys.Ctim.Nsec)
	}
	memo := filepath.Join(c.dir, "plugin.json")
	known := map[string]string{}
	if b, err := wire.ReadOwn(memo); err == nil && json.Unmarshal(b, &known) == nil && len(known[look]) == 2*sha256.Size {
		return known[look], nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if err := wire.ReplaceFile(memo, wire.JSON(map[string]string{look: sum})); err != nil {
		c.logf("cache: %v", err)
	}
	return sum, nil
}

// processor is what machine code for this computer may use: a home directory
// can be that of several computers.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	var parts []string
	for _, line := range strings.SplitN(string(b), "\n", 40) {
		k, v, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(k) {
		case "model name", "flags", "Features", "CPU part":
			parts = append(parts, v)
		case "":
			return strings.Join(parts, "\n")
		}
	}
	return strings.Join(parts, "\n")
}

func (c *cache) key(hash [32]byte) (key [32]byte) {
	h := sha256.New()
	h.Write(hash[:])
	io.WriteString(h, c.where)
	h.Sum(key[:0])
	return key
}

func (c *cache) path(key [32]byte) string {
	return filepath.Join(c.dir, hex.EncodeToString(key[:])+".program")
}

// has says whether a program seems to be on disk.
func (c *cache) has(hash [32]byte) bool {
	if !c.usable() {
		return false
	}
	_, err := os.Lstat(c.path(c.key(hash)))
	return err == nil
}

// load hands what is stored of a program to use. A file that is torn, that is
// another's, or that use refuses is removed. While use has it, it has another
// name: were it the death of us, the next session would not find it.
func (c *cache) load(hash [32]byte, use func([]byte) error) (found bool) {
	if !c.usable() {
		return false
	}
	key := c.key(hash)
	path := c.path(key)
	code, err := readEntry(path, key)
	if os.IsNotExist(err) {
		return false
	}
	if err == nil {
		trial := path + "." + rand.Text() // a process number may be another container's, too
		moved := os.Rename(path, trial) == nil
		if err = use(code); err == nil && moved {
			now := time.Now()
			os.Chtimes(trial, now, now)
			os.Rename(trial, path)
		} else if moved {
			os.Remove(trial)
		}
	}
	if err != nil {
		c.logf("program %x on disk: %v; it is compiled again", hash[:6], err)
		os.Remove(path)
	}
	return err == nil
}

func readEntry(path string, key [32]byte) ([]byte, error) {
	b, err := wire.ReadOwn(path)
	if err != nil {
		return nil, err
	}
	n := len(cacheMark)
	switch {
	case len(b) < entryHead || string(b[:n]) != cacheMark:
		return nil, fmt.Errorf("%d bytes that are not a program", len(b))
	case !bytes.Equal(b[n:n+32], key[:]):
		return nil, errors.New("it is another program's")
	}
	if sum := sha256.Sum256(b[entryHead:]); !bytes.Equal(sum[:], b[n+32:entryHead]) {
		return nil, errors.New("its checksum is wrong")
	}
	return b[entryHead:], nil
}

// store keeps a program.
func (c *cache) store(hash [32]byte, code []byte) error {
	if !c.usable() || int64(len(code)+entryHead) > c.limit/2 {
		return nil
	}
	if err := wire.PrivateDir(c.dir); err != nil { // it was removed by a reset, or opened to others
		return err
	}
	key := c.key(hash)
	sum := sha256.Sum256(code)
	b := make([]byte, 0, entryHead+len(code))
	b = append(append(append(append(b, cacheMark...), key[:]...), sum[:]...), code...)
	if err := wire.ReplaceFile(c.path(key), b); err != nil {
		return err
	}
	c.trim()
	return nil
}

// remove forgets a program.
func (c *cache) remove(hash [32]byte) {
	if c.usable() {
		os.Remove(c.path(c.key(hash)))
	}
}

// clear forgets all programs, and says how many.
func (c *cache) clear() int {
	l, _ := c.entries()
	for _, st := range l {
		os.Remove(filepath.Join(c.dir, st.Name()))
	}
	return len(l)
}

// entries lists the directory's programs, least recently used first.
func (c *cache) entries() (l []os.FileInfo, total int64) {
	d, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, 0
	}
	for _, e := range d {
		if st, err := e.Info(); err == nil && strings.Contains(e.Name(), ".program") {
			l, total = append(l, st), total+st.Size()
		}
	}
	sort.Slice(l, func(i, j int) bool { return l[i].ModTime().Before(l[j].ModTime()) })
	return l, total
}

// trim removes what was used least recently, until the rest fits, and what
// others have left half done.
func (c *cache) trim() {
	l, total := c.entries()
	for _, st := range l {
		stale := !strings.HasSuffix(st.Name(), ".program") && time.Since(st.ModTime()) > time.Hour
		if total > c.limit || stale {
			os.Remove(filepath.Join(c.dir, st.Name()))
			total -= st.Size()
		}
	}
}

// info describes the cache.
func (c *cache) info() wire.CacheInfo {
	i := wire.CacheInfo{Dir: c.dir, Limit: c.limit}
	l, total := c.entries()
	i.Entries, i.Bytes = len(l), total
	c.mu.Lock()
	i.Off = c.off
	c.mu.Unlock()
	return i
}
