"""SDS over any py-libp2p Pubsub: channels, direct streams, store nodes."""
