#!/bin/sh
# Makes the Go code here from proto/episub.proto and pubsub.proto. Run it from the repository's
# root; PYTHON names the interpreter that has the "dev" extra.
set -eu
PB=interop/go/internal/pb
BIN=$(mktemp -d)
trap 'rm -r "$BIN"' EXIT
(cd $PB && go build -o "$BIN/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go)
PATH=$BIN:$PATH
"${PYTHON:-python}" -m grpc_tools.protoc --proto_path=proto --proto_path=$PB \
  --go_out=$PB --go_opt=module=episub-interop/internal/pb \
  --go_opt=Mepisub.proto=episub-interop/internal/pb --go_opt=Mpubsub.proto=episub-interop/internal/pb \
  episub.proto pubsub.proto
