package policy

// BeyondSchema reports whether JSON Schema can't express the rule that a
// document breaks.
func BeyondSchema(e *ParseError) bool { return e.beyondSchema }
