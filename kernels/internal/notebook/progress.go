package notebook

import (
	"maps"
	"slices"
	"sync"

	"gaiden/kernels/internal/raster"
)

// progress is the last state of what shows the progress of running cells, so that another
// cell can show it: a page that was loaded again gets none of it.
type progress struct {
	mu      sync.Mutex
	running map[string]map[string]any // by display id
	ended   map[string]any            // the last one that has ended
}

// form is a state of a display with an id, for front ends; more says that others follow.
func (p *progress) form(id string, data, metadata map[string]any, more bool) (map[string]any, map[string]any) {
	data, metadata = form(data, metadata, more)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.running[id]
	switch {
	case more && p.running == nil:
		p.running = map[string]map[string]any{id: data}
	case more:
		p.running[id] = data
	case known:
		delete(p.running, id)
		p.ended = data
	}
	return data, metadata
}

// form is what an output's images need to be shown everywhere; those of one that changes are
// made for speed.
func form(data, metadata map[string]any, more bool) (map[string]any, map[string]any) {
	if more {
		return raster.Live(data), metadata
	}
	return raster.Complete(data, metadata)
}

func (p *progress) all() (all []map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.running)) {
		all = append(all, p.running[id])
	}
	if len(all) == 0 && p.ended != nil {
		all = append(all, p.ended)
	}
	return all
}
