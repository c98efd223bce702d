"""Compare policies on a problem, and start one from a log."""

# %% [markdown]
# # Which policy should I run?
#
# **Take `Foresight()`.** It learns how arms influence each other while it plays, and asks for no
# setting. At the largest horizon it had the lowest mean regret of all policies on 18 of 24 families
# of instances ([leaderboard](../leaderboard.md), played before its value of a look was corrected).
# It has no theorem, and stayed with a bad arm in one or two instances of 2,000
# ([the tail](../explanation/scaling.md#the-tail-of-regrets)): where that must not happen, there is
# `InfluentialLCB()`.
#
# This page shows how to check that for a problem like yours, and what to add if you know more.

# %%
import matplotlib.pyplot as plt
import numpy as np

import influential_bandits as ib

# Each of three film genres tires of itself. Romances also tire of comedies and of dramas.
interaction = np.array([[0.3, 0.2, 0.0], [0.2, 0.6, 0.3], [0.0, 0.3, 0.4]])
world = ib.Instance(interaction, [0.2, 0.0, 0.5], arm_names=["comedy", "romance", "drama"])

# %% [markdown]
# ## How hard is it?
#
# In an easy world every arm belongs to the best mix, and a wrong pull is repaid later. In a hard
# world some arm should hardly be pulled, and finding that out costs.

# %%
print(ib.difficulty(world).reason)
best = ib.optimum(world, 1000)
for name, count in zip(world.arm_names, best.counts, strict=True):
    print(f"{name:8} {count:6.1f} of 1,000 rounds in the best mix")

# %% [markdown]
# ## Compare policies
#
# All of them meet the same noise, so that differences are differences of policies. *Regret* is
# what a policy loses beyond the best mix.

# %%
policies = [ib.Foresight(), ib.InfluentialLCB(), ib.LCB(), ib.Uniform()]
runs = ib.simulate(world, policies, 3000, ib.GaussianNoise(1.0), seeds=20)

for label, run in runs.items():
    print(f"{label:15} {run.regret()[..., -1].mean():10,.0f}")
ax = runs.plot()
ax.set_title("A policy that models influence has a fraction of the regret")
plt.show()

# %% [markdown]
# On many instances at once, with paired intervals and ranks:
#
# ```bash
# influential-bandits compare --quick --families random-3,block \
#     --policies Foresight,InfluentialLCB,LCB
# ```
#
# That takes a minute. Without `--quick`, with more instances and 100,000 rounds or more, it takes
# an hour or so; what was played is kept if you stop it.
#
# ## Tell it what you know
#
# - **You have a log**: `ib.Foresight(prior=model.prior())` starts from a fitted model (below).
# - **You know the number of rounds**: `ib.Foresight(horizon=3000)` plans for it.
# - **You know how fast influence fades**: `ib.Foresight(memory=0.9)`.
# - **You serve many users, some dozen rounds each**: a `Fleet` learns the influence from
#   everybody, and the taste of each ([many users](../explanation/fleets.md)).
# - **You are sure that nothing influences anything**: `ib.MOSS()`.
#
# A log is worth most: it says which arm to leave alone, so that the policy need not try. Here 500
# random films are logged, a model is fitted to them, and the policy starts from what it says:

# %%
logged = ib.simulate(world, ib.Uniform(), 500, ib.GaussianNoise(1.0), record=("choices", "losses"))
films = [world.arm_names[arm] for arm in logged.choices[0, 0]]
log = ib.EventLog(["one history"] * 500, films, logged.losses[0, 0])
model = ib.InfluenceModel(ridge=1e-3, shrinkage=0).fit(log)

warm = ib.Foresight(prior=model.prior(arm_names=list(world.arm_names)))
run = ib.simulate(world, warm, 3000, ib.GaussianNoise(1.0), seeds=20)
print(f"Foresight from a log: {run.regret()[..., -1].mean():,.2g}")
print(f"what the log itself cost: {logged.regret()[..., -1].mean():,.0f}")

# %% [markdown]
# Random films are dear. So do not log for the sake of logging: take the log that you have.
#
# ## What next
#
# - [All policies](../explanation/policies.md): what each one assumes and costs.
# - [Write your own](../how_to/write_a_policy.md) and put it beside these.
# - [Put it live](put_it_live.md).
