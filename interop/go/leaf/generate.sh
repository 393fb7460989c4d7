#!/bin/sh
# Makes pb/ from proto/episub.proto and pubsub.proto. Run it from the repository's root; PYTHON
# names the interpreter that has the "dev" extra.
set -eu
LEAF=interop/go/leaf
BIN=$(mktemp -d)
trap 'rm -r "$BIN"' EXIT
(cd $LEAF && go build -o "$BIN/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go)
PATH=$BIN:$PATH
"${PYTHON:-python}" -m grpc_tools.protoc --proto_path=proto --proto_path=$LEAF \
  --go_out=$LEAF --go_opt=module=episub-interop/leaf \
  --go_opt=Mepisub.proto=episub-interop/leaf/pb --go_opt=Mpubsub.proto=episub-interop/leaf/pb \
  episub.proto pubsub.proto
