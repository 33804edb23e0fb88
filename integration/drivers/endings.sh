#!/bin/sh
# Run commands to every kind of end and tell the ends apart by the result
# alone, with nothing but sed to read it.
#
# usage: endings.sh PINFOLD DIRECTORY
#
# DIRECTORY is empty and the caller's.
set -u
pinfold=$1 home=$2
export HOME="$home" XDG_CONFIG_HOME="$home/config"
mkdir -p "$home/ws" "$home/config" || exit 2
cd "$home/ws" || exit 2
echo 'no program' > plain
cases=0 wrong=0

# Linux tells how a process ended that isn't a child since 6.15; before, the
# end by a signal is the exit code that shells give it.
tells_signals() {
	major=$(uname -r | cut -d. -f1) minor=$(uname -r | cut -d. -f2)
	[ "$major" -gt 6 ] || { [ "$major" -eq 6 ] && [ "${minor%%[!0-9]*}" -ge 15 ]; }
}

# signaled NAME NUMBER: the ending of a command that a signal ended.
signaled() { if tells_signals; then echo "signaled $1"; else echo "exited $((128 + $2))"; fi; }

# first NAME: the value of a member, before everything that a nested object could hold.
first() { sed "s/,\"phase\":.*//" "$home/result" | sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }

ending() {
	case $(first reason) in
	exited) echo "exited $(first exit)" ;;
	signaled) echo "signaled $(first signal)" ;;
	timeout) echo "timeout $(first stop)" ;;
	interrupted) echo "interrupted" ;;
	refused | unavailable)
		if grep -q '"not_run":' "$home/result"; then
			echo "not run: $(sed -n 's/.*"not_run":{"code":"\([a-z_]*\)".*/\1/p' "$home/result")"
		else
			echo "$(first reason): $(sed -n 's/.*"refusal":{[^}]*"code":"\([a-z_]*\)".*/\1/p' "$home/result")"
		fi
		;;
	*) echo "unknown: $(cat "$home/result")" ;;
	esac
}

# check WANTED POLICY FLAGS... -- COMMAND...
check() {
	want=$1
	echo "$2" > "$home/policy.json"
	shift 2
	rm -f "$home/result"
	"$pinfold" wrap --quiet --state "$home/state" --policy "$home/policy.json" --result "$home/result" "$@" >/dev/null 2>&1
	code=$?
	got=$(ending)
	cases=$((cases + 1))
	if [ "$got" != "$want" ] || [ "$code" != "$(first exit)" ]; then
		echo "got '$got' (exit code $code), wanted '$want' of: $*"
		wrong=$((wrong + 1))
	fi
}

plain='{"version": 1, "write": ["{workspace}"]}'
limit() { echo "{\"version\": 1, \"write\": [\"{workspace}\"], \"limits\": $1}"; }

check 'exited 0' "$plain" -- true
check 'exited 1' "$plain" -- false
check 'exited 123' "$plain" -- sh -c 'exit 123'
check 'exited 124' "$plain" -- sh -c 'exit 124'
check 'exited 125' "$plain" -- sh -c 'exit 125'
check 'exited 126' "$plain" -- sh -c './plain 2>/dev/null; exit 126'
check 'exited 127' "$plain" -- sh -c 'exit 127'
check 'exited 255' "$plain" -- sh -c 'exit 255'
check "$(signaled SIGKILL 9)" "$plain" -- sh -c 'kill -KILL $$'
check "$(signaled SIGTERM 15)" "$plain" -- sh -c 'kill -TERM $$'
check "$(signaled SIGABRT 6)" "$plain" -- sh -c 'kill -ABRT $$'
check "$(signaled SIGXFSZ 25)" "$(limit '{"file_size": "64k"}')" -- sh -c 'exec head -c 200000 /dev/zero > big'
check 'timeout term' "$(limit '{"timeout": "500ms"}')" -- sleep 60
check 'timeout kill' "$(limit '{"timeout": "500ms"}')" --grace 200ms -- sh -c 'trap "" TERM; while :; do sleep 1; done'
check 'timeout term' "$(limit '{"idle_timeout": "500ms"}')" -- sleep 60
check 'not run: not_found' "$plain" -- no-such-command
check 'not run: not_executable' "$plain" -- ./plain
check 'refused: policy_invalid' '{"version": 2}' -- true
check 'refused: write_missing' '{"version": 1, "write": ["~/missing"]}' -- true
check 'refused: bad_usage' "$plain" --grace never -- true
check 'unavailable: requirement_unmet' '{"version": 1, "require": ["magic"]}' -- true
check 'refused: workspace_missing' "$plain" --workspace "$home/none" -- true

echo "$cases endings, $wrong wrong"
[ "$wrong" = 0 ]
