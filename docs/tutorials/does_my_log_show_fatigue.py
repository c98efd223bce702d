"""Find fatigue in a log, say what it costs, and do not be fooled."""

# %% [markdown]
# # Does my log show fatigue?
#
# Users saw adverts, and clicked or not. Does one more showing of an advert make the next click on
# it less likely? By how much, and for how long? This page answers from a log, and shows how not
# to be fooled.
#
# **In one command**, on a file of yours:
#
# ```bash
# influential-bandits diagnose clicks.csv --instance user --arm ad --reward click
# ```
#
# It prints a verdict in words and writes `results/diagnosis/report.html`. In Python, or in a
# notebook, `ib.diagnose(log)` gives the same report. The rest of this page goes through it step by
# step, on a made-up `clicks.csv` whose truth is known.

# %%
import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import influential_bandits as ib

USERS, SHOWINGS, ADVERTS = 400, 50, 4


def make_up(fatigue, hours, seed):
    """Return clicks by user, in the order of time; all sizes are log odds of a click."""
    random = np.random.default_rng(seed)
    visits = np.sort(random.uniform(0.0, 60.0 * 86_400.0, (USERS, SHOWINGS // 5)))
    time = np.repeat(visits, 5, axis=1) + np.tile(60.0 * np.arange(5), SHOWINGS // 5)
    taste = 0.5 * random.standard_normal((USERS, ADVERTS))
    phase = random.uniform(0.0, 24.0, ADVERTS)  # the hour that suits each advert
    recent, everybody = np.zeros((USERS, ADVERTS)), np.arange(USERS)
    ad, click, lost = (np.zeros((USERS, SHOWINGS)) for _ in range(3))
    for n in range(SHOWINGS):
        hour = time[:, [n]] / 3600.0 % 24.0
        suits = hours * np.cos(2.0 * np.pi * (hour - phase) / 24.0)
        shown = np.argmax(suits + random.gumbel(size=suits.shape), axis=1)
        odds = (taste + suits)[everybody, shown] - 1.0
        tired = odds - fatigue * recent[everybody, shown]  # of recent showings of this advert
        chance, rested = (1.0 / (1.0 + np.exp(-x)) for x in (tired, odds))
        ad[:, n], lost[:, n] = shown, rested - chance
        click[:, n] = random.random(USERS) < chance
        recent *= 0.8
        recent[everybody, shown] += 1.0
    columns = {"user": np.repeat(everybody, SHOWINGS), "time": np.floor(time.ravel())}
    columns["ad"] = np.char.add("ad ", ad.ravel().astype(int).astype(str))
    return columns | {"click": click.ravel().astype(int)}, lost.sum()


events, lost = make_up(fatigue=0.25, hours=0.0, seed=1)
with Path("clicks.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(events)
    writer.writerows(zip(*events.values(), strict=True))

# %% [markdown]
# ## Read the log
#
# A log needs a user, what was shown (the *arm*), and how good it was. A time and a finer *item*
# (here there is none) help to rule other causes out. Columns of usual names are found; others are
# named, as in `arm="banner"`. Bad rows are refused with their line numbers; nothing is dropped
# without a word ([how to read a log](../how_to/read_a_log.md)).

# %%
log = ib.read_log("clicks.csv")
print(log)
print(log.about["columns"])
print(log.about["times"])
print(log.to_frame().head())

# %% [markdown]
# ## Look first
#
# The simplest picture: clicks against how often the same advert was among the last five.

# %%
recent = np.zeros(len(log))
for user in np.unique(events["user"]):
    mine = np.flatnonzero(events["user"] == user)
    ads = events["ad"][mine]
    for place, event in enumerate(mine):
        recent[event] = np.sum(ads[max(0, place - 5) : place] == ads[place])
levels = np.arange(4)
rates = [events["click"][recent == level].mean() for level in levels]

figure, ax = plt.subplots(figsize=(6, 3.2))
ax.plot(levels, rates, "o-")
ax.set(xlabel="showings of the same advert among the last five", ylabel="share of clicks")
ax.set_title("Clicks fall with every recent showing of the same advert")
ax.set_ylim(0)
plt.show()

# %% [markdown]
# A falling line is not proof. Hours of the day, the order of items, or users who are shown what
# they like can draw the same picture without any fatigue.
#
# ## Test it
#
# `influence_test` predicts every click from what was known before it: the user, the advert, the
# hour, the position in the session, and the item where a log has one. It asks whether recent
# showings say anything more.
# Placebo checks put later showings in their place: these cannot have acted.

# %%
test = ib.influence_test(log, permutations=199, seed=0)
print(test)

# %% [markdown]
# ## Say what it costs
#
# A p-value is not a cost, and neither is a share of the error: clicks are mostly chance, so that
# even strong fatigue explains little of them. Fit a model and ask it in clicks:

# %%
model = ib.InfluenceModel("symmetric", fading=test.fading, pooling="full")
model.fit(ib.adjust_losses(log))
impact = ib.measure_impact(model, log)
truth = lost / (lost + events["click"].sum())
print(impact)
print(f"\nThe truth of this made-up log: fatigue took {truth:.0%} of all clicks.")

# %% [markdown]
# ## Would it cry wolf?
#
# Now a log without any fatigue. What users are shown depends on the hour, and the hour changes
# what they click. A test without controls is fooled by that; `influence_test` is not.

# %%
harmless, _ = make_up(fatigue=0.0, hours=0.9, seed=2)
harmless_log = ib.read_log(harmless)
fooled = ib.influence_test(harmless_log, controls=(), permutations=199, seed=0, placebo=False)
careful = ib.influence_test(harmless_log, permutations=199, seed=0)
print(f"without controls: p = {fooled.p_value:.3f}, with controls: p = {careful.p_value:.3f}")

# %% [markdown]
# How often this happens was counted on thousands of made-up logs
# ([the table](../explanation/influence_test.md)). Two cases stay hard: sessions that have an
# interest of their own, and tastes that drift while choices follow them.
#
# ## What next
#
# - Act on it: [plans and caps](../explanation/plans.md) say what to show instead, with the gain to
#   expect. An A/B test decides.
# - Start a policy from this log: `ib.Foresight(prior=model.prior())`, in
#   [Which policy should I run?](which_policy_should_i_run.md)
