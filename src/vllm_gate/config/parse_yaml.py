"""YAML with the place of every value."""

from __future__ import annotations

from typing import Any

import yaml

from vllm_gate.config.syntax import DEEPEST, Duplicate, Lines, Parsed, Route, SyntaxProblem

_MOST_NODES = 20_000  # aliases let a short text grow without bound


def parse_yaml(text: str) -> Parsed:
    """Parse one YAML document. Keys are taken as texts (`on` stays "on"). Raises SyntaxProblem with the place."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise SyntaxProblem("the file holds nothing but comments", 1, 1)
        reader = _Reader(loader)
        return reader.read(root, ()), reader.places, reader.duplicates
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SyntaxProblem(_words(error), *place) from None
    except yaml.reader.ReaderError as error:
        place = Lines(text).place(error.position)
        raise SyntaxProblem("a control character is not allowed here; remove it", *place) from None


class _Reader:
    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._nodes = 0
        self.places: dict[Route, tuple[int, int]] = {}
        self.duplicates: list[Duplicate] = []

    def read(self, node: yaml.Node, route: Route) -> Any:
        """The value of `node`; fills `places` and `duplicates` on the way."""
        self._nodes += 1
        if self._nodes > _MOST_NODES or len(route) > DEEPEST:
            raise SyntaxProblem("too large or too deep to be a configuration", *_place(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, route)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*route, index)) for index, item in enumerate(node.value)]
        try:
            return self._loader.construct_object(node)
        except (ValueError, LookupError, AttributeError) as error:  # whatever PyYAML's own conversions run into
            raise SyntaxProblem(
                f"{node.value[:60]!r} can't be read as a value; put it in quotes", *_place(node)
            ) from error

    def _mapping(self, node: yaml.MappingNode, route: Route) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise SyntaxProblem("a key must be a plain text", *_place(key_node))
            own = (*route, str(key_node.value))
            if key_node.value in values:
                self.duplicates.append(Duplicate(own, self.places[own], _place(key_node)))
            self.places[own] = _place(key_node)
            values[key_node.value] = self.read(value_node, own)
        return values

    def _item(self, node: yaml.Node, route: Route) -> Any:
        self.places[route] = _place(node)
        return self.read(node, route)


def _words(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's problem; some of them only go on with what the context began."""
    problem, context = error.problem or "not valid YAML", error.context or ""
    return f"{context} {problem}" if problem.startswith("but ") else problem


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
