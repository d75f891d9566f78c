package debugger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gaiden/kernels/internal/cell/parse"
)

// A Debugger answers a kernel's debug requests. Delve and Temp are set before the first.
type Debugger struct {
	Delve string // the program dlv
	Temp  string // a directory of the kernel's own

	// Variables lists the variables that the notebook keeps, for between cells.
	Variables func() []Variable

	mu          sync.Mutex
	event       func(map[string]any) // publishes; nil before the first request
	serial      int
	on          bool
	breakpoints map[string][]any // by a cell's file
	texts       map[string]string
	cells       map[int]string // the file of each cell that ran
	stopped     map[any]bool   // threads
	run         *Run           // the program that is debugged now
}

// A Variable is one that the notebook keeps.
type Variable struct{ Name, Type, Value string }

// The hash by which front ends know cells.
const (
	hashSeed   = 0xc70f6907
	fileSuffix = ".go"
)

func (d *Debugger) prefix() string { return filepath.Join(d.Temp, "cells") + "/" }

// file is the name by which front ends know a cell.
func (d *Debugger) file(code string) string {
	return fmt.Sprint(d.prefix(), murmur2([]byte(code), hashSeed), fileSuffix)
}

// murmur2 is MurmurHash2 of 32 bits, as JupyterLab has it.
func murmur2(data []byte, seed uint32) uint32 {
	const m = 0x5bd1e995
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	for i, b := range data {
		h ^= uint32(b) << (8 * i)
	}
	if len(data) > 0 {
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// Cell notes that a cell with this code runs under a number.
func (d *Debugger) Cell(code string, id int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cells == nil {
		d.cells = map[int]string{}
	}
	d.cells[id] = d.file(code)
}

// wants says whether a program with these cells is to be debugged. d.mu is held.
func (d *Debugger) wants(cells []int) bool { return d.on && len(d.of(cells)) > 0 }

// Wants says whether a program with code of these cells is to be debugged.
func (d *Debugger) Wants(cells []int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wants(cells)
}

// of returns the breakpoints of cells. d.mu is held.
func (d *Debugger) of(cells []int) map[int][]any {
	all := map[int][]any{}
	for _, id := range cells {
		if lines := d.breakpoints[d.cells[id]]; len(lines) > 0 {
			all[id] = lines
		}
	}
	return all
}

// pass gives an event of Delve to the front end.
func (d *Debugger) pass(m map[string]any) {
	body, _ := m["body"].(map[string]any)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch m["event"] {
	case "stopped":
		if d.stopped == nil {
			d.stopped = map[any]bool{}
		}
		d.stopped[body["threadId"]] = true
	case "continued":
		d.stopped = nil
	case "thread", "breakpoint":
	default:
		return // output is the cell's; and the front end's session survives the program
	}
	if d.event != nil {
		d.serial++
		d.event(map[string]any{"seq": d.serial, "type": "event", "event": m["event"], "body": d.named(body)})
	}
}

// named is part of a message of Delve with the front end's names of cells. d.mu is held.
func (d *Debugger) named(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			path, is := e.(string)
			id, cell := parse.CellOfFile(path)
			if file := d.cells[id]; is && cell && k == "path" && file != "" {
				v[k] = file
				continue
			}
			v[k] = d.named(e)
		}
	case []any:
		for i, e := range v {
			v[i] = d.named(e)
		}
	}
	return v
}

// Request answers a debug request; event publishes events, until the next request.
func (d *Debugger) Request(request map[string]any, event func(map[string]any)) map[string]any {
	command, _ := request["command"].(string)
	arguments, _ := request["arguments"].(map[string]any)
	d.mu.Lock()
	d.event = event
	run := d.run
	d.mu.Unlock()
	body, err := d.answer(command, arguments, run)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	response := map[string]any{"seq": d.serial, "type": "response", "request_seq": request["seq"], "command": command, "success": err == nil}
	if body != nil {
		response["body"] = d.named(body)
	}
	if err != nil {
		response["message"] = err.Error()
	}
	if command == "attach" && err == nil {
		d.serial++
		event(map[string]any{"seq": d.serial, "type": "event", "event": "initialized"})
	}
	return response
}

func (d *Debugger) answer(command string, arguments map[string]any, run *Run) (map[string]any, error) {
	none := map[string]any{}
	switch command {
	case "debugInfo":
		return d.info(), nil
	case "initialize":
		return map[string]any{"supportsConfigurationDoneRequest": true, "supportsConditionalBreakpoints": true, "supportsHitConditionalBreakpoints": true}, nil
	case "attach", "launch", "disconnect", "terminate":
		d.mu.Lock()
		d.on = command == "attach" || command == "launch"
		d.mu.Unlock()
		if run != nil && (command == "disconnect" || command == "terminate") {
			run.letGo()
		}
		return none, nil
	case "configurationDone", "setExceptionBreakpoints":
		return none, nil
	case "dumpCell":
		code, is := arguments["code"].(string)
		if !is {
			return nil, fmt.Errorf("dumpCell: got no code")
		}
		file := d.file(code)
		d.mu.Lock()
		if d.texts == nil {
			d.texts = map[string]string{}
		}
		d.texts[file] = code
		d.mu.Unlock()
		return map[string]any{"sourcePath": file}, nil
	case "setBreakpoints":
		return d.setBreakpoints(arguments, run)
	case "source":
		return d.source(arguments)
	case "inspectVariables":
		all := []any{}
		for _, v := range d.variables() {
			all = append(all, map[string]any{"name": v.Name, "type": v.Type, "value": v.Value, "evaluateName": v.Name, "variablesReference": 0})
		}
		return map[string]any{"variables": all}, nil
	case "richInspectVariables":
		return d.inspect(arguments, run)
	case "modules":
		return map[string]any{"modules": []any{}, "totalModules": 0}, nil
	case "threads":
		if run == nil {
			return map[string]any{"threads": []any{}}, nil
		}
	}
	if run == nil {
		return nil, fmt.Errorf("%s: no cell is stopped at a breakpoint", command)
	}
	switch command {
	case "continue", "next", "stepIn", "stepOut":
		d.continued()
	case "pause", "stackTrace", "scopes", "variables", "evaluate", "threads", "exceptionInfo":
	default:
		return nil, fmt.Errorf("%s: this kernel does not know the request", command)
	}
	return run.adapter.request(command, arguments)
}

// letGo removes the breakpoints of a program, which then runs to its end.
func (r *Run) letGo() {
	for _, id := range r.cells {
		r.adapter.request("setBreakpoints", map[string]any{"source": map[string]any{"path": parse.FileName(id)}, "breakpoints": []any{}})
	}
	if held := r.d.continued(); len(held) > 0 {
		r.adapter.request("continue", map[string]any{"threadId": held[0]})
	}
}

// continued tells the front end that no thread is stopped any more, and returns those that
// were. Delve tells only who asked, but JupyterLab shows "Paused" until there is the event.
func (d *Debugger) continued() []any {
	d.mu.Lock()
	held := slices.Collect(maps.Keys(d.stopped))
	d.stopped = nil
	d.mu.Unlock()
	for _, thread := range held {
		d.pass(map[string]any{"event": "continued", "body": map[string]any{"threadId": thread, "allThreadsContinued": true}})
	}
	return held
}

func (d *Debugger) variables() []Variable {
	if d.Variables == nil {
		return nil
	}
	return d.Variables()
}

func (d *Debugger) info() map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, threads := []any{}, []any{}
	for _, file := range slices.Sorted(maps.Keys(d.breakpoints)) {
		all = append(all, map[string]any{"source": file, "breakpoints": d.breakpoints[file]})
	}
	for thread := range d.stopped {
		threads = append(threads, thread)
	}
	return map[string]any{"isStarted": d.on, "hashMethod": "Murmur2", "hashSeed": hashSeed, "tmpFilePrefix": d.prefix(), "tmpFileSuffix": fileSuffix,
		"breakpoints": all, "stoppedThreads": threads, "richRendering": true, "exceptionPaths": []any{}, "copyToGlobals": false}
}

// setBreakpoints notes the breakpoints of a cell. Delve judges those of a program that runs.
func (d *Debugger) setBreakpoints(arguments map[string]any, run *Run) (map[string]any, error) {
	source, _ := arguments["source"].(map[string]any)
	file, _ := source["path"].(string)
	if file == "" {
		return nil, fmt.Errorf("setBreakpoints: got no source.path, want a cell's from dumpCell")
	}
	lines, _ := arguments["breakpoints"].([]any)
	d.mu.Lock()
	if d.breakpoints == nil {
		d.breakpoints = map[string][]any{}
	}
	d.breakpoints[file] = lines
	if len(lines) == 0 {
		delete(d.breakpoints, file)
	}
	cell := 0
	if run != nil {
		for _, id := range run.cells {
			if d.cells[id] == file {
				cell = id
			}
		}
	}
	d.mu.Unlock()
	if cell > 0 {
		return run.adapter.request("setBreakpoints", map[string]any{"source": map[string]any{"path": parse.FileName(cell)}, "breakpoints": lines})
	}
	all := []any{}
	for _, b := range lines {
		b, _ := b.(map[string]any)
		all = append(all, map[string]any{"verified": true, "line": b["line"], "source": map[string]any{"path": file}})
	}
	return map[string]any{"breakpoints": all}, nil
}

// source returns a cell's text, or that of a file of Go.
func (d *Debugger) source(arguments map[string]any) (map[string]any, error) {
	source, _ := arguments["source"].(map[string]any)
	file, _ := source["path"].(string)
	d.mu.Lock()
	text, known := d.texts[file]
	d.mu.Unlock()
	if !known {
		if !strings.HasSuffix(file, ".go") {
			return nil, fmt.Errorf("source: %.200q is not known", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		text = string(data)
	}
	return map[string]any{"content": text, "mimeType": "text/x-go"}, nil
}

// inspect shows one variable: of the frame that is stopped, or of the notebook.
func (d *Debugger) inspect(arguments map[string]any, run *Run) (map[string]any, error) {
	name, _ := arguments["variableName"].(string)
	value := ""
	if frame, is := arguments["frameId"]; is && run != nil {
		body, err := run.adapter.request("evaluate", map[string]any{"expression": name, "frameId": frame, "context": "repl"})
		if err != nil {
			return nil, err
		}
		value, _ = body["result"].(string)
	} else {
		all := d.variables()
		i := slices.IndexFunc(all, func(v Variable) bool { return v.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("richInspectVariables: there is no variable %.80q", name)
		}
		value = all[i].Value
	}
	return map[string]any{"data": map[string]any{"text/plain": value}, "metadata": map[string]any{}}, nil
}
