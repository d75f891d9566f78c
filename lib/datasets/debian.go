package datasets

import (
	"archive/tar"
	"context"
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
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", path)
	cmd.WaitDelay = 2 * time.Second
	var complaint strings.Builder
	cmd.Stderr = &complaint
	contents, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	err = s.unpackTar(contents, missing)
	io.Copy(io.Discard, contents) // what is left must not block the command for ever
	if failed := cmd.Wait(); failed != nil {
		err = fmt.Errorf("%w: %s", failed, strings.TrimSpace(complaint.String()))
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
