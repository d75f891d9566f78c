package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// CellEnv names the environment variable that marks all processes of a cell. A
// process that is to survive it does not have it.
const CellEnv = "GAIDEN_CELL"

// SocketPath is where the session listens: GAIDEN_SOCKET, else session.sock in
// RuntimeDir.
func SocketPath() string {
	if s := os.Getenv("GAIDEN_SOCKET"); s != "" {
		if at, err := filepath.Abs(s); err == nil {
			return at
		}
		return s
	}
	return filepath.Join(RuntimeDir(), "session.sock")
}

// RuntimeDir is the directory of the socket: gaiden in XDG_RUNTIME_DIR, else a
// directory under the temporary one with the user's number in its name.
func RuntimeDir() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "gaiden")
	}
	return filepath.Join(TempDir(), fmt.Sprintf("gaiden-%d", os.Getuid()))
}

// TempDir is the directory of temporary files: TMPDIR, else /tmp.
//
// Here and below, a relative path in the environment is ignored, as the XDG base
// directory specification has it: for each process it would be another directory.
func TempDir() string {
	if d := os.TempDir(); filepath.IsAbs(d) {
		return d
	}
	return "/tmp"
}

// CacheDir holds what can be made again: programs, data sets, plugins.
func CacheDir() string { return home("XDG_CACHE_HOME", ".cache") }

// StateDir holds what cannot: snapshots and logs.
func StateDir() string { return home("XDG_STATE_HOME", ".local/state") }

// HomeEnv names the environment variable with the directory of a library that came in a
// package together with the program gaiden. The program sets it for what it starts.
const HomeEnv = "GAIDEN_HOME"

// DataDir holds the library's source for cells, and what gaiden install puts there, such
// as the program: what HomeEnv names, else UserDataDir.
func DataDir() string {
	if d := os.Getenv(HomeEnv); filepath.IsAbs(d) {
		return d
	}
	return UserDataDir()
}

// UserDataDir is this user's DataDir, whatever program runs.
func UserDataDir() string { return home("XDG_DATA_HOME", ".local/share") }

func home(env, fallback string) string {
	if d := os.Getenv(env); filepath.IsAbs(d) {
		return filepath.Join(d, "gaiden")
	}
	return filepath.Join(HomeDir(), fallback, "gaiden")
}

// HomeDir is the user's home directory: HOME, else what the system's list of users says,
// else a directory under the temporary one with the user's number in its name, as that of
// RuntimeDir. Others can make files in the temporary directory itself: see [TrustedPath].
func HomeDir() string {
	if h, err := os.UserHomeDir(); err == nil && filepath.IsAbs(h) {
		return h
	}
	return trust{uid: os.Getuid(), etc: "/etc"}.home()
}

// ReplaceFile writes a file of this user's alone, whole or not at all: a new one in the
// same directory, which then takes its name. It does not wait for the disk: whoever reads
// the file must detect what a power cut may have torn. See [ReplaceFileSync].
func ReplaceFile(path string, b []byte) error { return replaceFile(path, b, false) }

// ReplaceFileSync is ReplaceFile, and returns when contents and name are on disk.
func ReplaceFileSync(path string, b []byte) error { return replaceFile(path, b, true) }

func replaceFile(path string, b []byte, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	if sync {
		return SyncDir(filepath.Dir(path))
	}
	return nil
}

// SyncDir puts the names in a directory on disk. Some file systems cannot, and need not.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// PrivateDir makes dir with mode 0700 when it is not there, and refuses one
// that another user could read or has made.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("wire: private directory: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("wire: private directory: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		return Errorf(Denied, "wire: %s is a symbolic link: want a directory of your own", dir).WithHint("remove it")
	case !st.IsDir():
		return Errorf(Denied, "wire: %s is not a directory", dir).WithHint("remove it")
	case ok && int(sys.Uid) != os.Getuid():
		return Errorf(Denied, "wire: %s belongs to user %d: want %d", dir, sys.Uid, os.Getuid()).WithHint("set XDG_RUNTIME_DIR to a directory of your own")
	case st.Mode().Perm()&0o002 != 0 || st.Mode().Perm()&0o077 != 0 && st.Mode()&os.ModeSticky != 0:
		return Errorf(Denied, "wire: %s is everybody's: want a directory of your own", dir).WithHint("mkdir -m 700 %s, and use that", filepath.Join(dir, "gaiden-"+strconv.Itoa(os.Getuid())))
	case st.Mode().Perm()&0o077 != 0:
		return Errorf(Denied, "wire: %s has mode %#o: want 0700", dir, st.Mode().Perm()).WithHint("chmod 700 %s", dir)
	}
	// Who owns a directory above it can put another one in its place. (In one of a group,
	// a project's on a cluster say, that is left to the group.)
	return trust{uid: os.Getuid(), etc: "/etc", groups: true}.check(dir)
}

// BootID identifies the running kernel, "" where the system does not tell.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ProcessOrigin identifies the machine and the process namespace, a container's for
// example, in which this process has its number: in another one that is another's.
func ProcessOrigin() string {
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return BootID() + " " + namespace
}
