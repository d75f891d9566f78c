// Package nodetest is a test double of a PJRT plugin that makes clients of several nodes: an
// XLA CPU plugin, which cannot, with some functions replaced at the border of the C API.
//
//	pjrt.Loaded = nodetest.Replace // before pjrt.Load
//
// As the CUDA plugin, it finds the other nodes through the key-value store, shows the devices
// of all of them, and takes programs for these devices. Where each node has one device, a sum
// over all of them goes through the store, too, which is slow, and grows: a stand-in for NCCL
// in tests. Where they have more, each node reduces over its own devices alone.
package nodetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"gaiden/lib/engine/pjrt"
)

// Numbers of functions in PJRT_Api.
const (
	errorDestroy, errorMessage, errorCode                         = 0, 1, 2
	clientCreate, clientAllDevices, clientDevices, clientCompile  = 10, 15, 16, 20
	descriptionID, descriptionNode, descriptionKind, descriptionS = 23, 24, 26, 27
	descriptionAttributes, deviceDescription                      = 25, 29
)

// double is what is known of the nodes of this process's client, of which there is one.
type double struct {
	was map[int]uintptr

	id, each int       // this node, and the devices of each; set by create, as own and all
	own      []uintptr // descriptions of this node's devices
	all      []uintptr // devices of all nodes
	fake     map[uintptr]int
	makeErr  uintptr    // where the address of its function is
	store    [4]uintptr // the functions get and put of the key-value store, each with its argument

	mu     sync.Mutex // protects following
	errors map[uintptr]failure
	kept   [][]uintptr // memory of Go's that C has addresses of
}

// failure is a PJRT_Error of the double's.
type failure struct {
	code    int
	message string
}

// Replace makes p the test double.
func Replace(p *pjrt.Plugin) {
	d := &double{was: map[int]uintptr{}, fake: map[uintptr]int{}, errors: map[uintptr]failure{}}
	d.makeErr = d.words(purego.NewCallback(func(code, message, n uintptr) uintptr { return d.fail(int(code), str(message, n)) }))
	d.offer(p)
	d.was[clientDevices] = p.Replace(clientDevices, 0)
	p.Replace(clientDevices, d.was[clientDevices])
	for number, f := range map[int]func(args uintptr) uintptr{clientCreate: d.create, clientAllDevices: d.allDevices, clientCompile: d.compile,
		errorDestroy: d.ofError(errorDestroy), errorMessage: d.ofError(errorMessage), errorCode: d.ofError(errorCode),
		descriptionID: d.describe(descriptionID), descriptionNode: d.describe(descriptionNode), descriptionKind: d.describe(descriptionKind),
		descriptionS: d.describe(descriptionS), deviceDescription: d.describe(deviceDescription),
		descriptionAttributes: d.describe(descriptionAttributes)} {
		d.was[number] = p.Replace(number, purego.NewCallback(f))
	}
}

func word(address uintptr, i int) *uintptr {
	address += uintptr(8 * i)
	return *(**uintptr)(unsafe.Pointer(&address))
}

func str(address, n uintptr) string {
	return strings.Clone(unsafe.String((*byte)(unsafe.Pointer(word(address, 0))), int(n)))
}

func (d *double) call(number int, args uintptr) uintptr {
	e, _, _ := purego.SyscallN(d.was[number], args)
	return e
}

// words puts words where C can have their address.
func (d *double) words(l ...uintptr) uintptr {
	b := slices.Clone(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = append(d.kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// text is the same for bytes.
func (d *double) text(b []byte) uintptr {
	l := make([]uintptr, len(b)/8+1)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&l[0])), len(b)), b)
	return d.words(l...)
}

// fail makes an error.
func (d *double) fail(code int, message string) uintptr {
	e := d.words(0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errors[e] = failure{code, message}
	return e
}

// ofError answers for the double's errors.
func (d *double) ofError(number int) func(uintptr) uintptr {
	return func(args uintptr) uintptr {
		d.mu.Lock()
		e, is := d.errors[*word(args, 2)]
		d.mu.Unlock()
		switch {
		case !is:
			return d.call(number, args)
		case number == errorMessage:
			*word(args, 3), *word(args, 4) = d.text([]byte(e.message)), uintptr(len(e.message))
		case number == errorCode:
			*(*int32)(unsafe.Pointer(word(args, 3))) = int32(e.code)
		}
		return 0
	}
}

// create makes a client without the options of nodes, and waits for the other nodes.
func (d *double) create(args uintptr) uintptr {
	const namedValue = 7 // words
	options, n := *word(args, 2), int(*word(args, 3))
	id, count := -1, 0
	var rest []uintptr
	for i := range n {
		v := options + uintptr(8*namedValue*i)
		switch str(*word(v, 2), *word(v, 3)) {
		case "node_id":
			id = int(*word(v, 5))
		case "num_nodes":
			count = int(*word(v, 5))
		default:
			for w := range namedValue {
				rest = append(rest, *word(v, w))
			}
		}
	}
	*word(args, 2), *word(args, 3) = d.words(append(rest, 0)...), uintptr(len(rest)/namedValue)
	e := d.call(clientCreate, args)
	*word(args, 2), *word(args, 3) = options, uintptr(n)
	if e != 0 || id < 0 {
		return e
	}
	list := d.words(40, 0, *word(args, 8), 0, 0)
	if e := d.call(clientDevices, list); e != 0 {
		return e
	}
	each := int(*word(list, 4))
	if e := d.meet(args, id, count, each); e != 0 {
		return e
	}
	nodes.mu.Lock()
	nodes.doubles[int32(id)] = d
	nodes.mu.Unlock()
	d.id, d.each, d.own, d.all = id, each, nil, nil
	for n := range count * each {
		if n/each != id {
			fake := d.words(0) // a device, and its description
			d.fake[fake] = n
			d.all = append(d.all, fake)
			continue
		}
		device := *word(*word(list, 3), n%each)
		description := d.words(32, 0, device, 0)
		d.call(deviceDescription, description)
		d.own, d.all = append(d.own, *word(description, 3)), append(d.all, device)
	}
	return 0
}

// meet says through the store how many devices this node has, and waits for the others to say
// the same: nodes of this double have equal numbers.
func (d *double) meet(args uintptr, id, count, devices int) uintptr {
	d.store = [4]uintptr{*word(args, 4), *word(args, 5), *word(args, 6), *word(args, 7)}
	say := fmt.Appendf(nil, "%d\x00devices", devices)
	key := func(node int) string { return fmt.Sprintf("nodetest/%d", node) }
	if e := d.putKey(key(id), say); e != 0 {
		return e
	}
	for node := range count {
		got, e := d.getKey(key(node), 20_000)
		if e != 0 {
			return e
		}
		if string(got) != string(say) {
			return d.fail(13, fmt.Sprintf("node %d has %q, node %d %q", node, got, id, say))
		}
	}
	return 0
}

// putKey and getKey call the store. What they return is an error of the double's.
func (d *double) putKey(key string, value []byte) uintptr {
	k, v := []byte(key+"\x00"), append(slices.Clone(value), 0)
	args := []uintptr{64, 0, uintptr(unsafe.Pointer(&k[0])), uintptr(len(key)), uintptr(unsafe.Pointer(&v[0])), uintptr(len(value)), d.makeErr, d.store[3]}
	e, _, _ := purego.SyscallN(d.store[2], uintptr(unsafe.Pointer(&args[0])))
	runtime.KeepAlive(k)
	runtime.KeepAlive(v)
	runtime.KeepAlive(args)
	return e
}

func (d *double) getKey(key string, milliseconds int) ([]byte, uintptr) {
	k := []byte(key + "\x00")
	args := []uintptr{80, 0, uintptr(unsafe.Pointer(&k[0])), uintptr(len(key)), uintptr(milliseconds), d.makeErr, d.store[1], 0, 0, 0}
	e, _, _ := purego.SyscallN(d.store[0], uintptr(unsafe.Pointer(&args[0])))
	runtime.KeepAlive(k)
	if e != 0 {
		return nil, e
	}
	got := []byte(str(args[7], args[8]))
	purego.SyscallN(args[9], args[7])
	return got, 0
}

// put and get are the same with errors of Go's.
func (d *double) put(key string, value []byte) error { return d.errorOf(d.putKey(key, value)) }

func (d *double) get(key string) ([]byte, error) {
	v, e := d.getKey(key, 60_000)
	return v, d.errorOf(e)
}

func (d *double) errorOf(e uintptr) error {
	if e == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.errors[e]
	delete(d.errors, e)
	return errors.New(f.message)
}

func (d *double) allDevices(args uintptr) uintptr {
	*word(args, 3), *word(args, 4) = d.words(append(d.all, 0)...), uintptr(len(d.all))
	return 0
}

// describe answers for devices of other nodes, and numbers those of this one.
func (d *double) describe(number int) func(uintptr) uintptr {
	return func(args uintptr) uintptr {
		id, fake := d.fake[*word(args, 2)]
		if number == deviceDescription {
			if fake {
				*word(args, 3) = *word(args, 2)
				return 0
			}
			return d.call(number, args)
		}
		own := slices.Index(d.own, *word(args, 2))
		if own >= 0 {
			id = d.id*d.each + own
		}
		switch {
		case number == descriptionID && (fake || own >= 0):
			*word(args, 3) = uintptr(id)
		case number == descriptionNode && (fake || own >= 0):
			*word(args, 3) = uintptr(id / d.each)
		case number == descriptionAttributes && fake:
			*word(args, 3), *word(args, 4) = 0, 0
		case fake:
			const kind = "test double"
			*word(args, 3), *word(args, 4) = d.text([]byte(kind)), uintptr(len(kind))
		default:
			return d.call(number, args)
		}
		return 0
	}
}

var (
	groups   = regexp.MustCompile(`replica_groups = dense<[^>]*> : tensor<1x\d+xi64>`)
	replicas = regexp.MustCompile(`mhlo\.num_replicas = \d+`)
)

// compile compiles a program for this node's devices among those that it is for.
func (d *double) compile(args uintptr) uintptr {
	first, each := d.id*d.each, d.each
	if len(d.all) <= each {
		return d.call(clientCompile, args)
	}
	options := []byte(str(*word(args, 4), *word(args, 5)))
	var local int
	options = edit(options, 3, func(build []byte) []byte {
		build = edit(build, 9, func(assignment []byte) []byte {
			var ids []byte
			assignment = edit(assignment, 3, func(computation []byte) []byte {
				return edit(computation, 1, func(all []byte) []byte {
					for len(all) > 0 {
						id, n := binary.Uvarint(all)
						if all = all[n:]; int(id) >= first && int(id) < first+each {
							ids = binary.AppendUvarint(ids, id-uint64(first))
							local++
						}
					}
					return ids
				})
			})
			return number(assignment, 1, local)
		})
		if local > 0 {
			build = number(build, 4, local)
		}
		return build
	})
	program := make([]uintptr, 6) // PJRT_Program
	for i := range program {
		program[i] = *word(*word(args, 3), i)
	}
	text := str(program[2], program[3])
	if local > 0 {
		var l []string
		for i := range local {
			l = append(l, strconv.Itoa(i))
		}
		if each == 1 {
			text = overNodes(text, d.id)
		}
		text = replicas.ReplaceAllString(text, fmt.Sprintf("mhlo.num_replicas = %d", local))
		text = groups.ReplaceAllString(text, fmt.Sprintf("replica_groups = dense<[[%s]]> : tensor<1x%dxi64>", strings.Join(l, ", "), local))
	}
	program[2], program[3] = d.text([]byte(text)), uintptr(len(text))
	was := [3]uintptr{*word(args, 3), *word(args, 4), *word(args, 5)}
	*word(args, 3), *word(args, 4), *word(args, 5) = d.words(program...), d.text(options), uintptr(len(options))
	e := d.call(clientCompile, args)
	*word(args, 3), *word(args, 4), *word(args, 5) = was[0], was[1], was[2]
	return e
}

// edit replaces a field of a protocol buffer that has a length, where it is there.
func edit(b []byte, field int, f func([]byte) []byte) (out []byte) {
	return walk(b, field, func(v []byte, _ uint64) []byte {
		if v == nil {
			v = []byte{}
		}
		v = f(v)
		out := binary.AppendUvarint(nil, uint64(field)<<3|2)
		return append(binary.AppendUvarint(out, uint64(len(v))), v...)
	})
}

// number replaces a field that is a number.
func number(b []byte, field, v int) []byte {
	return walk(b, field, func([]byte, uint64) []byte {
		return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(field)<<3), uint64(v))
	})
}

func walk(b []byte, field int, f func([]byte, uint64) []byte) (out []byte) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		v, m := binary.Uvarint(b[n:])
		end := n + m
		var value []byte
		if tag&7 == 2 {
			value = b[end : end+int(v)]
			end += int(v)
		}
		if int(tag>>3) == field {
			out = append(out, f(value, v)...)
		} else {
			out = append(out, b[:end]...)
		}
		b = b[end:]
	}
	return out
}
