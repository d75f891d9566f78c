package main

import (
	"context"
	"strings"

	"gaiden/lib/engine/wire"
)

// The functions and magics that take names of what the session holds, by what
// they name. What another package calls so gets the same names, which does no harm.
var takesNames = map[string]string{
	"Array": "arrays", "Arrays": "arrays", "Delete": "arrays", "List": "arrays", "Named": "arrays", "%arrays": "arrays",
	"Data": "sets", "Upload": "sets",
	"New": "nets", "Attach": "nets", "%phases": "nets", "%bottleneck": "nets", "%roofline": "nets", "%sweep": "nets",
	"Rollback": "snapshots", "Diff": "snapshots", "Discard": "snapshots", "Export": "snapshots", "%snapshot": "snapshots", "%rollback": "snapshots",
	"FollowJob": "jobs", "PauseJob": "jobs", "ResumeJob": "jobs", "StopJob": "jobs", "ForgetJob": "jobs", "%jobs": "jobs", "%job": "jobs",
	"%programs": "programs",
}

// sessionNames is a notebook's Named: it asks the session, if one runs. A call
// of the session takes well under a millisecond for each thousand names.
func sessionNames(_ context.Context, call string) (names []string) {
	what := takesNames[call]
	if what == "" {
		return nil
	}
	s, err := inNotebook()
	if err != nil {
		return nil
	}
	defer s.Close()
	switch what {
	case "snapshots":
		l, _ := s.Snapshots() // without an answer nothing is offered
		for _, x := range l {
			names = append(names, x.Name)
		}
	case "jobs":
		l, _ := s.Jobs()
		for _, x := range l {
			names = append(names, x.Name)
		}
	case "programs":
		if a, err := s.Ask(wire.AskBody{Verb: wire.Programs}); err == nil {
			for _, x := range a.Programs {
				names = append(names, x.Hash)
			}
		}
	default:
		l, _ := s.List("")
		for _, x := range l {
			if name := nameOf(what, x.Name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// nameOf is the array's own name, or that of the set or net that it is part of.
func nameOf(what, array string) string {
	switch what {
	case "sets": // data/mnist/train/x
		if rest, ok := strings.CutPrefix(array, "data/"); ok {
			return rest[:max(0, strings.LastIndexByte(rest, '/'))]
		}
		return ""
	case "nets": // cnn/conv/weights, cnn/step
		name, ok := strings.CutSuffix(array, "/step")
		if !ok {
			return ""
		}
		return name
	}
	return array
}
