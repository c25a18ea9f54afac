"""Fixed operators with an MLP against message passing on graphs: what each can tell apart, and what it learns."""
