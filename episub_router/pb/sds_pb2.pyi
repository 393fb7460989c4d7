from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SdsMessage(_message.Message):
    __slots__ = ("sender_id", "message_id", "channel_id", "lamport_timestamp", "causal_history", "bloom_filter", "repair_request", "content")
    SENDER_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    LAMPORT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CAUSAL_HISTORY_FIELD_NUMBER: _ClassVar[int]
    BLOOM_FILTER_FIELD_NUMBER: _ClassVar[int]
    REPAIR_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    sender_id: str
    message_id: str
    channel_id: str
    lamport_timestamp: int
    causal_history: _containers.RepeatedScalarFieldContainer[bytes]
    bloom_filter: bytes
    repair_request: _containers.RepeatedCompositeFieldContainer[HistoryEntry]
    content: bytes
    def __init__(self, sender_id: _Optional[str] = ..., message_id: _Optional[str] = ..., channel_id: _Optional[str] = ..., lamport_timestamp: _Optional[int] = ..., causal_history: _Optional[_Iterable[bytes]] = ..., bloom_filter: _Optional[bytes] = ..., repair_request: _Optional[_Iterable[_Union[HistoryEntry, _Mapping]]] = ..., content: _Optional[bytes] = ...) -> None: ...

class HistoryEntry(_message.Message):
    __slots__ = ("message_id", "retrieval_hint", "sender_id")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIEVAL_HINT_FIELD_NUMBER: _ClassVar[int]
    SENDER_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    retrieval_hint: bytes
    sender_id: str
    def __init__(self, message_id: _Optional[str] = ..., retrieval_hint: _Optional[bytes] = ..., sender_id: _Optional[str] = ...) -> None: ...

class NimBloomFilter(_message.Message):
    __slots__ = ("words", "capacity", "error_rate_ppm", "hashes", "bits")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ERROR_RATE_PPM_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    words: bytes
    capacity: int
    error_rate_ppm: int
    hashes: int
    bits: int
    def __init__(self, words: _Optional[bytes] = ..., capacity: _Optional[int] = ..., error_rate_ppm: _Optional[int] = ..., hashes: _Optional[int] = ..., bits: _Optional[int] = ...) -> None: ...

class StoreRequest(_message.Message):
    __slots__ = ("topic", "channel_id", "get", "range", "heads")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    channel_id: str
    get: Get
    range: Range
    heads: Heads
    def __init__(self, topic: _Optional[str] = ..., channel_id: _Optional[str] = ..., get: _Optional[_Union[Get, _Mapping]] = ..., range: _Optional[_Union[Range, _Mapping]] = ..., heads: _Optional[_Union[Heads, _Mapping]] = ...) -> None: ...

class Get(_message.Message):
    __slots__ = ("message_ids", "hashes")
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    hashes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, message_ids: _Optional[_Iterable[str]] = ..., hashes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("lamport", "message_id")
    LAMPORT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    lamport: int
    message_id: str
    def __init__(self, lamport: _Optional[int] = ..., message_id: _Optional[str] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("after", "until", "limit", "ids_only")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    IDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    after: Key
    until: Key
    limit: int
    ids_only: bool
    def __init__(self, after: _Optional[_Union[Key, _Mapping]] = ..., until: _Optional[_Union[Key, _Mapping]] = ..., limit: _Optional[int] = ..., ids_only: bool = ...) -> None: ...

class Heads(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StoreResponse(_message.Message):
    __slots__ = ("status", "reason", "items", "unknown_ids", "unknown_hashes", "next", "heads")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[StoreResponse.Status]
        OK: _ClassVar[StoreResponse.Status]
        BAD_REQUEST: _ClassVar[StoreResponse.Status]
        UNKNOWN_CHANNEL: _ClassVar[StoreResponse.Status]
        TOO_MANY_REQUESTS: _ClassVar[StoreResponse.Status]
        UNAVAILABLE: _ClassVar[StoreResponse.Status]
    UNSPECIFIED: StoreResponse.Status
    OK: StoreResponse.Status
    BAD_REQUEST: StoreResponse.Status
    UNKNOWN_CHANNEL: StoreResponse.Status
    TOO_MANY_REQUESTS: StoreResponse.Status
    UNAVAILABLE: StoreResponse.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_IDS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_HASHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    status: StoreResponse.Status
    reason: str
    items: _containers.RepeatedCompositeFieldContainer[Item]
    unknown_ids: _containers.RepeatedScalarFieldContainer[str]
    unknown_hashes: _containers.RepeatedScalarFieldContainer[bytes]
    next: Key
    heads: HeadsAnswer
    def __init__(self, status: _Optional[_Union[StoreResponse.Status, str]] = ..., reason: _Optional[str] = ..., items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., unknown_ids: _Optional[_Iterable[str]] = ..., unknown_hashes: _Optional[_Iterable[bytes]] = ..., next: _Optional[_Union[Key, _Mapping]] = ..., heads: _Optional[_Union[HeadsAnswer, _Mapping]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("key", "message", "origin")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    key: Key
    message: bytes
    origin: Origin
    def __init__(self, key: _Optional[_Union[Key, _Mapping]] = ..., message: _Optional[bytes] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("seqno", "signature", "key", "topics", "from_id")
    SEQNO_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    FROM_ID_FIELD_NUMBER: _ClassVar[int]
    seqno: bytes
    signature: bytes
    key: bytes
    topics: _containers.RepeatedScalarFieldContainer[str]
    from_id: bytes
    def __init__(self, seqno: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., key: _Optional[bytes] = ..., topics: _Optional[_Iterable[str]] = ..., from_id: _Optional[bytes] = ...) -> None: ...

class HeadsAnswer(_message.Message):
    __slots__ = ("heads", "count", "segments")
    HEADS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    heads: _containers.RepeatedCompositeFieldContainer[Key]
    count: int
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    def __init__(self, heads: _Optional[_Iterable[_Union[Key, _Mapping]]] = ..., count: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("after", "until", "count", "fingerprint")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    after: Key
    until: Key
    count: int
    fingerprint: int
    def __init__(self, after: _Optional[_Union[Key, _Mapping]] = ..., until: _Optional[_Union[Key, _Mapping]] = ..., count: _Optional[int] = ..., fingerprint: _Optional[int] = ...) -> None: ...
