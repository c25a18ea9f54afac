"""Prompts for pretrained language models, which tell recall from the association "preposition, then the".

"Simple structures in neural networks", Sections 4.3 and 4.5, Appendices C.1 and C.7. The facts and the single words are
the document's; the sentences, the cities and the names are written for this library, none with "the" before its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynascope import checks

ASSOCIATION = " the"
"""The word that follows prepositions by association, with the space before it."""


class Prompt(NamedTuple):
    """A beginning of a sentence, and words that may come next, each with a space before it."""

    text: str
    """The beginning of the sentence."""
    target: str
    """The word that an understanding of the prompt gives."""
    subject: str = ""
    """In an indirect-object prompt, the other name."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DEMO = Prompt("When Mary and John went to a store, John gave a drink to", " Mary", " John")
"""The document's indirect-object prompt."""
MADRID = Prompt("Madrid is located in", " Spain")
"""The prompt of Table 4.1."""
FACTS = tuple(
    Prompt(*pair)
    for pair in (
        ("The Great Wall is located in", " China"),
        ("Mount Kilimanjaro is located in", " Tanzania"),
        ("The Nobel Prize is awarded in", " Sweden"),
        ("The Statue of Liberty stands in", " New York Harbor"),
        ("Vatican City is enclosed within", " Rome"),
        ("The Acropolis is situated in", " Athens"),
        ("The Sydney Opera House is located on", " Bennelong Point"),
        ("The Galápagos Islands belong to", " Ecuador"),
        ("The Aurora Borealis can be seen in", " Norway"),
        ("The Amazon River flows through", " Brazil"),
        ("The Andes Mountains extend through", " Chile"),
        ("Machu Picchu is found in", " Peru"),
        ("The Kremlin is located in", " Moscow"),
        ("Uluru is a landmark found in", " Australia"),
        ("Petra is an archaeological city in", " Jordan"),
        ("Angkor Wat is located in", " Cambodia"),
        ("The city of Toronto is in", " Canada"),
        ("The city of Barcelona is in", " Spain"),
        ("The city of Mumbai is in", " India"),
        ("The Eiffel Tower is located in", " Paris"),
    )
)
"""The facts of Table C.3."""
UNUSED = ("The Nobel", "The Statue", "The Sydney", "The Aurora", "The Andes")
REFERENCE_FACTS = (*(fact for fact in FACTS if not fact.text.startswith(UNUSED)), MADRID)
"""The 16 facts of the measurements on SmolLM2: those of the document whose target is one token there, and Madrid."""
PREPOSITIONS = _words(
    "about above across after against along around at before behind below beneath beside between by during for from in "
    "inside into near of on over through to under with without"
)
"""The 30 prompts of Figure C.1, left."""
CITIES = tuple(
    Prompt(f"{city} is a city in", f" {country}")
    for city, country in (
        pair.split(":")
        for pair in _words(
            "Lyon:France Marseille:France Munich:Germany Hamburg:Germany Naples:Italy Turin:Italy Seville:Spain "
            "Valencia:Spain Osaka:Japan Kyoto:Japan Shanghai:China Guangzhou:China Delhi:India Chennai:India "
            "Melbourne:Australia Brisbane:Australia Vancouver:Canada Montreal:Canada Lagos:Nigeria Alexandria:Egypt "
            "Lima:Peru Casablanca:Morocco Krakow:Poland Porto:Portugal Istanbul:Turkey Karachi:Pakistan Nairobi:Kenya "
            "Havana:Cuba Bergen:Norway Gothenburg:Sweden Dublin:Ireland Athens:Greece"
        )
    )
)
"""Cities and their countries: facts that were not used in any search."""
NAMES = _words(
    "James Robert John Michael David William Richard Thomas Daniel Matthew Anthony Mark Paul Steven Andrew Kevin Brian "
    "George Edward Peter Henry Frank Scott Eric Mary Emma Lisa Sarah Anna Laura Karen Nancy Susan Linda Helen Sandra "
    "Ashley Emily Amy Rachel Julia Maria Alice Jane Kate Martha Grace Rose Claire Diana Lucy Ellen"
)
"""First names, each one token in the usual vocabularies."""
PLACES = ("a store", "a park", "a school", "an office", "a restaurant", "a station")
GIFTS = ("a drink", "a book", "a ring", "a letter", "a basketball", "a computer")
SENTENCES = tuple(
    f"{beginning} {preposition}"
    for preposition, beginnings in {
        "without": (
            "She left her house early this morning",
            "No plant of this kind can grow",
            "He crossed a whole desert",
            "They finished dinner and went home",
            "It is hard to cook a good soup",
            "My brother never travels",
            "You cannot open this old box",
        ),
        "during": (
            "A loud noise woke everybody up",
            "Many shops stay closed",
            "Our teacher told us a story",
            "Two students fell asleep",
            "Prices rose by a third",
        ),
        "beneath": (
            "A small fish was hiding",
            "They found an old coin",
            "Her letters were kept in a drawer",
            "Miners work all day in tunnels",
            "An animal dug its home",
        ),
        "around": (
            "Children were running",
            "A tall fence had been built",
            "He tied a rope",
            "Planets of this star move",
            "We walked slowly",
        ),
        "before": ("Please wash your hands", "I had never seen him", "Everyone went to bed"),
        "over": ("A bird flew", "Two dogs jumped", "She spread a blanket"),
        "with": ("He filled his bag", "A farmer came into town", "I agreed at once"),
        "above": ("A lamp was hanging", "An eagle circled high"),
        "along": ("We drove for hours", "Trees had been planted"),
        "about": ("Nobody wanted to talk",),
        "across": ("An old man swam",),
        "in": ("My keys must be",),
        "behind": ("A cat was sitting quietly",),
        "inside": ("It was warm and dry",),
    }.items()
    for beginning in beginnings
)
"""40 beginnings that end in a preposition, each preposition as often as in Appendix C.7.1."""
REFERENCE_INDIRECT_OBJECTS = tuple(
    Prompt(f"When {a} and {b} went to a store, {b} gave a drink to", f" {a}", f" {b}")
    for a, b in (
        pair.split("-")
        for pair in _words(
            "Robert-Lisa Emma-Mary David-Lisa Lisa-Mark Alice-Paul Laura-Alice Mark-David Sarah-Lisa Sarah-Robert "
            "James-Alice David-Daniel Sarah-Lisa James-Laura Tom-Daniel Peter-Paul James-Anna Emma-Anna Mark-David "
            "Lisa-Paul David-Mary Mary-John Robert-Laura Mary-Alice Lisa-Emma Peter-James Peter-Laura Tom-James "
            "Paul-James Sarah-Robert Daniel-John"
        )
    )
)
"""The 30 indirect-object prompts of the measurements on SmolLM2, from 16 names."""


def indirect_objects(count: int, *, seed: int = 0, varied: bool = False, names: Sequence[str] = NAMES) -> list[Prompt]:
    """Prompts "When A and B went to a store, B gave a drink to", with the target A and the subject B.

    Args:
        count: Number of prompts.
        seed: Seed of the names, drawn without replacement, the subject first or second.
        varied: Whether places and gifts vary too.
        names: The names.
    """
    checks.whole("count", count, at_least=1)
    checks.whole("seed", seed, at_least=0)
    checks.flags(varied=varied)
    if isinstance(names, str) or len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise TypeError(f"names must be two names or more; got {checks.shown(names)}")
    draw, found = np.random.default_rng(seed), []
    for _ in range(count):
        target, subject = (str(name) for name in draw.choice(np.array(names), 2, replace=False))
        first, second = (target, subject) if draw.random() < 0.5 else (subject, target)
        place, gift = (str(draw.choice(PLACES)), str(draw.choice(GIFTS))) if varied else (PLACES[0], GIFTS[0])
        text = f"When {first} and {second} went to {place}, {subject} gave {gift} to"
        found.append(Prompt(text, f" {target}", f" {subject}"))
    return found
