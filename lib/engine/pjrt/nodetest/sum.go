package nodetest

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"gaiden/lib/engine/pjrt"
)

// target is the custom call that stands for a sum over nodes: operands, and at last numbers of
// the node, the program and the sum in it → the sums of the first operands.
const target = "nodetest.sum"

var (
	reduction = regexp.MustCompile(`(?m)^( *)(%\w+)(\S*) = "stablehlo\.all_reduce"\(([^)]*)\) [^\n]*\(\{\n((?s:.*?))\n *\}\)[^\n]* : \(([^)]*)\) -> ([^\n]*)$`)
	region    = regexp.MustCompile(`(?m)^ *(\}|\^bb)|\{$`) // one begins or ends
)

// overNodes writes the sums of a program over replicas as custom calls. Where one could come
// before another it takes that one's result, too: nodes that begin with different ones would
// wait for each other for ever.
func overNodes(text string, node int) string {
	h := fnv.New32()
	h.Write([]byte(text))
	sums, last, end := 0, "", 0
	var out strings.Builder
	for _, m := range reduction.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string { return text[m[2*i]:m[2*i+1]] }
		between := text[end:m[0]]
		out.WriteString(between)
		end = m[1]
		if !strings.Contains(part(5), "stablehlo.add ") {
			out.WriteString(text[m[0]:m[1]]) // the plugin refuses it, for devices that it does not have
			continue
		}
		operands, types := part(4), part(6)
		if last != "" && !region.MatchString(between) {
			operands, types = operands+", "+last, types+", "+lastType(text, last)
		}
		fmt.Fprintf(&out, "%s%%nodetest%d = stablehlo.constant dense<[%d, %d, %d]> : tensor<3xi32>\n", part(1), sums, node, int32(h.Sum32()), sums)
		fmt.Fprintf(&out, "%s%s%s = stablehlo.custom_call @%s(%s, %%nodetest%d) {api_version = 4 : i32, has_side_effect = true, backend_config = {}} : (%s, tensor<3xi32>) -> %s",
			part(1), part(2), part(3), target, operands, sums, types, part(7))
		if last = part(2); part(3) != "" {
			last += "#0"
		}
		sums++
	}
	out.WriteString(text[end:])
	return out.String()
}

// lastType is the type of the first result of the sum whose result has a name.
func lastType(text, name string) string {
	name, _, _ = strings.Cut(name, "#")
	for _, m := range reduction.FindAllStringSubmatch(text, -1) {
		if m[2] == name {
			types, _, _ := strings.Cut(m[7], " loc(")
			first, _, _ := strings.Cut(strings.Trim(types, "()"), ", ")
			return first
		}
	}
	return ""
}

// nodes are the doubles of this process by the numbers of their nodes: the plugin has one
// handler for all clients.
var nodes struct {
	once    sync.Once
	entry   uintptr
	mu      sync.Mutex // protects following
	doubles map[int32]*double
	done    map[[3]int32]int // how often a sum was made
}

// offer makes the handler known to the plugin. One that is known already is this one.
func (d *double) offer(p *pjrt.Plugin) {
	nodes.once.Do(func() {
		nodes.doubles, nodes.done = map[int32]*double{}, map[[3]int32]int{}
		nodes.entry = purego.NewCallback(sum)
	})
	_ = p.Register(target, "Host", nodes.entry)
}

// Offsets in XLA_FFI_CallFrame, XLA_FFI_Buffer and XLA_FFI_Metadata, in words.
const (
	frameExtension, frameAPI, frameArgs, frameRets = 1, 2, 5, 10
	listN, listItems                               = 2, 4
	bufferType, bufferData, bufferRank, bufferDims = 2, 3, 4, 5
	apiVersion, apiErrorCreate, metadataVersion    = 4, 6, 3
)

// sum is the handler.
func sum(frame uintptr) uintptr {
	api := *word(frame, frameAPI)
	if e := *word(frame, frameExtension); e != 0 && int32(*word(e, 1)) == 1 { // XLA asks what it is
		metadata := *word(e, 3)
		*word(metadata, metadataVersion) = 3 << 32
		if api != 0 {
			*word(metadata, metadataVersion) = *word(api, apiVersion)
		}
		*(*uint32)(unsafe.Pointer(word(metadata, metadataVersion+1))) = 0
		return 0
	}
	err := func() error {
		n, results := int(*word(frame, frameArgs+listN)), int(*word(frame, frameRets+listN))
		buffer := func(list, i int) uintptr { return *word(*word(frame, list+listItems), i) }
		key := *(*[3]int32)(unsafe.Pointer(word(*word(buffer(frameArgs, n-1), bufferData), 0)))
		nodes.mu.Lock()
		d := nodes.doubles[key[0]]
		turn := nodes.done[key]
		nodes.done[key]++
		nodes.mu.Unlock()
		var own []byte
		for i := range results {
			own = append(own, bytesOf(buffer(frameArgs, i))...)
		}
		name := func(node int) string { return fmt.Sprintf("nodetest/%x/%d/%d/%d", key[1], key[2], turn, node) }
		if err := d.put(name(d.id), own); err != nil {
			return err
		}
		for node := range len(d.all) {
			part, err := d.get(name(node))
			if err != nil {
				return err
			}
			for i := range results {
				b := buffer(frameRets, i)
				to := bytesOf(b)
				if node == 0 {
					copy(to, part)
				} else if f := adders[int32(*word(b, bufferType))]; f == nil {
					return fmt.Errorf("the test double does not add up element type %d", int32(*word(b, bufferType)))
				} else if len(to) > 0 {
					f(unsafe.Pointer(&to[0]), unsafe.Pointer(&part[0]), len(to))
				}
				part = part[len(to):]
			}
		}
		return nil
	}()
	if err == nil {
		return 0
	}
	message := append([]byte(err.Error()), 0)
	args := []uintptr{32, 0, uintptr(unsafe.Pointer(&message[0])), 14} // UNAVAILABLE
	e, _, _ := purego.SyscallN(*word(api, apiErrorCreate), uintptr(unsafe.Pointer(&args[0])))
	runtime.KeepAlive(message)
	runtime.KeepAlive(args)
	return e
}

// bytesOf are the data of an XLA_FFI_Buffer.
func bytesOf(buffer uintptr) []byte {
	n := sizes[int32(*word(buffer, bufferType))]
	for i := range int(*word(buffer, bufferRank)) {
		n *= int(*word(*word(buffer, bufferDims), i))
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(word(*word(buffer, bufferData), 0))), n)
}

// By XLA's numbers of element types.
var (
	adders = map[int32]func(to, from unsafe.Pointer, bytes int){
		4: add[int32], 5: add[int64], 6: add[uint8], 8: add[uint32], 9: add[uint64], 11: add[float32], 12: add[float64]}
	sizes = map[int32]int{4: 4, 5: 8, 6: 1, 8: 4, 9: 8, 11: 4, 12: 8}
)

func add[T int32 | int64 | uint8 | uint32 | uint64 | float32 | float64](to, from unsafe.Pointer, bytes int) {
	n := bytes / int(unsafe.Sizeof(*new(T)))
	a, b := unsafe.Slice((*T)(to), n), unsafe.Slice((*T)(from), n)
	for i := range a {
		a[i] += b[i]
	}
}
