"""Fixed operators with an MLP against message passing on graphs: the nodes that each can distinguish, and its
learning."""
