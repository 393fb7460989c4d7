"""SDS: causal order and end-to-end reliability over a pubsub topic."""
