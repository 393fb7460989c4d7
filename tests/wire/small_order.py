"""Ed25519 signatures with points of small order, which some libraries take (RFC 8032, section 5.1).

Arithmetic on the curve for tests alone: slow, and not in constant time.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

PRIME = 2**255 - 19
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, PRIME) % PRIME


class Point(NamedTuple):
    """A point of the curve in affine coordinates."""

    x: int
    y: int

    def __add__(self, other: object) -> Point:
        assert isinstance(other, Point)
        product = _D * self.x * other.x * self.y * other.y
        x = (self.x * other.y + self.y * other.x) * pow(1 + product, -1, PRIME)
        y = (self.y * other.y + self.x * other.x) * pow(1 - product, -1, PRIME)
        return Point(x % PRIME, y % PRIME)

    def times(self, scalar: int) -> Point:
        total, power = NEUTRAL, self
        while scalar:
            if scalar & 1:
                total += power
            power += power
            scalar >>= 1
        return total

    def encoded(self) -> bytes:
        return (self.y | (self.x & 1) << 255).to_bytes(32, "little")


def _with_y(y: int) -> Point:
    """The point of this y whose x is even."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert x * x % PRIME == square, "no point has this y"
    return Point(x if x % 2 == 0 else PRIME - x, y)


NEUTRAL = Point(0, 1)
BASE = _with_y(4 * pow(5, -1, PRIME) % PRIME)


def _of_order_8() -> Point:
    """What is left of a point without its part in the group of BASE."""
    for y in range(2, 100):
        try:
            found = _with_y(y).times(GROUP_ORDER)
        except AssertionError:
            continue
        if found.times(4) != NEUTRAL:
            return found
    raise AssertionError


SMALL = [_of_order_8().times(factor) for factor in range(8)]
"""All points whose order divides 8; `SMALL[a] + SMALL[b]` is `SMALL[(a + b) % 8]`."""


def _challenge(r: bytes, key: bytes, message: bytes) -> int:
    """k, reduced as libraries do it: with a key that has a part of small order that matters."""
    return int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % GROUP_ORDER


def _scalar_of(number: int) -> int:
    return int.from_bytes(hashlib.sha512(b"%d" % number).digest(), "little") % GROUP_ORDER


def signed_with_small_key(point: Point, message: bytes) -> bytes:
    """A signature of `message` with the public key `point`, for which no secret is needed: the
    key's part in the equation is the neutral element."""
    for s in range(1, 1000):
        r = BASE.times(s).encoded()
        if point.times(_challenge(r, point.encoded(), message) % 8) == NEUTRAL:
            return r + s.to_bytes(32, "little")
    raise AssertionError


class SmallR:
    """A key whose signatures have `point` as R. Where that isn't the neutral element, a point of
    order 8 is a part of the key, and has to make up for R: with some messages it does."""

    def __init__(self, point: Point, number: int) -> None:
        self._point = point
        self._secret = _scalar_of(number)
        self._part = SMALL[0 if point == NEUTRAL else 1]
        self.public = (BASE.times(self._secret) + self._part).encoded()

    def sign(self, message: bytes) -> bytes | None:
        r = self._point.encoded()
        k = _challenge(r, self.public, message)
        if self._point + self._part.times(k % 8) != NEUTRAL:
            return None
        return r + (k * self._secret % GROUP_ORDER).to_bytes(32, "little")


def vectors() -> list[dict[str, str]]:
    """For each of the points, as key and as R, a signature that the equation takes, in
    hexadecimal: interop/go/internal/payload/testdata/small_order.json."""
    message = b"message"
    made = []
    for point in SMALL:
        key = point.encoded()
        made.append(("key", key, signed_with_small_key(point, message)))
        keys = (SmallR(point, number) for number in range(1000))
        made.append(next(("R", k.public, s) for k in keys if (s := k.sign(message)) is not None))
    return [
        {"small": small, "key": key.hex(), "message": message.hex(), "signature": signature.hex()}
        for small, key, signature in made
    ]


def holds_by_the_equation(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether [S]B = R + [k]A, which RFC 8032 demands at least, and Go's library looks at alone."""
    s = int.from_bytes(signature[32:], "little")
    right = _decoded(signature[:32]) + _decoded(key).times(_challenge(signature[:32], key, message))
    return s < GROUP_ORDER and BASE.times(s) == right


def _decoded(raw: bytes) -> Point:
    number = int.from_bytes(raw, "little")
    point = _with_y(number & (1 << 255) - 1)
    return point if point.x & 1 == number >> 255 else Point(PRIME - point.x, point.y)
