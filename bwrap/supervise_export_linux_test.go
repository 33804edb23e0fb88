package bwrap

// The rest is what the tests try.
var (
	ParseStat    = func(b []byte) error { _, err := parseStat(b); return err }
	ParseStatus  = func(s string) error { _, err := parseStatus(s); return err }
	JoinKeyring  = joinKeyring
	FailureError = failureError
	FirstLines   = firstLines
	Unpack       = func(body, oob []byte, flags int) error {
		p, err := unpack(body, oob, flags)
		if err == nil {
			p.close()
		}
		return err
	}
)
