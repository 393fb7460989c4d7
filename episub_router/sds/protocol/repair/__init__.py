"""Missing messages: asking peers, asking the group (SDS-R), answering the group."""
