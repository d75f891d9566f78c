package gaidenstack

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// What the program was given.
var (
	file         = os.Getenv("GAIDEN_PROCESS") // to which Leave writes
	directory, _ = os.Getwd()
	environment  = variables()
	leaving      sync.Mutex
)

func variables() map[string]string {
	out := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		out[name] = value
	}
	return out
}

// Leave tells the kernel what the cell has changed of its process and the next
// cells' have as well, a line each, the fields quoted and separated by tabs:
//
//	"directory" path
//	"set" name value
//	"unset" name
func Leave() {
	if file == "" {
		return
	}
	leaving.Lock()
	defer leaving.Unlock()
	var b bytes.Buffer
	add := func(fields ...string) {
		for i, f := range fields {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(strconv.Quote(f))
		}
		b.WriteByte('\n')
	}
	if now, err := os.Getwd(); err == nil && now != directory {
		add("directory", now)
	}
	now := variables()
	for name, value := range now {
		if old, was := environment[name]; !was || old != value {
			add("set", name, value)
		}
	}
	for name := range environment {
		if _, is := now[name]; !is {
			add("unset", name)
		}
	}
	if b.Len() > 0 && os.WriteFile(file+".new", b.Bytes(), 0o600) == nil {
		os.Rename(file+".new", file)
	}
}
