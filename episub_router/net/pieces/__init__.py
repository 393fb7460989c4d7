"""Large messages: cut and signed here, sent by turns, checked and handed to Pubsub whole."""
