"""The size of a message is what protobuf says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from libp2p.pubsub.pb.rpc_pb2 import Message

from episub_router.util.message_size import has_unknown_fields, message_size

_bytes = st.none() | st.binary(max_size=300)


@given(
    fields=st.fixed_dictionaries(dict.fromkeys(("from_id", "seqno", "signature", "key"), _bytes)),
    size=st.none() | st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 2_100_000]),
    topics=st.lists(st.text(max_size=200), max_size=3),
    unknown=st.booleans(),
)
def test_it_is_what_protobuf_says(
    fields: dict[str, bytes | None], size: int | None, topics: list[str], unknown: bool
) -> None:
    present = {name: value for name, value in fields.items() if value is not None}
    message = Message(topicIDs=topics, **present)
    if size is not None:
        message.data = bytes(size)
    if unknown:
        message.MergeFromString(b"\x9a\x06\x03abc")
    assert has_unknown_fields(message) == unknown
    assert message_size(message) == message.ByteSize()
