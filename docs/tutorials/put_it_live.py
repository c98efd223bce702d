"""Serve decisions over HTTP, with an A/B test, to made-up users."""

# %% [markdown]
# # How do I put it live?
#
# **In one command:**
#
# ```bash
# pip install influential-bandits
# influential-bandits serve --store shop.db     # prints its address and the first key
# ```
#
# A request asks for a decision for a user. The service decides, writes the decision to disk, and
# answers. Feedback comes later, or never. An A/B test runs along. To see it with made-up users and
# a page to look at: `influential-bandits shop` (or `make live` in the repository).
#
# This page does the same in one script: start the service, let users come, read the verdict.

# %%
import matplotlib.pyplot as plt
import numpy as np

import influential_bandits as ib

GOODS = ["tea", "coffee", "milk", "cake"]
rng = np.random.default_rng(0)

# %% [markdown]
# ## Made-up users
#
# Each user likes other goods, and tires of what was shown lately. A loss is how little a user
# liked what was shown.

# %%
USERS, ROUNDS = 300, 25
names = [f"user {number}" for number in range(USERS)]
taste = rng.normal(0.0, 0.7, (USERS, len(GOODS)))
tired = np.zeros((USERS, len(GOODS)))
influence = 0.5 * np.eye(len(GOODS)) + 0.2  # each showing tires of the same good, and of all


def show(user, good):
    """Return the loss of a user who is shown a good, and tire the user."""
    loss = 1.0 + taste[user, good] + tired[user, good] + rng.normal(0.0, 0.5)
    tired[user] = 0.9 * tired[user] + influence[good]
    return loss


# %% [markdown]
# ## Start a service, make an experiment
#
# `state="shared"` learns how showings influence each other from all users together, and the taste
# of each from their own feedback. `control_share=0.5` serves half of the users at random goods:
# the control group of the A/B test. In your shop a tenth may do.

# %%
with ib.live.serve_in_background("shop.db") as (address, key):
    client = ib.live.Client(address, key, experiment="shop")
    client.create(GOODS, state="shared", control_share=0.5)

    decision = client.decide("ann", eligible=["tea", "milk"])
    client.feed_back(decision, loss=0.3)
    print("shown to ann:", decision.arm, "- probability", decision.probability)

    curves = {"policy": [], "control": []}
    for _ in range(ROUNDS):
        decisions = client.decide_many(names)
        goods = [GOODS.index(decision.arm) for decision in decisions]
        losses = [show(user, good) for user, good in enumerate(goods)]
        client.feed_back_many(zip(decisions, losses, strict=True))
        for group, curve in curves.items():
            chosen = [made.group == group for made in decisions]
            curve.append(np.mean(losses, where=chosen))

    report = client.report()
    log = client.read_log()

# %% [markdown]
# Users come and go as they like; here all of them come in every round, so that one picture shows
# what the service has learned.

# %%
figure, ax = plt.subplots(figsize=(6, 3.4))
for group, curve in curves.items():
    ax.plot(range(1, ROUNDS + 1), curve, label=group)
ax.set(xlabel="visits of each user", ylabel="mean loss")
ax.set_title("Users whom the policy serves lose less than the control group")
ax.legend()
plt.show()

# %% [markdown]
# ## The verdict
#
# The interval of the A/B test holds at every moment at once: look whenever you like, and stop when
# it excludes zero.

# %%
print(report["verdict"])
print(f"{report['difference']:+.2f} a decision ({report['low']:+.2f} … {report['high']:+.2f})")
print(log)

# %% [markdown]
# ## What next
#
# - The log leads back to [Does my log show fatigue?](does_my_log_show_fatigue.md)
# - Every decision can be computed again from what is on disk: `influential-bandits replay shop.db`
# - [Serve decisions](../how_to/serve_decisions.md): keys, late feedback, shadow mode, several
#   services on PostgreSQL, erasure, what is guaranteed and what was measured.
# - [The interface](../reference/service.md), call by call.
