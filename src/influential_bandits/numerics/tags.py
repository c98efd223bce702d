"""Tags: empty values whose type chooses, by a digest, the code that a compiled loop calls.

A compiled loop that takes functions as arguments cannot be cached on disk. It takes a tag instead,
and what it calls on the tag is resolved when the loop is compiled. The cache then holds one entry
for each digest: edited code has another one, and old code is never run.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from numba.core import types
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

from influential_bandits.numerics.recompiling import LinkedCompiler

INLINED = {"forceinline": True, "error_model": "numpy"}  # tagged code becomes a part of the loop
BETWEEN = {**INLINED, "pipeline_class": LinkedCompiler}  # and so does what calls it there


class CodeTag:
    """Stands for code in calls of compiled functions."""

    digest: str

    @cached_property
    def _numba_type_(self) -> TagType:
        """The type, where Numba looks before it asks: a call then takes 6 µs instead of 16."""
        return TagType(self.digest)


class TagType(types.Type):
    """The type of a tag: all of its meaning is in its name."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__(name=f"Code({digest})")


register_model(TagType)(models.OpaqueModel)


@typeof_impl.register(CodeTag)
def _type_of_tag(tag: CodeTag, context: object) -> TagType:
    return tag._numba_type_


@unbox(TagType)
def _unbox_tag(typ: TagType, tag: object, c: Any) -> NativeValue:
    return NativeValue(c.context.get_dummy_value())
