package fit

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"gaiden/lib/runs"
	"gaiden/lib/session"
	"gaiden/lib/sysinfo"
)

// runLog is the log of a run; nil without Train.Log.
type runLog struct{ *runs.Log }

// startLog begins to log the run, which Progress is told of.
func (r *run) startLog() (*runLog, error) {
	if r.Log == "" {
		return nil, nil
	}
	n := r.net
	steps := make([]int32, 1)
	if a, err := n.session.Array(n.name + "/step"); err != nil {
		return nil, err
	} else if err := a.Values(steps); err != nil {
		return nil, err
	}
	about := runs.Run{Net: n.name, Began: r.began, From: int(steps[0]), Notebook: n.session.Space(), Machine: strings.ReplaceAll(sysinfo.Read(r.ctx).String(), "\n", "; "), Settings: map[string]string{}}
	about.Settings["Data"] = r.data.String()
	addSettings(about.Settings, n.config)
	addSettings(about.Settings, r.Train)
	if code, err := os.ReadFile(os.Getenv(session.CodeEnv)); err == nil {
		about.Code = string(code)
	}
	if s, err := n.summary(); err == nil {
		for _, row := range s.Rows {
			about.Layers = append(about.Layers, runs.Layer{Name: row.Name, Kind: row.Kind})
		}
	}
	log, err := runs.Begin(r.Log, about)
	if err != nil {
		return nil, fmt.Errorf("fit: %s: %w", n.name, err)
	}
	if log.Note != "" {
		r.note(log.Note)
	}
	seen := r.Progress
	r.Progress = func(p Progress) {
		log.Progress(p)
		if seen != nil {
			seen(p)
		}
	}
	return &runLog{log}, nil
}

// end writes how the run ended. A log that could not be written does not fail a training.
func (l *runLog) end(r *run, err error) {
	if l == nil {
		return
	}
	if err != nil && isEnd(r.ctx, err) {
		err = context.Canceled
	}
	if err := l.End(r.history, err); err != nil {
		r.note(err.Error())
	}
}

// addSettings adds the fields that are set.
func addSettings(to map[string]string, settings any) {
	v := reflect.ValueOf(settings)
	for i := range v.NumField() {
		name, value := v.Type().Field(i).Name, v.Field(i)
		if value.IsZero() || slices.Contains([]string{"Log", "Progress", "Quiet", "Tokenizer", "Session", "Origin"}, name) {
			continue
		}
		const longest = 200
		text := []rune(literal(value))
		if len(text) > longest {
			text = append(text[:longest-1], '…')
		}
		to[name] = string(text)
	}
}

// literal is a value as Go has it, without the fields that are not set.
func literal(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface:
		return literal(v.Elem())
	case reflect.Func:
		return "func"
	case reflect.Pointer:
		if s, is := v.Interface().(*Set); is {
			return s.Name
		}
		return "&" + literal(v.Elem())
	case reflect.Slice:
		var l []string
		for i := range v.Len() {
			l = append(l, literal(v.Index(i)))
		}
		return strings.Join(l, ", ")
	case reflect.Struct:
		var l []string
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
				l = append(l, f.Name+": "+literal(v.Field(i)))
			}
		}
		return v.Type().String() + "{" + strings.Join(l, ", ") + "}"
	}
	return strings.ReplaceAll(fmt.Sprint(v), "\n", " ")
}
