"""The documents that experiments come from, with their links."""

from __future__ import annotations

from typing import NamedTuple

from dynascope.experiments import documents


class Reference(NamedTuple):
    """A document: who wrote it, when, what it is, and where to read it (the papers a thesis consists of)."""

    authors: str
    year: int
    what: str
    links: tuple[tuple[str, str], ...]
    """Pairs of a name and an address."""

    @property
    def url(self) -> str:
        return self.links[0][1]


def _arxiv(number: str) -> tuple[str, str]:
    return f"arXiv:{number}", f"https://arxiv.org/abs/{number}"


REFERENCES = {
    documents.CONCEPTS: Reference(
        "Yongyi Yang, Core Francisco Park, Ekdeep Singh Lubana, Maya Okawa, Wei Hu, Hidenori Tanaka",
        2024,
        "ICLR 2025, published as “Swing-by Dynamics in Concept Learning and Compositional Generalization”",
        (_arxiv("2410.08309"),),
    ),
    documents.SIMPLE_STRUCTURES: Reference(
        "Lei Chen",
        2025,
        "PhD thesis, New York University; Chapter 2 is “On Graph Neural Networks versus Graph-Augmented MLPs”, with "
        "Zhengdao Chen and Joan Bruna, Chapter 3 “Beyond the Edge of Stability via Two-step Gradient Updates”, with "
        "Joan Bruna, Chapter 4 “Distributional Associations vs In-Context Reasoning”, with Joan Bruna and "
        "Alberto Bietti",
        (_arxiv("2010.15116"), _arxiv("2206.04172"), _arxiv("2406.03068")),
    ),
    documents.CENTRAL_FLOWS: Reference(
        "Jeremy Cohen, Alex Damian, Ameet Talwalkar, J. Zico Kolter, Jason D. Lee",
        2025,
        "ICLR 2025",
        (_arxiv("2410.24206"),),
    ),
    documents.EDGE_OF_STABILITY: Reference(
        "Jeremy Cohen, Simran Kaur, Yuanzhi Li, J. Zico Kolter, Ameet Talwalkar",
        2021,
        "ICLR 2021",
        (_arxiv("2103.00065"),),
    ),
    documents.ADAPTIVE_EDGE: Reference(
        "Jeremy Cohen, Behrooz Ghorbani, Shankar Krishnan, Naman Agarwal, Sourabh Medapati, Michal Badura, Daniel Suo, "
        "David Cardoze, Zachary Nado, George Dahl, Justin Gilmer",
        2022,
        "preprint",
        (_arxiv("2207.14484"),),
    ),
    documents.OVER_PARAMETERIZED: Reference(
        "Libin Zhu",
        2024,
        "PhD thesis, University of California San Diego; its chapters are papers on the transition to linearity, on "
        "quadratic models and on catapults in SGD, with Chaoyue Liu, Adityanarayanan Radhakrishnan and Mikhail Belkin",
        (_arxiv("2205.11786"), _arxiv("2205.11787"), _arxiv("2306.04815")),
    ),
    documents.GRADUAL_RANK: Reference(
        "Enric Boix-Adserà, Etai Littwin, Emmanuel Abbe, Samy Bengio, Joshua Susskind",
        2023,
        "NeurIPS 2023",
        (_arxiv("2306.07042"),),
    ),
}
"""By the title under which `Source` names a document."""
