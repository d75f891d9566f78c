package toolserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// depth is how many actions can be undone.
const depth = 10

// An action is a call that may have changed something, and what was before it.
type action struct {
	number   int
	title    string
	before   *notebook.Checkpoint
	snapshot string       // of the arrays; "" = there is none
	why      error        // why not
	undone   map[int]bool // what was undone then
}

// A history is the newest actions. The caller of its methods holds Server.busy.
type history struct {
	owner    *os.File // locked while the server runs; its name is in those of the snapshots
	notebook *notebook.Notebook
	last     int // number of the newest action
	actions  []*action
	undone   map[int]bool // actions that an undo has taken back, by number
	undos    map[int]bool // actions that are undos
	tidied   bool         // what processes that have ended left was removed
}

// prefix begins the names of the snapshots that servers take; the name of their lock follows.
const prefix = "gaiden-mcp-"

// begin notes the state before an action.
func (h *history) begin(title string) (*action, error) {
	before, err := h.notebook.Checkpoint()
	if err != nil {
		return nil, withHint(err)
	}
	h.last++
	a := &action{number: h.last, title: title, before: before, undone: maps.Clone(h.undone)}
	name := fmt.Sprintf("%s%s-%d", prefix, filepath.Base(h.owner.Name()), a.number)
	a.why = device(func(c *session.Session) error {
		if !h.tidied {
			h.tidy(c)
			h.tidied = true
		}
		if err := c.MarkCell(""); err != nil {
			return err
		}
		_, err := c.Snapshot(name)
		return err
	})
	if a.why == nil {
		a.snapshot = name
	}
	h.actions = append(h.actions, a)
	if len(h.actions) > depth+1 { // an undo needs the oldest that can be undone, and itself
		h.forget(h.actions[0])
		h.actions = h.actions[1:]
	}
	return a, nil
}

// forget frees what actions hold.
func (h *history) forget(actions ...*action) {
	var names []string
	for _, a := range actions {
		a.before.Release()
		if a.snapshot != "" {
			names = append(names, a.snapshot)
		}
	}
	if len(names) > 0 {
		h.discard(names)
	}
}

// discard removes snapshots where a session runs; one that does not is not started
// for that, and tidy removes them later.
func (h *history) discard(names []string) {
	c, err := session.Config{Client: "mcp", NoStart: true, Patience: 10 * time.Second}.Open()
	if err != nil {
		return
	}
	defer c.Close()
	c.Discard(names...) // one that has gone is what is wanted
}

// open makes the lock by which others see that the server runs.
func (h *history) open(n *notebook.Notebook) error {
	h.notebook = n
	if err := os.MkdirAll(owners(), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(owners(), rand.Text()), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	h.owner = f
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// owners is the directory of the servers' locks.
func owners() string { return filepath.Join(wire.CacheDir(), "mcp") }

func (h *history) close() {
	h.forget(h.actions...)
	os.Remove(h.owner.Name())
	h.owner.Close()
}

// tidy removes snapshots of servers that have ended without doing so. Those of servers in
// another container or on another machine have no lock here, and stay.
func (h *history) tidy(c *session.Session) {
	l, _ := c.Snapshots() // an error comes again with the next snapshot
	ended := map[string]bool{}
	for _, i := range l {
		owner, _, _ := strings.Cut(strings.TrimPrefix(i.Name, prefix), "-")
		if !strings.HasPrefix(i.Name, prefix) || owner == filepath.Base(h.owner.Name()) {
			continue
		}
		path := filepath.Join(owners(), filepath.Base(owner))
		if _, known := ended[path]; !known {
			f, err := os.Open(path)
			if err == nil {
				ended[path] = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
				f.Close()
			}
		}
		if ended[path] && c.Discard(i.Name) == nil {
			os.Remove(path)
		}
	}
}

// note is what a result says of how to undo its action.
func (a *action) note() string {
	if a.why != nil {
		why, _, _ := strings.Cut(a.why.Error(), "\n")
		return fmt.Sprintf("[action %d; undo takes back variables and declarations, but no arrays: %s]", a.number, why)
	}
	return fmt.Sprintf("[action %d; undo with action=%[1]d takes it back]", a.number)
}

// find returns the action of a number; 0 is the newest that is not undone.
func (h *history) find(number int) (*action, error) {
	recent := h.actions[max(0, len(h.actions)-depth):]
	for _, a := range slices.Backward(recent) {
		if a.number == number || number == 0 && !h.undone[a.number] && !h.undos[a.number] {
			return a, nil
		}
	}
	var there []string
	for _, a := range recent {
		there = append(there, fmt.Sprintf("%d (%s)", a.number, a.title))
	}
	if number == 0 {
		return nil, fmt.Errorf("undo: there is nothing to undo; actions: %s", cmp.Or(strings.Join(there, ", "), "none"))
	}
	return nil, fmt.Errorf("undo: got action %d, want one of %s; the newest %d are kept", number, cmp.Or(strings.Join(there, ", "), "none yet"), depth)
}

// undo restores what was before an action.
func (h *history) undo(number int) (target, self *action, err error) {
	if target, err = h.find(number); err != nil {
		return nil, nil, err
	}
	if self, err = h.begin(fmt.Sprintf("undo of %d", target.number)); err != nil {
		return nil, nil, err
	}
	if h.undos == nil {
		h.undos = map[int]bool{}
	}
	h.undos[self.number] = true
	if target.snapshot != "" {
		err = device(func(c *session.Session) error {
			_, err := c.Rollback(target.snapshot, "")
			return errors.Join(err, c.MarkCell(""))
		})
		if err != nil {
			return nil, nil, fmt.Errorf("undo: action %d: its arrays could not be restored, and nothing was changed: %w", target.number, err)
		}
	}
	target.before.Restore()
	undone := maps.Clone(target.undone)
	if undone == nil {
		undone = map[int]bool{}
	}
	if !h.undos[target.number] {
		for n := target.number; n < self.number; n++ {
			undone[n] = true
		}
	}
	h.undone = undone
	return target, self, nil
}

type undoIn struct {
	Action int `json:"action,omitempty" jsonschema:"number of the action; what came after it is undone, too; default: the newest that is not undone"`
}

type snapshotIn struct {
	Name string `json:"name" jsonschema:"what to call it"`
}

type rollBackIn struct {
	Snapshot string `json:"snapshot" jsonschema:"name or number of a snapshot, or last"`
	Prefix   string `json:"prefix,omitempty" jsonschema:"restore only arrays whose names begin with this, such as cnn/; default: all"`
}

func (s *Server) addUndo(server *mcp.Server) {
	addTool(server, "undo", changes(), fmt.Sprintf("Undoes an action and all that came after it: arrays, nets and data sets of the session, variables, declarations, environment variables and the working directory become what they were before it. The newest %d actions can be undone. Files stay. An undo is an action, too: undo with its number takes it back.", depth), s.undo)
	addTool(server, "snapshot", &mcp.ToolAnnotations{}, "Saves all arrays of the notebook (weights, optimizer state, data sets) to disk under a name; roll_back restores them, also after a restart. To undo: run_cell with %snapshot delete NAME.", s.snapshot)
	addTool(server, "list_snapshots", reads(), "Lists the snapshots of the notebook's arrays. Changes nothing.", s.listSnapshots)
	addTool(server, "roll_back", changes(), "Restores the notebook's arrays from a snapshot; arrays that the snapshot lacks are removed. Variables and declarations stay. To undo: undo with the action's number.", s.rollBack)
}

func (s *Server) undo(ctx context.Context, in undoIn) (said string, err error) {
	err = s.exclusive(ctx, func() error {
		target, self, err := s.history.undo(in.Action)
		if err != nil {
			return err
		}
		arrays := "; arrays are as they are"
		if target.snapshot != "" {
			arrays = " and arrays"
		}
		said = fmt.Sprintf("variables and declarations%s: as they were before action %d (%s)\n%s\n", arrays, target.number, target.title, self.note())
		return nil
	})
	return said, err
}

func (s *Server) snapshot(_ context.Context, in snapshotIn) (said string, err error) {
	err = device(func(c *session.Session) error {
		if in.Name == "" || strings.HasPrefix(in.Name, prefix) || in.Name == "last" {
			return fmt.Errorf("snapshot: got name %q, want one of your own", in.Name)
		}
		l, err := c.Snapshots()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(l, func(i wire.SnapshotInfo) bool { return i.Name == in.Name && i.Damaged == "" }) {
			return fmt.Errorf("snapshot: %q exists, and would be lost: choose another name, or run_cell with %%snapshot delete %s", in.Name, in.Name)
		}
		i, err := c.Snapshot(in.Name)
		if err == nil {
			said = fmt.Sprintf("snapshot %q: %s, %s\nroll_back with snapshot=%s restores it\n", i.Name, units.Plural(i.Arrays, "array"), units.Bytes(float64(i.Bytes)), i.Name)
		}
		return err
	})
	return said, err
}

// ownSnapshots are those that undo has not made.
func ownSnapshots(c *session.Session) ([]wire.SnapshotInfo, error) {
	l, err := c.Snapshots()
	return slices.DeleteFunc(l, func(i wire.SnapshotInfo) bool { return strings.HasPrefix(i.Name, prefix) }), err
}

func (s *Server) listSnapshots(context.Context, struct{}) (said string, err error) {
	err = device(func(c *session.Session) error {
		l, err := ownSnapshots(c)
		for _, i := range l {
			said += fmt.Sprintf("%d %s: %s, %s, %s%s\n", i.Number, cmp.Or(i.Name, "(automatic)"), i.Time.Local().Format(time.DateTime), units.Plural(i.Arrays, "array"), units.Bytes(float64(i.Bytes)), cmp.Or(i.Damaged, i.Held))
		}
		return err
	})
	return cmp.Or(said, "no snapshots\n"), err
}

func (s *Server) rollBack(ctx context.Context, in rollBackIn) (said string, err error) {
	err = s.exclusive(ctx, func() error {
		a, err := s.history.begin("roll_back to " + in.Snapshot)
		if err != nil {
			return err
		}
		if a.why != nil {
			return fmt.Errorf("roll_back: this could not be undone, and was not done: %w", a.why)
		}
		return device(func(c *session.Session) error {
			if in.Snapshot == "" {
				return errors.New("roll_back: got no snapshot, want a name or number: list_snapshots has them")
			}
			name := in.Snapshot
			if name == "last" { // not the one that begin has taken
				l, err := ownSnapshots(c)
				if err != nil {
					return err
				}
				if len(l) == 0 {
					return errors.New("roll_back: there is no snapshot")
				}
				name = strconv.Itoa(l[len(l)-1].Number)
			}
			i, err := c.Rollback(name, in.Prefix)
			if err == nil {
				err = c.MarkCell("")
				said = fmt.Sprintf("%s as in snapshot %d %s\n%s\n", units.Plural(i.Arrays, "array"), i.Number, i.Name, a.note())
			}
			return err
		})
	})
	return said, err
}
