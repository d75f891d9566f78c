package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Waiting for a mirror: without a network it fails within seconds; a slow
// connection is not cut off while bytes still arrive.
const (
	connectWithin = 3 * time.Second
	answerWithin  = 10 * time.Second
	stallAfter    = 30 * time.Second
	attempts      = 3 // of one file from one mirror, while each brings more bytes
)

func (s *store) client() *http.Client {
	if s.options.Client != nil {
		return s.options.Client
	}
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectWithin}).DialContext,
		TLSHandshakeTimeout:   2 * connectWithin,
		ResponseHeaderTimeout: answerWithin,
		ForceAttemptHTTP2:     true,
		// The files are gzip files: a transport that unpacks on the way
		// would break both sums and resuming.
		DisableCompression: true,
	}}
}

// A download is a packed file that mirrors have.
type download struct {
	name string                    // behind the address of a mirror
	what string                    // for Options.Progress
	size int64                     // at most, in bytes
	take func(packed string) error // proves and unpacks what has come
}

// fromMirrors brings files, each from the first mirror that has it whole. A mirror that
// fails once is not asked again. It returns the mirrors used.
func (s *store) fromMirrors(ctx context.Context, usual []string, files []download) (string, error) {
	mirrors, err := s.mirrors(usual)
	if err != nil {
		return "", err
	}
	client := s.client()
	defer client.CloseIdleConnections()
	var used []string
	dead := map[string]error{}
	for _, f := range files {
		found := false
		for _, mirror := range mirrors {
			if dead[mirror] != nil || ctx.Err() != nil {
				continue
			}
			if dead[mirror] = s.fetchPacked(ctx, client, mirror, f); dead[mirror] != nil {
				continue
			}
			if !slices.Contains(used, mirror) {
				used = append(used, mirror)
			}
			found = true
			break
		}
		if !found {
			var reasons []error
			for _, mirror := range mirrors {
				if dead[mirror] != nil {
					reasons = append(reasons, dead[mirror])
				}
			}
			err := joined(reasons)
			if ctx.Err() == nil {
				s.rememberFailure(err)
			}
			return "", err
		}
	}
	return strings.Join(used, ", "), nil
}

// fetchPacked brings one file and unpacks it. What another run left unfinished
// is continued; when that turns out to be damaged, it starts afresh once.
func (s *store) fetchPacked(ctx context.Context, client *http.Client, mirror string, f download) error {
	part := filepath.Join(s.dir, f.name+".part")
	address, err := url.JoinPath(mirror, f.name)
	if err != nil {
		return fmt.Errorf("mirror %q: %w", mirror, err)
	}
	for {
		resumed, err := s.download(ctx, client, address, f.what, part, f.size)
		if err != nil {
			return err
		}
		err = f.take(part)
		removal := os.Remove(part) // unpacked, or of no use
		if err == nil {
			return nil
		}
		if !resumed || removal != nil {
			return fmt.Errorf("%s: %w", mirror, errors.Join(err, removal))
		}
	}
}

// download makes part the whole of what the address holds, continuing from
// the bytes that part has. It tells whether any of them were there before.
func (s *store) download(ctx context.Context, client *http.Client, address, what, part string, limit int64) (resumed bool, err error) {
	out, err := open(part, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return false, fmt.Errorf("datasets: %w", err)
	}
	defer out.Close()
	for attempt := 1; ; attempt++ {
		have, err := out.Seek(0, io.SeekEnd)
		if err != nil {
			return resumed, err
		}
		if attempt == 1 {
			resumed = have > 0
		}
		err = s.request(ctx, client, address, what, out, have, limit)
		now, _ := out.Seek(0, io.SeekEnd)
		if err == nil {
			return resumed, out.Close()
		}
		if now <= have || attempt == attempts || ctx.Err() != nil {
			if now == 0 {
				os.Remove(part)
			}
			return resumed, err
		}
	}
}

// request asks for the bytes from have on and appends them to out.
func (s *store) request(ctx context.Context, client *http.Client, address, what string, out *os.File, have, limit int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := client.Do(req)
	if err != nil {
		return plain(address, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusPartialContent:
		if start := fmt.Sprintf("bytes %d-", have); !strings.HasPrefix(resp.Header.Get("Content-Range"), start) {
			out.Truncate(0)
			return fmt.Errorf("%s: requested %s, got range %q", address, start, resp.Header.Get("Content-Range"))
		}
	case http.StatusOK: // from the start, whatever was asked
		if err := out.Truncate(0); err != nil {
			return err
		}
		have = 0
	case http.StatusRequestedRangeNotSatisfiable:
		// Nothing behind what is there: either it is whole, or it is
		// not a part of this file. The sum will tell.
		return nil
	default:
		return fmt.Errorf("%s: the server says %s", address, resp.Status)
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return err
	}
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if total > limit {
		return fmt.Errorf("%s: has %d bytes, want at most %d", address, total, limit)
	}
	stalled := time.AfterFunc(stallAfter, func() { cancel(fmt.Errorf("no byte for %v", stallAfter)) })
	defer stalled.Stop()
	buf := make([]byte, 256<<10)
	for done := have; ; {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			stalled.Reset(stallAfter)
			if _, err := out.Write(buf[:n]); err != nil {
				return fmt.Errorf("datasets: %w", err)
			}
			if done += int64(n); done > limit {
				return fmt.Errorf("%s: has more than %d bytes", address, limit)
			}
			if s.options.Progress != nil {
				s.options.Progress(what, done, total)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("%s: after %d bytes: %w", address, done, err)
		}
	}
}

// plain shortens what net/http says of a request that did not get through: it
// repeats the address, and one line for each mirror is enough.
func plain(address string, err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	// The DNS server and its protocol do not help the reader.
	if dns := new(net.DNSError); errors.As(err, &dns) {
		err = errors.New(dns.Err)
	}
	host := address
	if u, parseErr := url.Parse(address); parseErr == nil && u.Host != "" {
		host = u.Host
	}
	return fmt.Errorf("%s: %w", host, err)
}

// joined puts errors on one line, which errors.Join does not.
func joined(errs []error) error {
	switch len(errs) {
	case 0:
		return errors.New("nothing was tried")
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w; %w", errs[0], joined(errs[1:]))
}
