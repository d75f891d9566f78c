package wire

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// TrustedPath refuses a file or directory whose contents somebody other than
// this user and root can change or replace: a program, plugin or library from
// there would run as this user. It looks at the path itself and at every
// directory and symbolic link on the way to it, as sshd's StrictModes does for
// keys:
//
//   - the owner of each is this user or root;
//   - none is writable by the group or by others. A group that this user is
//     the only member of counts as the user (useradd and umask 002), unless an access
//     control list lets others write, too;
//   - a directory on the way (not the path itself) may be writable by all if
//     it is sticky, as /tmp is: there only the owner of an entry can replace it.
//
// What passes stays trusted: nobody else can change it afterwards. So call it
// after the file or directory was created and before anything is read from it.
// A path that does not exist gives an error that is fs.ErrNotExist; what is
// refused gives an [Error] with code [Denied], which names the part of the path
// and the next step.
func TrustedPath(path string) error { return trust{uid: os.Getuid(), etc: "/etc"}.check(path) }

// trust is the user in question, and where the system lists users and groups.
type trust struct {
	uid    int
	etc    string
	groups bool // what a group can write to will do
}

// maxLinks is how many symbolic links one path may have, as in Linux.
const maxLinks = 40

func (t trust) check(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	refused := func(at, why, next string) error {
		return Errorf(Denied, "%s is not used: %s: want files and directories that only you and root can change", path, why).WithHint("%s", fmt.Sprintf(next, at))
	}
	const ( // what to do
		own    = "see who made %s; use one of your own, or chown it if you trust its contents"
		closed = "chmod go-w %s, if you trust its contents"
	)
	at, rest, links := "/", split(abs), 0
	shared := false // anybody may make entries in the directory above
	for first := true; first || len(rest) > 0; first = false {
		next := at
		if !first {
			if rest[0] == ".." {
				at, rest = filepath.Dir(at), rest[1:]
				continue
			}
			next, rest = filepath.Join(at, rest[0]), rest[1:]
		}
		st, err := os.Lstat(next)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok {
			return Errorf(Unsupported, "%s: the owner of %s is not known", path, next)
		}
		if owner := int(sys.Uid); owner != t.uid && owner != 0 && (shared || !t.unmapped(owner)) {
			return refused(next, fmt.Sprintf("%s belongs to user %d", next, owner), own)
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(next)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if links++; links > maxLinks {
				return fmt.Errorf("%s: %w", path, syscall.ELOOP)
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(split(target), rest...)
			continue
		}
		mode := st.Mode()
		shared = mode&0o002 != 0 || mode&0o020 != 0 && !t.groups && (!t.private(int(sys.Gid)) || t.granted(next))
		sticky := mode.IsDir() && mode&fs.ModeSticky != 0 && len(rest) > 0
		if shared && !sticky {
			who := fmt.Sprintf("group %d", sys.Gid)
			switch {
			case mode&0o002 != 0:
				who = "everybody"
			case t.private(int(sys.Gid)):
				who = "those in its access control list (getfacl)"
			}
			return refused(next, fmt.Sprintf("%s can be changed by %s (mode %#o)", next, who, mode.Perm()), closed)
		}
		at = next
	}
	return nil
}

func split(path string) []string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	return slices.DeleteFunc(parts, func(part string) bool { return part == "." })
}

// home is the home directory that the system lists for the user, if it is one that can be
// used.
func (t trust) home() string {
	for _, f := range t.entries("passwd", 6) {
		if f[2] == strconv.Itoa(t.uid) && filepath.IsAbs(f[5]) && f[5] != "/" && t.check(f[5]) == nil {
			return f[5]
		}
	}
	return filepath.Join(TempDir(), fmt.Sprintf("gaiden-%d", t.uid))
}

// granted says whether the access control list of a file lets another user or another
// group write. Whether the list's mask lets them is in the group bits of the mode.
func (t trust) granted(path string) bool {
	const head, entry, write, namedUser, namedGroup = 4, 8, 2, 0x02, 0x08 // linux/posix_acl_xattr.h
	list := make([]byte, 64<<10)
	n, err := syscall.Getxattr(path, "system.posix_acl_access", list)
	if err != nil || n < head {
		return false // no list, or a file system without them
	}
	for e := list[head:n]; len(e) >= entry; e = e[entry:] {
		tag, may, id := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:]), int(binary.LittleEndian.Uint32(e[4:]))
		if may&write != 0 && (tag == namedUser && id != t.uid && id != 0 || tag == namedGroup && !t.private(id)) {
			return true
		}
	}
	return false
}

// private says whether no user but this one and root is in a group.
func (t trust) private(gid int) bool {
	id, me := strconv.Itoa(gid), strconv.Itoa(t.uid)
	name, known := "", map[string]bool{} // names that are this user or root
	for _, f := range t.entries("passwd", 4) {
		if f[2] == me || f[2] == "0" {
			known[f[0]] = true
			if f[2] == me {
				name = f[0]
			}
		} else if f[3] == id {
			return false
		}
	}
	for _, f := range t.entries("group", 4) {
		if f[2] != id {
			continue
		}
		for _, member := range strings.Split(f[3], ",") {
			if member != "" && !known[member] {
				return false
			}
		}
		return true
	}
	// A directory service has the group: its members are not known, but one with
	// the number of a user whom it has too is that user's own.
	return name == "" && gid == t.uid
}

// entries are the lines of a table of the system that have n fields at least.
func (t trust) entries(table string, n int) [][]string {
	b, err := os.ReadFile(filepath.Join(t.etc, table))
	if err != nil {
		return nil
	}
	var l [][]string
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= n {
			l = append(l, f)
		}
	}
	return l
}

// unmapped says whether a user number stands for all those that this process'
// user namespace does not have: in a container without root, root of the host
// looks so.
func (t trust) unmapped(uid int) bool {
	if b, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(uid) {
		return false
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		from, _ := strconv.ParseInt(f[0], 10, 64)
		n, _ := strconv.ParseInt(f[2], 10, 64)
		if from <= int64(uid) && int64(uid) < from+n {
			return false // it is a user of this namespace
		}
	}
	return true
}

// Peer asks the system whose process is at the other end of a Unix socket.
func Peer(conn *net.UnixConn) (cred *syscall.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); failed != nil {
		return nil, failed
	}
	return cred, err
}
