"""Requests and answers as frames on streams of py-libp2p."""
