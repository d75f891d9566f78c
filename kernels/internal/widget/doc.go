// Package widget carries values between the programs of cells and the pages
// that show their notebook: the kernel's part of GoNB's packages gonbui/comms,
// gonbui/dom and gonbui/widgets (buttons, sliders, lists to choose from).
//
// A value has an address, and goes either way. Between program and kernel it
// travels through GoNB's pipes, between kernel and page as a message of a comm
// with the target gonb_comm and the data {"address": …, "value": …}:
//
//	line := &widget.Line{Kernel: id}            // one a kernel
//	…
//	p := line.Begin(ctx, out, deliver)          // one a program
//	defer p.End()
//	err := p.Subscribe(protocol.CommSubscription{Address: "/slider"})
//	…
//	err := line.Comm(kind, comm, out)           // what pages send
//
// A page gets its end of the line from a small script (line.js), which is shown
// as HTML when a program first uses the line, and removed once a page has
// answered, so that no notebook is saved with it. The script makes the object
// globalThis.gonb_comm, which the scripts of GoNB's widgets use. It opens a
// channel of its own to the kernel through the Jupyter server that the page came
// from; without one (VS Code, an exported page) it does nothing, and widgets are shown without
// interaction.
//
// A page that was closed, or whose kernel was restarted, loses its channel; the next program that
// uses one opens another. Several pages may show a notebook: each gets every value.
//
// Package widget refuses values that GoNB's programs cannot take: null, and
// lists and objects of mixed kinds.
package widget
