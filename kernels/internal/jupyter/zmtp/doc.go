// Package zmtp is the kernel's side of ZeroMQ: the sockets that a Jupyter
// kernel binds, speaking ZMTP 3.0 (https://rfc.zeromq.org/spec/23/) with the
// NULL mechanism over TCP or Unix sockets.
//
// A kernel needs three patterns and only ever listens: ROUTER (shell, control,
// stdin), XPUB (iopub) and an echo for the heartbeat. A [Socket] is all three:
// Receive is called for every message of a [Peer], [Socket.Send] routes by
// identity, [Socket.Publish] goes to subscribers.
//
//	s := &zmtp.Socket{Type: zmtp.Router}
//	s.Receive = func(p *zmtp.Peer, frames [][]byte) { p.Send(frames) } // an echo
//	if err := s.Listen("tcp://127.0.0.1:0"); err != nil {
//		return err
//	}
//	defer s.Close(time.Second) // up to a second to send what is queued
//
// What it promises, and why the kernel does not bind go-zeromq/zmq4's own
// sockets (v0.17.0, each figure tried). The test client does use them, so every
// test is also one against a second implementation.
//
//   - No peer waits for another: each has a queue and a writer of its own. There
//     a PUB socket writes to its subscribers one after the other under one lock,
//     and so does a ROUTER. Next to a subscriber that read nothing, another got
//     396 of 20,000 messages, and no more.
//   - Nothing is dropped. The writer of a flood can wait ([Socket.Room]) until
//     the queues are short; status messages need not. A subscriber that takes
//     nothing for a minute while its queue is full is disconnected and named in
//     the log.
//   - Close sends what is queued. There the queue is lost: of 2,000 messages
//     before Close 623 arrived.
//   - A peer cannot hurt: the size of a message is limited and memory grows only
//     with bytes received. There a frame header that claims 2^62 bytes panics,
//     before any signature is looked at, and a connection that never says hello
//     blocks every later one.
//   - A message is one writev, many queued messages too. There a message of 7
//     frames is 14 small writes.
//
// It refuses: connecting, security mechanisms, ZMTP 1 and 2.
package zmtp
