package event

import "encoding/json"

// Schema is the JSON Schema (draft 2020-12) of one line.
func Schema() []byte {
	text := func(about string) map[string]any { return map[string]any{"type": "string", "description": about} }
	number := func(about string) map[string]any {
		return map[string]any{"type": "integer", "minimum": 0, "description": about}
	}
	stamp := text("when it happened, UTC")
	stamp["format"] = "date-time"
	kind, action := text("what it is about"), text("what was done about it")
	kind["enum"] = []Kind{Network, Socket, Path, Env, Limit, Signal, Boundary, Persistence}
	action["enum"] = []Action{Denied, Allowed, Withheld, Noticed, Dropped}
	schema := map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "pinfold event",
		"description":          "one line of --events",
		"type":                 "object",
		"required":             []string{"time", "run", "kind", "action"},
		"additionalProperties": false,
		"properties": map[string]any{
			"time": stamp, "run": text("the run's identifier"), "kind": kind, "action": action,
			"target":      text("host:port, path or variable name"),
			"address":     text("the address dialled or refused"),
			"rule":        text("the policy entry that decided"),
			"reason":      text("a code, such as not_listed"),
			"hint":        text("the policy entry that would allow it"),
			"via":         text("http, connect, socks5 or transparent"),
			"pid":         number("the process that asked, where known"),
			"program":     text("its program, where known"),
			"up":          number("bytes sent out"),
			"down":        number("bytes brought in"),
			"duration_ns": number("how long it took, in nanoseconds"),
			"count":       number("how many events one line stands for"),
		},
	}
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("internal error: cannot encode the event schema: " + err.Error())
	}
	return append(out, '\n')
}
