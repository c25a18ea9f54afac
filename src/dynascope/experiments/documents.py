"""The titles of the documents that experiments come from; `lab.references` has their authors and links."""

CONCEPTS = "Dynamics of Concept Learning and Compositional Generalization"
SIMPLE_STRUCTURES = "Simple structures in neural networks: on expressiveness, optimization and data distribution"
OVER_PARAMETERIZED = "Toward Understanding the Dynamics of Over-parameterized Neural Networks"
GRADUAL_RANK = "Transformers learn through gradual rank increase"
CENTRAL_FLOWS = "Understanding optimization in deep learning with central flows"
EDGE_OF_STABILITY = "Gradient descent on neural networks typically occurs at the edge of stability"
ADAPTIVE_EDGE = "Adaptive gradient methods at the edge of stability"
