#!/bin/sh
# Makes episub_router/pb/ from proto/. Run it from the repository's root. protobuf refuses
# gencode that is newer than its runtime: use a grpcio-tools whose protoc is not newer than the
# oldest protobuf that pyproject.toml allows.
set -eu
for file in proto/*.proto; do
  "${PYTHON:-python}" -m grpc_tools.protoc --proto_path=episub_router/pb=proto \
    --python_out=. --pyi_out=. "episub_router/pb/$(basename "$file")"
done
