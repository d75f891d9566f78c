package datasets

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fromInstalled takes the files of a package that is installed on the machine.
func (c *collection) fromInstalled(_ context.Context, s *store, missing []file) (string, error) {
	if c.debian == "" || c.installed == "" {
		return "", nil
	}
	for _, f := range missing {
		packed, err := os.Open(filepath.Join(c.installed, f.name+".gz"))
		if err != nil {
			return "", nil // not installed: no fault worth a word
		}
		err = s.unpack(f, packed)
		packed.Close()
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.installed, err)
		}
	}
	return "the installed package " + c.debian, nil
}

// fromPlacedPackage takes a package file that somebody put into the folder by
// hand, which is how a machine without network gets one.
func (c *collection) fromPlacedPackage(ctx context.Context, s *store, missing []file) (string, error) {
	if c.debian == "" {
		return "", nil
	}
	packages, _ := filepath.Glob(filepath.Join(s.dir, c.debian+"_*.deb"))
	if len(packages) == 0 {
		return "", nil
	}
	return packages[0], s.unpackDeb(ctx, packages[0], missing)
}

// fromArchive downloads the package with the system's own tool, which proves
// its signature. No root is needed for that, nor is anything installed.
func (c *collection) fromArchive(ctx context.Context, s *store, missing []file) (string, error) {
	if c.debian == "" {
		return "", nil
	}
	if s.options.Offline {
		return "", nil // fromMirrors has said so
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", fmt.Errorf("package %s: no apt-get here, so this is no Debian", c.debian)
	}
	if s.options.Progress != nil {
		s.options.Progress("package "+c.debian, 0, -1)
	}
	work, err := os.MkdirTemp(s.dir, "apt-*")
	if err != nil {
		return "", fmt.Errorf("datasets: %w", err)
	}
	defer os.RemoveAll(work)
	err = apt(ctx, work, "download", c.debian)
	if err != nil && ctx.Err() == nil {
		// Fresh machines and images have no package lists. Lists of our own
		// need no root.
		own, ownErr := ownLists(work)
		if ownErr == nil {
			ownErr = apt(ctx, work, append(own, "update")...)
		}
		if ownErr == nil {
			err = apt(ctx, work, append(own, "download", c.debian)...)
		}
	}
	if err != nil {
		return "", fmt.Errorf("package %s: %w", c.debian, err)
	}
	packages, _ := filepath.Glob(filepath.Join(work, c.debian+"_*.deb"))
	if len(packages) == 0 {
		return "", fmt.Errorf("package %s: apt-get download left no file", c.debian)
	}
	if info, err := os.Stat(packages[0]); err == nil && s.options.Progress != nil {
		s.options.Progress("package "+c.debian, info.Size(), info.Size())
	}
	return "package " + c.debian, s.unpackDeb(ctx, packages[0], missing)
}

// apt runs apt-get in a folder. Its configuration is the system's.
func apt(ctx context.Context, dir string, args ...string) error {
	args = append([]string{"-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"}, args...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 2*time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if reason, found := strings.CutPrefix(strings.TrimSpace(line), "E: "); found {
			return fmt.Errorf("apt-get: %s", reason)
		}
	}
	return fmt.Errorf("apt-get: %w", err)
}

func ownLists(work string) (options []string, err error) {
	state, cache := filepath.Join(work, "state"), filepath.Join(work, "cache")
	for _, dir := range []string{filepath.Join(state, "lists", "partial"), filepath.Join(cache, "archives", "partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return []string{"-o", "Dir::State=" + state, "-o", "Dir::Cache=" + cache, "-o", "Dir::State::status=/var/lib/dpkg/status",
		// Lists go to a folder that apt's own user may not enter.
		"-o", "APT::Sandbox::User=root"}, nil
}

// unpackDeb takes the files out of a package file.
func (s *store) unpackDeb(ctx context.Context, path string, missing []file) error {
	deb, err := os.Open(path)
	if err != nil {
		return err
	}
	defer deb.Close()
	member, name, err := debData(deb)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	contents, wait, err := decompress(ctx, name, member)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = s.unpackTar(contents, missing)
	// A decompressor that has more to say must not block for ever.
	io.Copy(io.Discard, contents)
	if failed := wait(); err == nil && failed != nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *store) unpackTar(contents io.Reader, missing []file) error {
	wanted := map[string]file{}
	for _, f := range missing {
		wanted[f.name+".gz"] = f
	}
	archive := tar.NewReader(contents)
	for len(wanted) > 0 {
		header, err := archive.Next()
		if err == io.EOF {
			return fmt.Errorf("the archive lacks %s", strings.Join(names(missing), ", "))
		}
		if err != nil {
			return err
		}
		f, found := wanted[filepath.Base(header.Name)]
		if !found || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := s.unpack(f, archive); err != nil {
			return err
		}
		delete(wanted, f.name+".gz")
	}
	return nil
}

// decompress reads the data member of a package. Debian packs it with xz,
// which Go's standard library cannot read: the xz command does it, or
// dpkg-deb's own code where there is no such command.
func decompress(ctx context.Context, name string, member io.Reader) (contents io.Reader, wait func() error, err error) {
	command := map[string][]string{
		".tar":     {"cat"},
		".tar.gz":  {"gzip", "-dc"},
		".tar.xz":  {"xz", "-dc"},
		".tar.zst": {"zstd", "-dc"},
	}[strings.TrimPrefix(name, "data")]
	if command == nil {
		return nil, nil, fmt.Errorf("deb: %s is packed in a way not known here", name)
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, nil, fmt.Errorf("deb: %s needs the command %s: install the package %s-utils or %s", name, command[0], command[0], command[0])
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.WaitDelay = member, 2*time.Second
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return out, func() error {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("deb: %s: %w: %s", command[0], err, strings.TrimSpace(complaint.String()))
		}
		return nil
	}, nil
}

// debData finds the data member of a Debian package: an ar archive, whose
// members follow a header of 60 bytes each (deb(5), ar(5)).
func debData(deb io.Reader) (member io.Reader, name string, err error) {
	magic := make([]byte, 8)
	if _, err := io.ReadFull(deb, magic); err != nil || string(magic) != "!<arch>\n" {
		return nil, "", errors.New("deb: not a Debian package")
	}
	header := make([]byte, 60)
	for {
		if _, err := io.ReadFull(deb, header); err != nil {
			return nil, "", errors.New("deb: the package has no data member")
		}
		var size int64
		if _, err := fmt.Sscanf(string(header[48:58]), "%d", &size); err != nil || size < 0 || string(header[58:]) != "`\n" {
			return nil, "", errors.New("deb: a member header is damaged")
		}
		name := strings.TrimRight(string(header[:16]), " /")
		if strings.HasPrefix(name, "data.tar") {
			return io.LimitReader(deb, size), name, nil
		}
		if _, err := io.CopyN(io.Discard, deb, size+size%2); err != nil {
			return nil, "", errors.New("deb: the package ends too early")
		}
	}
}
