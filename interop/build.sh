#!/bin/sh
# Builds the interop peers from their lock files. Without its toolchain a peer is left out, and
# says so; with CI=true that is an error.
set -eu
cd "$(dirname "$0")"

# has TOOL PEER: whether the toolchain is there.
has() {
  command -v "$1" >/dev/null && return
  echo "$1 is not there: no $2 peer."
  test -z "${CI:-}" || exit 1
  return 1
}

if has npm js; then
  test js/gossipsub/node_modules/.package-lock.json -nt js/gossipsub/package-lock.json ||
    npm ci --silent --no-audit --no-fund --prefix js/gossipsub
fi
if has go go; then
  (cd go && GOFLAGS=-mod=readonly go build -trimpath -o bin/ ./gossipsub ./leaf)
fi
if has cargo rust; then
  cargo build --quiet --locked --release --manifest-path rust/Cargo.toml
fi
