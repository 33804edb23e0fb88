package container

// Input is what a translation reads of a Grant.
type Input = input

// TranslateInput translates without a guard.
func TranslateInput(in Input, info Info, img Image, o Options, h Host) (*Launch, error) {
	return translate(in, info, img, o, h)
}

// Respell rewrites one word.
var Respell = respell
