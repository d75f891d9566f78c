package fit

import (
	"context"
	"fmt"
	"os"
	"reflect"
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
	about := runs.Run{Net: n.name, Began: r.began, From: int(steps[0]), Notebook: n.session.Space(), Machine: sysinfo.Read(r.ctx).String(), Settings: map[string]string{}}
	about.Settings["Data"] = r.data.String()
	addSettings(about.Settings, n.config)
	addSettings(about.Settings, r.Train)
	if code, err := os.ReadFile(os.Getenv(session.CodeEnv)); err == nil {
		about.Code = string(code)
	}
	if s, err := n.Summary(); err == nil {
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

// addSettings adds the fields that are set, as Go has them.
func addSettings(to map[string]string, settings any) {
	v := reflect.ValueOf(settings)
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if value.IsZero() || field.Name == "Log" || field.Name == "Tokenizer" || field.Name == "Session" {
			continue
		}
		text := ""
		switch x := value.Interface().(type) {
		case *Set:
			text = x.Name
		default:
			if value.Kind() == reflect.Func {
				text = "set"
			} else if value.CanInt() || value.CanFloat() || value.Kind() == reflect.Bool || value.Kind() == reflect.String {
				text = fmt.Sprint(x)
			} else {
				text = fmt.Sprintf("%#v", x)
			}
		}
		const longest = 200
		if s := []rune(text); len(s) > longest {
			text = string(s[:longest-1]) + "…"
		}
		to[field.Name] = strings.ReplaceAll(text, "\n", " ")
	}
}
