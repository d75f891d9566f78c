package device

import (
	"fmt"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// The memory of a GPU comes from XLA's allocator BFC where there is plenty, and else from the
// pool that CUDA's driver keeps for the process, by XLA's allocator "cuda_async". BFC divides
// memory that it never releases, and leaves fragments: where a program needs a larger one, XLA
// fails and leaks what it had allocated until then. The driver moves pages together, can say
// before XLA tries whether there is enough (Fits), and lets other processes use unused memory.
// But it has no limit, so GAIDEN_MEMORY_FRACTION is enforced here; and it is slower.

// scarce is the memory, in bytes, that a session must be able to have on each GPU for BFC.
const scarce = 24 << 30

// allocatorOption names the allocator of a CUDA client.
const allocatorOption = "allocator"

// unusedFor is how long nobody sends a session with a GPU a request until it releases
// what is unused, which takes time to have again.
const unusedFor = 10 * time.Second

// usualShare is how much of a GPU's memory a session takes at most where nothing is said.
const usualShare = 0.75

// gpuMemory is a GPU's pool, and the limit, in bytes, of what is taken from it.
type gpuMemory struct {
	pool
	limit int64
}

// pool is a pjrt.Pool, or what a test has in its place.
type pool interface {
	Memory() (pjrt.PoolStats, error)
	Keep(bytes int64) error
	Fits(sizes []int64) bool
	Trim() error
}

// choosePools finds the pools of the GPUs that a client with options is to have, of so many,
// if memory is scarce on one of them. They are nil where it is not, or CUDA has none.
func choosePools(options map[string]any, gpus int, poolOf func(gpu int) (pool, error)) (l []gpuMemory) {
	share, ok := options[fractionOption].(float64)
	if !ok {
		share = usualShare
	}
	visible, ok := options[visibleOption].([]int64)
	for i := range int64(gpus) {
		if !ok {
			visible = append(visible, i)
		}
	}
	short := false
	for _, gpu := range visible {
		p, err := poolOf(int(gpu))
		if err != nil {
			return nil
		}
		m, err := p.Memory()
		if err != nil {
			return nil
		}
		g := gpuMemory{p, int64(share * float64(m.Total))}
		l, short = append(l, g), short || min(g.limit, m.Free) < scarce
	}
	if !short {
		return nil
	}
	return l
}

// keepPools has the pools keep what is unused for the next step, up to their limits.
func (w *Worker) keepPools() error {
	if n := w.client.Here(); len(w.pools) != n {
		return fmt.Errorf("CUDA's driver has %d GPUs, XLA %d", len(w.pools), n)
	}
	for _, p := range w.pools {
		if err := p.Keep(p.limit); err != nil {
			return err
		}
	}
	return nil
}

// memory reads a device's figures, and what an array on it can be in at most: -1 where that
// is not known.
func (w *Worker) memory(device int) (m pjrt.MemoryStats, left int64, err error) {
	if m, err = w.devices[device].Memory(); err != nil {
		return m, -1, err
	}
	if device >= len(w.pools) {
		return m, leftOf(m), nil
	}
	p, err := w.pools[device].Memory()
	if err != nil {
		return m, -1, err
	}
	m = pooled(m, p, w.pools[device].limit)
	return m, m.LargestFree, nil
}

// pooled is what is known of a device whose memory is that of a pool, with a limit that XLA
// does not know. Others may have what the limit would allow.
func pooled(m pjrt.MemoryStats, p pjrt.PoolStats, limit int64) pjrt.MemoryStats {
	m.Limit, m.Pool = limit, p.Held
	m.LargestFree = leftOf(m)
	if there := max(0, p.Free+p.Held-p.Used); m.LargestFree > there {
		m.LargestFree = there
	}
	return m
}

// leftOf is what of a device's limit is not in use.
func leftOf(m pjrt.MemoryStats) int64 {
	if m.Limit <= 0 || m.InUse < 0 {
		return -1
	}
	return max(0, m.Limit-m.InUse)
}

// isFull returns nil where a device that had no memory for four bytes is only full, and else
// err: once a device is lost, CUDA's pool answers that there is no memory.
func (w *Worker) isFull(device int, err error) error {
	if device >= len(w.pools) {
		return nil
	}
	p, failed := w.pools[device].Memory()
	if failed != nil {
		return failed
	}
	if p.Free+p.Held-p.Used > noticed {
		return err
	}
	return nil
}

// noticed is how much free memory, in bytes, tells a lost device from a full one: a pool takes
// less than that from a GPU at a time.
const noticed = 64 << 20

// little says that so many bytes more need no check of the device's memory, which costs time.
// The caller holds w.mu.
func (w *Worker) little(bytes int64) bool {
	return bytes < hungry && (len(w.pools) == 0 || w.bytes+bytes < w.deviceLimit/2)
}

// affords refuses an array that there is no memory for on a device whose limit is kept here.
func (w *Worker) affords(device int, bytes int64) error {
	w.mu.Lock()
	little := w.little(bytes)
	w.mu.Unlock()
	if little || device >= len(w.pools) {
		return nil
	}
	_, left, err := w.memory(device)
	if err != nil || left < 0 || bytes <= left {
		return nil
	}
	return wire.Errorf(wire.OutOfMemory, "an array needs %s, and %s of the device's memory are free", megabytes(bytes), megabytes(left))
}

// otherProcesses is how much of the devices the limits would allow, and others have, in bytes:
// other processes, and what CUDA needs itself.
func (w *Worker) otherProcesses() (bytes int64) {
	for i := range w.pools {
		if m, left, err := w.memory(i); err == nil && left >= 0 {
			bytes += max(0, leftOf(m)-left)
		}
	}
	return bytes
}

// unused has the pools release what no array and no program has.
func (w *Worker) unused() {
	for _, p := range w.pools {
		if err := p.Trim(); err != nil {
			w.Logf("memory of a GPU: %v", err)
		}
	}
}
