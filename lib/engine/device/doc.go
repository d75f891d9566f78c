// Package device is the session's server: the supervisor, which owns the socket
// and has no device context, and the worker, which owns the devices.
//
// The supervisor listens on a Unix socket in a directory of mode 0700 and hands
// the listener to the worker it starts. The worker accepts, checks the peer's
// user, and serves each client with two goroutines: one reads frames, answers what
// must not wait and obeys what takes no time; the other obeys the rest, in order
// (queue.go). When the worker dies, clients lose their connections and new ones
// wait in the listener's queue until the next worker, of the next generation,
// takes them: nobody is refused and nobody hangs on a dead process.
//
// What a worker keeps:
//
//   - arrays: device buffers, counted by the handles and names that hold them,
//     and accounted to the space whose client made them (array.go, quota.go);
//   - names: bound when a program has been accepted, all at once, and given
//     back when it fails on the device and the old arrays still exist
//     (execute.go, execution.go);
//   - programs: by hash, compiled once however many ask (ledger.go), and on disk
//     for the next worker (cache.go);
//   - snapshots: the arrays of a space at one moment, in files of an archive
//     (snapshot.go, archive.go, restore.go, rollback.go). They are made without
//     stopping anybody: an array does not change, and a program that is given one
//     which is being saved writes its result elsewhere (take in execute.go);
//   - jobs: loops that continue without a client (job.go, askjob.go), with a log;
//   - undo: what the last cell has replaced, in the memory where it was (undo.go);
//   - hosts: followers, whose devices come after its own (nodes.go, follower.go, package
//     hosts). Who joins or leaves, or is lost, ends the worker, and the next one has the rest.
//
// # What survives what
//
// A client that goes leaves its names, its programs and its jobs. When the worker
// dies, or the session is stopped, or the machine, the arrays of a space come back
// from its newest snapshot that is whole, when the first client asks for that
// space; its jobs continue from the step that the same snapshot has. Clients are
// told in Welcome what came back, of when it is, and what is lost. Automatic
// snapshots are made after two seconds without a change, after a turn of a job and
// where a client says that it is a good moment; but no sooner than a twentieth of the
// time is what the last one took, unless nobody works with the space. And they are
// made when the session stops, and in a training without end once a minute, or more
// rarely where that would take more than a hundredth of the time. Three are kept, and
// all that have names.
//
// Where the memory of a GPU is scarce it is that of CUDA's own pool, whose limit is kept
// here, and other processes can have what is unused (pool.go); what a program has no room
// for is refused before XLA sees it (free.go).
//
// A device may be lost while the worker lives: after a kernel that has left its
// arrays CUDA refuses all that the process asks for. So after an error that may have
// been its end each device is given four bytes to keep, and a worker that does not
// get them back ends (health.go).
//
// Nothing on disk is trusted: programs and snapshots are checked by sums,
// written as temporary files and renamed, in directories that nobody else may
// read. What is damaged is passed over: a program is compiled again, a
// snapshot's predecessor is taken. A full disk is reported (wire.Status.Trouble)
// and tried again; what was there before stays.
//
// What a client has said is obeyed when the client has gone, too: a program may
// end right after its last call. What a worker says when it crashes goes to its
// clients and to a file of CrashDir (words.go).
//
// # Whose turn it is
//
// A client's executions that the device has not finished are bounded in number,
// and by the device time they are known to take: 50 ms, or one program that
// takes longer. So another client's short program waits for that at most.
//
// Package device imports pjrt and wire; what a cell links is package session.
//
//	s := device.Supervisor{Version: "0.1", Command: []string{"/proc/self/exe", "session", "worker"}}
//	err := s.Run() // returns when a client asks to stop
package device
