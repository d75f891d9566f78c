package portable

import "embed"

// Source is the source of this package and of package tabular, for modules that carry it with them.
//
//go:embed json.go net.go program.go replay.go weights.go tabular/answers.go tabular/tabular.go
var Source embed.FS
