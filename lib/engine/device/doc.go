// Package device is the session's server: a supervisor, which owns the socket and has no device
// context, and a worker, which owns the devices.
//
// The supervisor listens on a Unix socket in a directory of mode 0700 and passes the listener to
// the worker that it starts. The worker accepts connections, checks the peer's user, and serves
// each client with two goroutines: one reads frames and handles what must not wait; the other
// handles the rest, in order (queue.go). When the worker dies, clients lose their connections,
// and new ones wait in the listener's queue for the next worker, of the next generation: no
// connection is refused, and none hangs on a dead process.
//
// What a worker holds:
//
//   - arrays: device buffers, counted by the handles and names that refer to them, and charged to
//     the space whose client created them (array.go, quota.go);
//   - names: bound together once a program has been accepted; if it fails on the device, they
//     return to the old arrays where those still exist (execute.go, execution.go);
//   - programs: identified by hash, compiled once for all clients (ledger.go), and cached on disk
//     for the next worker (cache.go);
//   - snapshots: the arrays of a space at one moment, as files of an archive (snapshot.go,
//     archive.go, restore.go, rollback.go). Taking one stops nobody: arrays do not change, and a
//     program to which an array is donated while it is being saved writes its result elsewhere
//     (take in execute.go);
//   - jobs: loops that continue without a client, each with a log (job.go, askjob.go);
//   - undo: what the last cell replaced, kept in device memory (undo.go);
//   - hosts: followers, whose devices come after its own (nodes.go, follower.go, package hosts).
//     When one joins, leaves or is lost, the worker ends, and the next one has the others.
//
// # After a crash
//
// Names, programs and jobs stay when a client disconnects. After a crash of the worker, a stop or
// a restart of the machine, the arrays of a space come back from its newest intact snapshot when
// the first client opens that space, and its jobs continue from the step in that snapshot.
// Welcome tells clients what was restored, how old it is, and what was lost.
//
// Automatic snapshots are taken after two seconds without a change, after each turn of a job, when
// a client suggests it, and when the session stops; during a long training once a minute. They
// are spaced so that they take at most a twentieth of the time while somebody works with the
// space, and a hundredth during a training. The newest three are kept, and all named ones.
//
// On a GPU with little free memory, arrays use CUDA's own pool, which has a limit, and from which
// other processes get what is unused (pool.go). A program that does not fit is refused before
// XLA sees it (free.go).
//
// A GPU can fail while the worker lives: after an out-of-bounds kernel, CUDA refuses every call of
// the process. After an error that may mean this, the worker writes four bytes to each device and
// ends if it cannot read them back (health.go).
//
// Nothing on disk is trusted: programs and snapshots have checksums, and are written as temporary
// files and renamed, in directories that nobody else may read. A damaged program is compiled
// again; in place of a damaged snapshot, the one before it is used. A full disk is reported
// (wire.Status.Trouble) and writing is tried again; older files stay.
//
// Requests of a client take effect even if it disconnects at once. What a worker prints when it
// crashes is sent to its clients and written to a file in CrashDir (lastwords.go).
//
// # Fairness
//
// The executions of a client that the device has not finished are limited in number and in the
// device time that they are known to take: 50 ms, or one longer program. Another client's short
// program waits no longer than that.
//
// Package device imports pjrt and wire; cells link package session instead.
//
//	s := device.Supervisor{Version: "0.1", Command: []string{"/proc/self/exe", "session", "worker"}}
//	err := s.Run() // returns when a client asks to stop
package device
