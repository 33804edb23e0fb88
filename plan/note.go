package plan

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// EncodeNote writes what pinfold notes for itself, and reads back: as a plan
// is written, so that a path that isn't UTF-8 comes back as it was.
// encoding/json would put U+FFFD for what it can't hold, and another file
// would be looked for.
func EncodeNote(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true),
		json.WithMarshalers(json.JoinMarshalers(json.MarshalToFunc(writeString), json.MarshalToFunc(writeDuration))))
	if err != nil {
		return nil, fmt.Errorf("cannot write a note: %w", err)
	}
	return b, nil
}

// DecodeNote reads what [EncodeNote] wrote, or encoding/json before it.
// Members that it doesn't know are of another version, and left out.
func DecodeNote(b []byte, v any) error {
	return json.Unmarshal(b, v,
		json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(readString), json.UnmarshalFromFunc(readDuration))))
}

// writeDuration writes nanoseconds, as encoding/json does.
func writeDuration(e *jsontext.Encoder, d time.Duration) error {
	return e.WriteToken(jsontext.Int(int64(d)))
}

func readDuration(d *jsontext.Decoder, v *time.Duration) error {
	var n int64
	if err := json.UnmarshalDecode(d, &n); err != nil {
		return err
	}
	*v = time.Duration(n)
	return nil
}
