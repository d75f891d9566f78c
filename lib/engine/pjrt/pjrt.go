// Package pjrt drives an XLA plugin through the PJRT C API without cgo.
//
// A [Plugin] is a shared library such as pjrt_c_api_cpu_plugin.so, a [Client]
// owns its devices, a [Program] is a compiled computation and a [Buffer] an
// array on a device. The worker process is the only one that imports this
// package: whoever does carries a device context and can be killed by a fault
// inside the plugin. Everything else in Gaiden talks to that worker.
//
// # A complete example
//
//	plugin, err := pjrt.Load(os.Getenv("GAIDEN_PLUGIN"))
//	if err != nil {
//		return err
//	}
//	client, err := plugin.NewClient(nil)
//	if err != nil {
//		return err
//	}
//	program, err := client.Compile([]byte(`module @double {
//	  func.func @main(%x: tensor<2xf32> {jax.buffer_donor = true}) -> tensor<2xf32> {
//	    %y = stablehlo.add %x, %x : tensor<2xf32>
//	    return %y : tensor<2xf32>
//	  }
//	}`), pjrt.CompileOptions{})
//	if err != nil {
//		return err
//	}
//	data := []byte{0, 0, 128, 63, 0, 0, 0, 64} // 1 and 2 as float32
//	x, err := client.Upload(data, pjrt.Float32, []int{2}, nil)
//	if err != nil {
//		return err
//	}
//	state := []pjrt.Buffer{x}
//	for range 3 { // x is donated and replaced each time: nothing is allocated
//		if err := program.Execute(state, state, []bool{true}, nil, pjrt.Async, nil); err != nil {
//			return err
//		}
//	}
//	if err := client.Download(state[0], data); err != nil { // 8 and 16
//		return err
//	}
//	return errors.Join(client.Free(state[0]), program.Close(), client.Close())
//
// # Speed
//
// A step is a call into C, and one more for each event and each donated buffer.
// Mark replaced parameters with jax.buffer_donor in the text: without, XLA
// copies the state at every step.
//
// # Waiting
//
// A goroutine that waits in C holds an operating system thread. So what can
// take long has a form with a function done, which runs in a goroutine of its
// own when the device is ready: it may block, take locks and call this package,
// and XLA never waits for it. No order among several done functions is promised.
// done runs exactly once if, and only if, the call that it was given to
// returned nil.
// The CPU plugin runs cheap programs inside Execute, which then returns only at
// the end: give Execute a goroutine of its own if you cannot wait for it.
//
// # What it refuses
//
// Load refuses what is not a PJRT plugin, or one whose table of functions is too
// short or of another major version. Calls on closed objects, nil buffers, wrong
// counts and sizes, a buffer donated twice, unknown option types and damaged
// serialized programs are errors, never faults. Two things cannot be checked
// here and are left to the caller: a handle that has been freed must not be used
// again, and the text of a program must be sound (some custom calls with wrong
// attributes end the process inside XLA).
//
// Clients, programs and devices may be used by many goroutines at once. It needs
// glibc or macOS, since it opens a shared library; it does not run on Windows.
// Several processes, on one host or more, compute together as nodes of one client
// ([Plugin.NewNode]).
package pjrt
