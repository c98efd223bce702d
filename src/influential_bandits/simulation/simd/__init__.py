"""Replicas in SIMD lanes: many runs with few arms, played side by side in vector registers.

A round of a run with few arms is a chain of a dozen dependent operations: the processor mostly
waits. Runs do not depend on each other, so that a *group* of 8 or 16 of them advances together,
each in its own *lane* of the vector registers: every instruction does its work for all of them.

**Layout.** All that a group knows lies in one flat array of *slots*. A slot is one float64 for each
lane, so that number ``slot * lanes + lane`` belongs to one run, and a slot is what a register or
two hold. Each lane has an interaction and initial losses of its own: the runs of a group may
belong to different instances.

**Without branches.** Lanes choose different arms but run the same instructions. What depends on the
choice is *picked*: each arm's value is loaded and the lane of the chosen arm keeps it. The number
of arms is part of the compiled code's type (as the length of a tuple), so that a round is
straight-line code, written as vector instructions of LLVM: how a round is compiled does not depend
on what the automatic vectoriser recognises.

**Noise first.** Noise does not depend on choices. It is drawn for a block of rounds, in loops which
the compiler vectorises by itself, and then the block is played.

**The same bits.** Each lane does the operations of ``kernels.advance_runs`` in the same order, none
fused: sums as in ``ordered_dot``, comparisons as in ``lowest_arm``. Tests compare all counts.
"""
