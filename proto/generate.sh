#!/bin/sh
# Makes episub_router/pb/ from proto/. Run it from the repository's root; PYTHON names the
# interpreter that has the "dev" extra. Its grpcio-tools (1.74 to 1.80, protoc 31.1) write code
# for protobuf 6.31.1 and later, and the runtime range in pyproject.toml starts above that.
set -eu
PYTHON=$(command -v "${PYTHON:-python}")
PATH=$(dirname "$PYTHON"):$PATH # protoc-gen-mypy is there
for file in proto/*.proto; do
  "$PYTHON" -m grpc_tools.protoc --proto_path=episub_router/pb=proto \
    --python_out=. --mypy_out=quiet:. "episub_router/pb/$(basename "$file")"
done
