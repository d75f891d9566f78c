package wire

import "time"

// HelloBody is the first thing a client says.
type HelloBody struct {
	Protocol int
	Version  string // of the client's build, for messages
	Space    string // the name space of its arrays: the notebook
	Client   string // for lists: what it is, such as "cell 12" or "bench"
	Listens  bool   `json:",omitempty"` // it shows its user a Note that is News
	Remote   bool   // it is on another machine: no shared memory
	PID      int    // its process
	Group    int    // and process group
	Origin   string `json:",omitempty"` // where these two mean something: see ProcessOrigin
}

// WelcomeBody answers Hello.
type WelcomeBody struct {
	Protocol        int
	Version         string
	Generation      int    // counts worker restarts, from 1
	Instance        string // of the worker: each start has another
	Note            string // what a restart brought back and what it lost, "" before the first
	News            bool   `json:",omitempty"` // something is not back, and this client is the first who listens
	Plugin          string // file of the XLA plugin
	Platform        string // as the plugin names it: cpu, cuda
	PlatformVersion string
	Devices         []DeviceInfo
	Boot            string // identity of the running kernel: shared memory works between equal ones
}

// DeviceInfo describes one device. Byte figures the plugin does not tell are -1.
type DeviceInfo struct {
	ID                 int
	Kind               string
	Host               string `json:",omitempty"` // of another host's
	InUse, Peak, Limit int64
	Pool               int64  // held by the allocator, used or not
	LargestFree        int64  // the largest array that fits without a gap
	Memory             int64  `json:",omitempty"` // what arrays can be in at most: Limit, of a CPU the machine's and its swap; 0: not known
	Left               int64  // what of that nobody has, -1: not known
	Capability         string `json:",omitempty"` // CUDA's compute capability: 9.0
}

// HostInfo describes a host of a session's besides its own.
type HostInfo struct {
	Address string
	Name    string // "" for one that has not joined
	Devices int
}

// Verb is what an Ask wants.
type Verb string

// The verbs, with the fields of AskBody they read and of AnswerBody they fill.
const (
	Lookup   Verb = "lookup"   // Names, Handles: those numbers now stand for the named arrays → Arrays
	Bind     Verb = "bind"     // Names, Handles: the arrays take the names, and the names of Remove are taken away where there are some, all at once; Was: what each name must stand for, else Busy and nothing is changed
	Delete   Verb = "delete"   // Names; one ending in * is a prefix → Count
	Lock     Verb = "lock"     // Prefix: until Unlock or the end of the connection only it changes names that begin with it; Names: what for, such as trains → Busy: who has it has gone, ask again
	Unlock   Verb = "unlock"   // Prefix
	List     Verb = "list"     // Prefix → Arrays
	Spaces   Verb = "spaces"   // → Spaces
	Programs Verb = "programs" // → Programs
	Evict    Verb = "evict"    // Names: hashes; none: all that no client holds → Count
	Report   Verb = "status"   // → Status
	Pulse    Verb = "pulse"    // what other clients do → Count: frames they have sent; Busy
	Cancel   Verb = "cancel"   // PID: drop what connections of that process group have queued → Count
	Drain    Verb = "drain"    // PID: wait for what that process had sent; errors nobody has read → Errors; the last that it was told, with a hint → Told
	Reset    Verb = "reset"    // all arrays and programs; Disk: also what is cached on disk
	Stop     Verb = "stop"     // the session
	Profile  Verb = "profile"  // Start: begin; else end → Data, an XSpace
	Pin      Verb = "pin"      // Names: hashes; Start: keep in memory, else no longer → Count
	Hosts    Verb = "hosts"    // Names: addresses of followers that join; Remove: of those that leave; Path: a file with the secret for TLS. If there are any, the worker saves all, and the next one starts → Hosts
	Quota    Verb = "quota"    // Bytes: what the arrays of the space may take, -1 for no bound → Spaces

	Snapshot  Verb = "snapshot"  // Names: its name, none for an automatic one → Snapshots
	Save      Verb = "save"      // now is a good moment for an automatic snapshot → Snapshots, none where the last one took too long to make another yet
	Snapshots Verb = "snapshots" // → Snapshots, oldest first
	Rollback  Verb = "rollback"  // Names: name or number, none for the newest; Prefix: only those arrays → Snapshots, Count
	Discard   Verb = "discard"   // Names: snapshots to delete → Count
	Mark      Verb = "mark cell" // Names: what the cell is called that begins now
	Undo      Verb = "undo cell" // gives names back what they stood for before the last cell that has changed some → Count, Arrays
	Diff      Verb = "diff"      // Names: from, to; no to is now; Prefix → Differences
	Export    Verb = "export"    // Path: a file to write; Names: a snapshot, none is now; Prefix; Metadata → Count
	Import    Verb = "import"    // Path: a file to read; Prefix: to put before its names → Arrays

	StartJob  Verb = "start job"  // Job → Jobs
	Jobs      Verb = "jobs"       // space "*" is all → Jobs
	PauseJob  Verb = "pause job"  // Names: the job's → Jobs
	ResumeJob Verb = "resume job" // Names: the job's → Jobs
	StopJob   Verb = "stop job"   // Names: the job's → Jobs
	ForgetJob Verb = "forget job" // Names: of jobs that have ended → Count
	FollowJob Verb = "follow job" // Names: the job's; From: first entry wanted; waits up to Wait for one → Jobs, Entries
)

// AskBody is a cold request.
type AskBody struct {
	Verb    Verb
	Space   string   `json:",omitempty"` // "" is the client's own
	Names   []string `json:",omitempty"`
	Handles []uint64 `json:",omitempty"`
	Was     []uint64 `json:",omitempty"` // handles; none: no condition
	Remove  []string `json:",omitempty"` // names; one ending in * is a prefix
	Prefix  string   `json:",omitempty"`
	PID     int      `json:",omitempty"`
	Disk    bool     `json:",omitempty"`
	Start   bool     `json:",omitempty"`

	Bytes    int64             `json:",omitempty"`
	Path     string            `json:",omitempty"`
	Metadata map[string]string `json:",omitempty"`
	Job      *JobBody          `json:",omitempty"`
	From     int               `json:",omitempty"`
	Wait     time.Duration     `json:",omitempty"`
}

// AnswerBody answers Ask.
type AnswerBody struct {
	Arrays   []ArrayInfo   `json:",omitempty"`
	Programs []ProgramInfo `json:",omitempty"`
	Hosts    []HostInfo    `json:",omitempty"`
	Spaces   []SpaceInfo   `json:",omitempty"`
	Errors   []*Error      `json:",omitempty"`
	Told     []*Error      `json:",omitempty"`
	Status   *Status       `json:",omitempty"`
	Count    int           `json:",omitempty"`
	Busy     bool          `json:",omitempty"` // somebody waits for a device
	Trouble  string        `json:",omitempty"` // with Drain: why the client's notebook is not saved
	Data     []byte        `json:",omitempty"`

	Cache       *CacheInfo     `json:",omitempty"` // with Programs
	Snapshots   []SnapshotInfo `json:",omitempty"`
	Differences []Difference   `json:",omitempty"`
	Jobs        []JobInfo      `json:",omitempty"`
	Entries     []JobEntry     `json:",omitempty"`
}

// ArrayInfo describes a named array.
type ArrayInfo struct {
	Name       string `json:",omitzero"`
	Space      string `json:",omitzero"`
	Type       Type
	Bytes      int64     `json:",omitzero"`
	Device     int       `json:",omitzero"`
	Used       time.Time `json:",omitzero"`
	Generation int       `json:",omitzero"`
	Owner      string    `json:",omitzero"` // the space whose client made it; its quota counts it
	Saved      int       `json:",omitzero"` // number of the snapshot file that has its data, 0 if none has
	Copy       bool      `json:",omitzero"` // of another array, made by a job: in no snapshot
}

// ProgramInfo describes a program in the worker's memory.
type ProgramInfo struct {
	Hash    string // first 12 hexadecimal digits
	Name    string
	Origin  string
	Shapes  string // of what it takes and gives, the first of each
	From    string // memory, disk or compiled
	Compile time.Duration
	Runs    int64
	Bytes   int64 // of generated code, -1 where the plugin does not tell
	Used    time.Time
	Hits    int64 // requests that found it in memory
	Clients int   // connections that hold it
	Pinned  bool
	OnDisk  bool          // the next session need not compile it
	Pace    time.Duration // device time of a run, 0 if not known
}

// CacheInfo describes the programs on disk.
type CacheInfo struct {
	Dir          string
	Entries      int
	Bytes, Limit int64
	Off          string // why nothing is kept there, "" if it is
}

// SpaceInfo describes a name space.
type SpaceInfo struct {
	Space  string
	Arrays int       // with a name
	Bytes  int64     // of all arrays that its clients made, named or not
	Undo   int64     // of them, what is kept so that its last cell can be undone
	Quota  int64     // 0 is none
	Saved  time.Time // of the newest snapshot, zero if there is none
	Note   string    // what came back from disk and what did not
}

// Status describes the session.
type Status struct {
	WelcomeBody
	PID, WorkerPID int
	Started        time.Time // of the worker
	Clients        []string
	Arrays         int // all that are alive, named or not
	Bytes          int64
	Programs       int
	Socket, Log    string
	Cache          CacheInfo
	Spaces         []SpaceInfo
	Jobs           []JobInfo
	Trouble        string // why snapshots are not written, "" if they are
}

// Space describes one of the spaces: one of this name that has nothing, where it is
// not among them.
func (s *Status) Space(name string) SpaceInfo {
	for _, i := range s.Spaces {
		if i.Space == name {
			return i
		}
	}
	return SpaceInfo{Space: name}
}
