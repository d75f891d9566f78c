package device

import (
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// The memory of a GPU comes from the pool that CUDA's driver keeps for the process, by XLA's
// allocator "cuda_async". XLA's own, BFC, divides memory that it never gives back, and leaves
// pieces: where one that a program needs was larger than any of them XLA failed, and lost
// what it had got until then, 2 GB of 3.5 in DeepPose's training. The driver moves pages
// together, and other processes can have what is unused. But it knows no limit: it is kept
// here, by GAIDEN_MEMORY_FRACTION.

// allocatorOption names the allocator of a CUDA client.
const allocatorOption = "allocator"

// unusedFor is how long nobody asks a session with a GPU for anything until it gives back
// what is unused. To have a gigabyte again takes some 20 ms.
const unusedFor = 10 * time.Second

// usualShare is how much of a GPU's memory a session takes at most where nothing is said.
const usualShare = 0.75

// gpuMemory is a GPU's pool, and the limit, in bytes, of what is taken from it.
type gpuMemory struct {
	*pjrt.Pool
	limit int64
}

// openPools finds the pools of a client's devices. The client has been made with their allocator.
func (w *Worker) openPools() error {
	share, ok := w.Plugin.Options[fractionOption].(float64)
	if !ok {
		share = usualShare
	}
	for _, d := range w.devices {
		p, err := d.Pool()
		if err != nil {
			return err
		}
		m, err := p.Memory()
		if err != nil {
			return err
		}
		g := gpuMemory{p, int64(share * float64(m.Total))}
		if err := p.Keep(g.limit); err != nil {
			return err
		}
		w.pools = append(w.pools, g)
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

// little says that bytes more are for no device to notice: to look takes 15 µs on a GPU, and
// 0.1 ms on a CPU. The caller holds w.mu.
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

// elsewhere is how much of the devices the limits would allow, and others have, in bytes:
// other processes, and what CUDA needs itself.
func (w *Worker) elsewhere() (bytes int64) {
	for i := range w.pools {
		if m, left, err := w.memory(i); err == nil && left >= 0 {
			bytes += max(0, leftOf(m)-left)
		}
	}
	return bytes
}

// unused has the pools give back what no array and no program has.
func (w *Worker) unused() {
	for _, p := range w.pools {
		if err := p.Trim(); err != nil {
			w.Logf("memory of a GPU: %v", err)
		}
	}
}
