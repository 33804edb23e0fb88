#!/bin/sh
# Builds the stub for each architecture (default: amd64 arm64) into stub/bin,
# where package stub embeds it. The bytes depend on the sources and the Go
# version alone, and a file is replaced only when they differ, so that an
# unchanged stub doesn't rebuild what embeds it.
set -eu
cd "$(dirname "$0")/.."
for arch in ${*:-amd64 arm64}; do
	out=stub/bin/$arch/init
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOFLAGS= \
		go build -trimpath -buildvcs=false -ldflags '-s -w -funcalign 16 -buildid=' -o "$out.tmp" ./stub/init
	if cmp -s "$out.tmp" "$out"; then
		rm "$out.tmp"
	else
		mv "$out.tmp" "$out"
	fi
	# A launch needs the digest, and is quicker for not computing it.
	sha256sum "$out" | cut -d ' ' -f 1 >"$out.sha256.tmp"
	if cmp -s "$out.sha256.tmp" "$out.sha256"; then
		rm "$out.sha256.tmp"
	else
		mv "$out.sha256.tmp" "$out.sha256"
	fi
done
