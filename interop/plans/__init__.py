"""The GossipSub interop tests of libp2p's test-plans: our nodes for them, their scenarios here."""
