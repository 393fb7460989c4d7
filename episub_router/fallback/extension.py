"""Saying in gossipsub v1.3's control message that we speak Episub, and hearing it of others."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from libp2p.peer.id import ID
from libp2p.pubsub.extensions import ExtensionsState
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb


class EpisubExtension(ExtensionsState):
    """py-libp2p's record of extensions, whose announcement names Episub as well."""

    def __init__(self, announced: bool) -> None:
        super().__init__()
        self._announced = announced

    def build_hello_extensions(self, peer_id: ID, hello: rpc_pb2.RPC) -> rpc_pb2.RPC:
        """Add to the first RPC of a stream to `peer_id`, which speaks /meshsub/1.3.0."""
        hello = super().build_hello_extensions(peer_id, hello)
        if self._announced:
            announcement = pb.EpisubExtensions(episub=True)
            hello.control.extensions.MergeFromString(announcement.SerializeToString())
        return hello


def announces_episub(rpc: rpc_pb2.RPC) -> bool:
    """Whether the sender of `rpc` says in it that it speaks Episub."""
    if not rpc.control.HasField("extensions"):
        return False
    try:
        extensions = pb.EpisubExtensions.FromString(rpc.control.extensions.SerializeToString())
    except DecodeError:
        return False
    return extensions.episub
