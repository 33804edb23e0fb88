package bwrap

import (
	"slices"

	"pinfold/stub/wire"
)

// Input lets tests hand in what only the guard may make.
type Input = input

// TranslateInput is Translate without a Grant.
func TranslateInput(in Input, m Machine, o Options) (*Launch, error) { return translate(in, m, o) }

// InOrder are a launch's arguments in the order in which they are done.
func InOrder(l *Launch) ([]string, error) {
	args, err := withoutLater(l.Args, l.later)
	for i := range l.later {
		for _, op := range l.later[i].operations() {
			args = append(args, op...)
		}
	}
	return args, err
}

// ByHand is what the stub may compare where bubblewrap has mounted everything.
func ByHand(l *Launch) wire.Setup {
	s := l.Setup
	s.Checks = slices.DeleteFunc(slices.Clone(s.Checks), func(c wire.Check) bool {
		return slices.ContainsFunc(l.later, func(d later) bool { return d.device && d.path == c.Path })
	})
	return s
}

// Later are the paths that the supervisor covers.
func Later(l *Launch) (paths []string) {
	for i := range l.later {
		paths = append(paths, l.later[i].path)
	}
	return paths
}

// The rest is what the tests compare with.
var (
	ParseVersion  = parseVersion
	ComparePaths  = comparePaths
	IsBelow       = isBelow
	CommandEnv    = commandEnv
	ShellQuote    = shellQuote
	UnbuiltFields = func() []string {
		var names []string
		for _, u := range unbuiltFields {
			names = append(names, u.field)
		}
		return names
	}
)
