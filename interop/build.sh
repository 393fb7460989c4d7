#!/bin/sh
# Builds the interop peers that are named (js, go, rust; without a name all of them) from their
# lock files. Without its toolchain a peer is left out, and says so; with CI=true that is an error.
set -eu
cd "$(dirname "$0")"

# has TOOL PEER: whether the toolchain is there.
has() {
  command -v "$1" >/dev/null && return
  echo "$1 is not there: no $2 peer."
  test -z "${CI:-}" || exit 1
  return 1
}

test $# -gt 0 || set -- js go rust
for peer; do
  case $peer in
  js)
    has npm js || continue
    test js/gossipsub/node_modules/.package-lock.json -nt js/gossipsub/package-lock.json ||
      npm ci --loglevel=error --no-audit --no-fund --prefix js/gossipsub
    ;;
  go)
    has go go || continue
    (cd go && GOFLAGS=-mod=readonly go build -trimpath -o bin/ ./gossipsub ./leaf ./episub)
    ;;
  rust)
    has cargo rust || continue
    cargo build --quiet --locked --release --manifest-path rust/Cargo.toml
    ;;
  *)
    echo >&2 "there is no peer $peer to build"
    exit 2
    ;;
  esac
done
