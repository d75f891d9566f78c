package hlo_test

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
)

// backend runs programs in this process, through the plugin: the shortest way
// from this package's text to numbers.
type backend struct {
	notimplemented.Backend
	client *pjrt.Client
}

// client is started once; XLA's libraries cannot be unloaded.
var client = sync.OnceValues(func() (*pjrt.Client, error) {
	plugin, err := pjrt.Load(os.Getenv("GAIDEN_PLUGIN"))
	if err != nil {
		return nil, err
	}
	return plugin.NewClient(map[string]any{"cpu_device_count": int64(2)})
})

// newBackend skips the test where there is no plugin.
func newBackend(t testing.TB) *backend {
	t.Helper()
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip("not run: needs an XLA plugin; set GAIDEN_PLUGIN to pjrt_c_api_cpu_plugin.so of the wheel lammps-jax-pjrt-cpu")
	}
	c, err := client()
	if err != nil {
		t.Fatal(err)
	}
	return &backend{client: c}
}

func (b *backend) Name() string                       { return "hlotest" }
func (b *backend) String() string                     { return b.Name() }
func (b *backend) Description() string                { return "hlo on " + b.client.Platform() }
func (b *backend) NumDevices() int                    { return len(b.client.Devices()) }
func (b *backend) Capabilities() compute.Capabilities { return hlo.Capabilities() }

func (b *backend) Builder(name string) compute.Builder {
	return hlo.NewBuilder(b, name, func(p *hlo.Program) (compute.Executable, error) {
		o := pjrt.CompileOptions{Replicas: p.Replicas}
		for _, d := range p.Devices {
			o.Devices = append(o.Devices, int(d))
		}
		program, err := b.client.Compile(p.Text(nil), o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", p.Name, err, p.Text(nil))
		}
		return &executable{b, p, program}, nil
	})
}

func (b *backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if flat == nil && shape.Size() == 0 { // GoMLX's way with arrays of no elements
		flat = reflect.MakeSlice(reflect.SliceOf(shape.DType.GoType()), 0, 0).Interface()
	}
	if got := dtypes.FromGoType(reflect.TypeOf(flat).Elem()); got != shape.DType || reflect.ValueOf(flat).Len() != shape.Size() {
		return nil, fmt.Errorf("got %d of %s, want %s", reflect.ValueOf(flat).Len(), got, shape)
	}
	h, err := b.client.Upload(raw(flat), pjrt.DType(shape.DType), shape.Dimensions, b.client.Devices()[device])
	if err != nil {
		return nil, err
	}
	return b.buffer(h, shape, device), nil
}

// raw is the memory of a slice.
func raw(flat any) []byte {
	v := reflect.ValueOf(flat)
	return unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*int(v.Type().Elem().Size()))
}

type buffer struct {
	b      *backend
	handle pjrt.Buffer
	shape  shapes.Shape
	device compute.DeviceNum
}

func (b *backend) buffer(h pjrt.Buffer, shape shapes.Shape, device compute.DeviceNum) *buffer {
	u := &buffer{b, h, shape, device}
	runtime.SetFinalizer(u, (*buffer).Finalize)
	return u
}

func (u *buffer) Backend() compute.Backend              { return u.b }
func (u *buffer) Shape() (shapes.Shape, error)          { return u.shape, nil }
func (u *buffer) DeviceNum() (compute.DeviceNum, error) { return u.device, nil }
func (u *buffer) Data() (any, error)                    { return nil, compute.ErrNotImplemented }
func (u *buffer) ToFlatData(flat any) error             { return u.b.client.Download(u.handle, raw(flat)) }
func (u *buffer) CopyToDevice(d compute.DeviceNum) (compute.Buffer, error) {
	h, err := u.b.client.CopyToDevice(u.handle, u.b.client.Devices()[d])
	if err != nil {
		return nil, err
	}
	return u.b.buffer(h, u.shape, d), nil
}

func (u *buffer) Finalize() error {
	if u.handle == 0 {
		return nil
	}
	h := u.handle
	u.handle = 0
	return u.b.client.Free(h)
}

type executable struct {
	b       *backend
	p       *hlo.Program
	program *pjrt.Program
}

func (e *executable) Finalize()                          { e.program.Close() }
func (e *executable) Inputs() ([]string, []shapes.Shape) { return e.p.InputNames, e.p.Inputs }
func (e *executable) Outputs() []shapes.Shape            { return e.p.Outputs }

func (e *executable) Execute(inputs []compute.Buffer, donate []bool, device compute.DeviceNum) ([]compute.Buffer, error) {
	if want := len(e.p.Inputs) * e.p.Replicas; len(inputs) != want {
		return nil, fmt.Errorf("%s: got %d inputs, want %d", e.p.Name, len(inputs), want)
	}
	in := make([]pjrt.Buffer, len(inputs))
	for i, b := range inputs {
		u := b.(*buffer)
		if want := e.p.Inputs[i%len(e.p.Inputs)]; !u.shape.Equal(want) {
			return nil, fmt.Errorf("%s: input %d: got %s, want %s", e.p.Name, i, u.shape, want)
		}
		in[i] = u.handle
	}
	out := make([]pjrt.Buffer, len(e.p.Outputs)*e.p.Replicas)
	err := e.program.Execute(in, out, nil, e.b.client.Devices()[device], pjrt.Wait, nil)
	runtime.KeepAlive(inputs)
	if err != nil {
		return nil, err
	}
	results := make([]compute.Buffer, len(out))
	for i, h := range out {
		d := device
		if e.p.Replicas > 1 {
			d = compute.DeviceNum(i / len(e.p.Outputs))
			if e.p.Devices != nil {
				d = e.p.Devices[d]
			}
		}
		results[i] = e.b.buffer(h, e.p.Outputs[i%len(e.p.Outputs)], d)
	}
	for i, b := range inputs {
		if donate != nil && donate[i%len(donate)] {
			if err := b.Finalize(); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}
