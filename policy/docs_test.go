package policy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinfold/policy"
)

const page = "../docs/policy.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocsNameEveryField: a field is documented as `field`, by its dotted
// name or, in the parts of an entry, its last one.
func TestDocsNameEveryField(t *testing.T) {
	t.Parallel()
	text := readPage(t)
	for _, schema := range []func() ([]byte, error){policy.Schema, policy.NeedsSchema, policy.ConfigSchema} {
		data, err := schema()
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		eachProperty(doc, "", func(name string, _ map[string]any) {
			limits := strings.HasPrefix(name, "defaults.") || strings.HasPrefix(name, "ceilings.")
			last := name[strings.LastIndexByte(name, '.')+1:]
			part := slices.Contains([]string{"path", "literal", "as", "host", "tls"}, last)
			switch {
			case limits, last == "literal" && strings.Contains(text, `"literal": true`):
			case part && (strings.Contains(text, "`"+last+"`") || strings.Contains(text, "`"+last+": ")):
			case !strings.Contains(text, "`"+name+"`"):
				t.Errorf("%s doesn't name %s", page, name)
			}
		})
	}
}

var block = regexp.MustCompile("(?ms)^```jsonc?\n(.*?)^```$")

func TestDocsExamplesParse(t *testing.T) {
	t.Parallel()
	blocks := block.FindAllStringSubmatch(readPage(t), -1)
	if len(blocks) < 3 {
		t.Fatalf("%s has %d examples", page, len(blocks))
	}
	for i, b := range blocks {
		if _, err := policy.Parse([]byte(b[1]), fmt.Sprintf("example %d", i+1)); err != nil {
			t.Error(err)
		}
	}
}

// indented is an example of something else than a policy.
var indented = regexp.MustCompile(`(?m)^ +(\{".*\})$`)

func TestDocsOtherExamplesParse(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(readPage(t), "\n## Needs\n")
	examples := indented.FindAllStringSubmatch(rest, -1)
	if len(examples) != 2 {
		t.Fatalf("got %d examples, want one of needs and one of settings", len(examples))
	}
	if _, err := policy.ParseNeeds([]byte(examples[0][1]), "needs"); err != nil {
		t.Error(err)
	}
	if _, err := policy.ParseConfig([]byte(examples[1][1]), "settings"); err != nil {
		t.Error(err)
	}
}

// TestDocsTables: the lists of denies and guarded names are written from the
// tables; -update rewrites them.
func TestDocsTables(t *testing.T) {
	t.Parallel()
	text := readPage(t)
	want := section(section(text, "denies", deniesTable()), "guarded", guardedTable())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Errorf("%s lists other paths than the tables hold: go test ./policy -run DocsTables -update", page)
	}
}

// section replaces what stands between two markers of a name.
func section(text, name, table string) string {
	start, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, _ := strings.Cut(text, start)
	if _, after, found := strings.Cut(rest, end); found {
		rest = after
	}
	return before + start + table + end + rest
}

func deniesTable() string {
	user := policy.DefaultDenies(policy.DefaultContext{GOOS: "linux", UID: 1000, Home: "/h", RuntimeDir: "/r", SSHAuthSock: "/s"})
	root := policy.DefaultDenies(policy.DefaultContext{GOOS: "linux", UID: 0, Home: "/h"})
	mac := policy.DefaultDenies(policy.DefaultContext{GOOS: "darwin", UID: 1000, Home: "/h", SSHAuthSock: "/s"})
	macRoot := policy.DefaultDenies(policy.DefaultContext{GOOS: "darwin", UID: 0, Home: "/h"})
	var b strings.Builder
	row := func(title, lift string, denies []policy.DefaultDeny, kind policy.DenyKind, except ...policy.DefaultDeny) {
		known := map[string]bool{}
		for _, d := range except {
			known[d.Path] = true
		}
		var names []string
		for _, d := range denies {
			if d.Kind == kind && !known[d.Path] {
				names = append(names, "`"+strings.Replace(d.Text, "/run/user/1000", "/run/user/UID", 1)+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", title, lift, strings.Join(names, " "))
	}
	b.WriteString("| what | lifted by | paths |\n|---|---|---|\n")
	row("credentials, histories, profiles", "read.allow", user, policy.KindCredential)
	row("the machine's, for root", "read.allow", root, policy.KindSystem)
	row("escape sockets", "sockets", user, policy.KindEscapeSocket)
	fmt.Fprintf(&b, "| credentials, histories: what these variables name | `read.allow` | %s |\n", strings.Join(movedNames(), " "))
	row("macOS, besides: credentials", "read.allow", mac, policy.KindCredential, user...)
	row("macOS: the machine's, for root", "read.allow", macRoot, policy.KindSystem)
	row("macOS, besides: sockets", "sockets", mac, policy.KindEscapeSocket, user...)
	return b.String()
}

func movedNames() []string {
	var out []string
	for _, m := range policy.MovedCredentials() {
		text := "`$" + m.Variable + "`"
		if len(m.Names) > 0 {
			text = ""
			for _, n := range m.Names {
				text += " `$" + m.Variable + "/" + n + "`"
			}
		}
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

func guardedTable() string {
	names := policy.GuardedWorkspaceNames()
	var b strings.Builder
	row := func(title, dir string, names []string) {
		var quoted []string
		for _, name := range names {
			quoted = append(quoted, "`"+path.Join(dir, name)+"`")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", title, strings.Join(quoted, " "))
	}
	b.WriteString("| where | names |\n|---|---|\n")
	row("the top of the workspace and of each git repository", "", names.Top)
	row("each repository, and whatever `core.hooksPath` names, and `.git` where it is a file", ".git", names.GitDir)
	row("submodules", ".git/modules/*", names.GitModule)
	row("worktrees", ".git/worktrees/*", names.GitWorktree)
	row("git directories that aren't there yet, in those of submodules and worktrees too", ".git", []string{"modules"})
	row("a home that a write grant holds", "~", names.Home)
	for _, agent := range names.Agents {
		title := "an agent's own directory"
		switch {
		case agent.Dir == "":
			title = "a home that a write grant holds"
		case agent.Variable != "":
			title += ", unless the command's `" + agent.Variable + "` names it"
		}
		row(title, path.Join("~", agent.Dir), agent.Names)
	}
	var named []string
	for _, v := range names.Variables {
		for _, p := range v.Paths("/", "") {
			named = append(named, strings.TrimSuffix("$"+v.Variable+p, "/"))
		}
	}
	row("what your variables name, where a write grant holds it", "", named)
	return b.String()
}
