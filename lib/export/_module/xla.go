//go:build xla

package NAME

import (
	"github.com/gomlx/compute"
	_ "github.com/gomlx/go-xla/compute/xla"
)

func init() { compute.DefaultConfig = "xla" }
