package portable

import "embed"

// Source is the source of this package, for modules that carry it with them.
//
//go:embed json.go net.go program.go replay.go weights.go
var Source embed.FS
