// Package jupyter is the Jupyter messaging protocol, version 5.4, from the
// kernel's side: https://jupyter-client.readthedocs.io/en/stable/messaging.html.
//
// It has the three parts of xeus. A [Server] is the five sockets and the
// signatures. The core, which [Run] starts, routes requests and owns what no
// interpreter may forget: busy and idle, replies, the execution count, the
// history, the aborting of queued cells. An [Interpreter] runs cells and is all
// that a language author writes:
//
//	type echo struct{}
//
//	func (echo) Execute(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
//		out.Stream("stdout", []byte(req.Code+"\n"))
//		return jupyter.ExecuteResult{}
//	}
//	func (echo) Complete(context.Context, string, int) jupyter.Completion { return jupyter.Completion{} }
//	func (echo) Inspect(context.Context, string, int, int) jupyter.Inspection {
//		return jupyter.Inspection{}
//	}
//	func (echo) IsComplete(string) jupyter.Completeness { return jupyter.Completeness{Status: "complete"} }
//	func (echo) Info() jupyter.LanguageInfo             { return jupyter.LanguageInfo{Implementation: "echo"} }
//	func (echo) Shutdown(restart bool)                  {}
//
//	func main() {
//		err := jupyter.Run(context.Background(), os.Args[1], echo{}, jupyter.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//	}
//
// The kernelspec's argv passes {connection_file}; its interrupt_mode is best
// "message", though SIGINT is understood, too.
//
// What it promises:
//
//   - Every request gets a reply on the socket it came by, between a busy and an
//     idle; a type it does not know gets an error. A message with a wrong
//     signature or without a delimiter is dropped and logged.
//   - Output is complete, in order, and before idle. A flood goes out in few
//     large messages and waits for slow front ends instead of growing or being
//     dropped. Characters are never cut.
//   - Control is answered while a cell runs, and so are kernel_info, complete,
//     inspect, is_complete, history and comms. Because front ends show whatever
//     status came last, the idle of such a request is followed by another busy of
//     the running cell.
//   - Requests that change anything keep their order, but for those of subshells
//     (JEP 91), whose cells run at the same time as the others. An interrupt stops them all.
//
// What it refuses: debug requests where the interpreter is no [Debugger] (with an error reply), remote front ends other than by what tcp gives, and guessing: a request that lacks a field it
// needs is an error, not a default.
//
// Package frontend is a front end for tests and benchmarks, on another
// implementation of ZeroMQ; package jupytertest runs kernels for tests.
package jupyter
