// Package hosts makes the devices of several processes, on one host or on several, look like
// those of one: the border between the session's server and PJRT.
//
// # Who is who
//
// The session of a notebook is the controller: its worker is node 0. Every other host runs a
// follower (gaiden session join), which waits for a controller and has no device context of
// its own until one calls. The controller calls each follower twice, over a Unix socket of
// this user's, which SSH may forward, or over TLS with a shared secret ([Dial]): the
// controller opens no port. On the first connection the follower's worker obeys frames of
// package wire, as any session's worker does. On the second one it asks for keys of the
// controller's [Store], through which the plugins find each other (pjrt.NewNode). From then on
// XLA and NCCL move the data between devices; nothing here sums anything.
//
// # What a Client does
//
// [Client] has the methods of pjrt.Client that the server uses, and the devices of all nodes.
// An array is on one device; where that is another node's, the [pjrt.Buffer] is a number that
// stands for a handle of that follower. A program for several devices is compiled and executed
// by each node that has one of them: followers are sent it first, all in one order, then it
// starts here, since a collective waits for every node. So everything above this package,
// from snapshots to data-parallel training, works as with the devices of one process.
// Programs that run on several nodes are compiled by all of them at the same time, as XLA
// divides the search for the fastest kernels among them, and are not kept on disk.
//
// # What ends what
//
// A set of nodes is fixed when their clients are made. If one is lost, or a program of several
// nodes fails on one of them, the others cannot continue: they may wait for ever inside NCCL.
// So the worker of each node ends: a follower's with its connection, the controller's when a
// follower's connection ends or gives no sign of life for five seconds. The supervisor starts
// the next generation with the followers that answer, and arrays come back from the last
// snapshot, as after any crash of a worker. What is not noticed is a device that computes for
// ever while its process lives.
//
// # Limits
//
// An array that moves between nodes by CopyToDevice, or is downloaded from a follower, goes
// through the controller in one frame: 2 GiB at most. Package fit sends states and data sets
// from device to device instead. A program is for the devices of all nodes or of one.
//
//	nodes := hosts.Gather([]string{"/run/user/7/gaiden/join.sock"}, "", hosts.Call{Owner: "me"})
//	client, err := nodes.Open(plugin, options) // when all followers have made theirs
//	if err != nil {
//		return err
//	}
//	client.Watch(func(err error) { log.Fatal(err) })
//	client.Devices() // this node's, then those of the followers
package hosts
