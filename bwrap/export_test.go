package bwrap

// Input lets tests hand in what only the guard may make.
type Input = input

// TranslateInput is Translate without a Grant.
func TranslateInput(in Input, m Machine, o Options) (*Launch, error) { return translate(in, m, o) }

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
